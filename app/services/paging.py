"""
Pages of a list: sorted by any column, cut after the item that the last page ended with.

Keyset paging: a page costs the same wherever it begins, and no item is shown twice or skipped
because others came or went.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.errors import Invalid, NotFound
from app.models import Base


@dataclass(frozen=True, slots=True)
class Page:
    """limit: most items, at least 1. marker: the identity of the last item of the page before."""

    limit: int
    marker: str | None = None
    sort_key: str = "id"
    descending: bool = False


def cut(
    session: Session,
    query: Select[Any],
    model: type[Base],
    page: Page,
    *,
    identity: str = "uuid",
    unsortable: Collection[str] = (),
) -> Select[Any]:
    """
    The query, sorted, from after the marker, with a limit.

    Raises Invalid for a sort key that the model has not, NotFound for an unknown marker.
    """
    column = getattr(model, page.sort_key, None)
    if not isinstance(column, InstrumentedAttribute) or page.sort_key in unsortable:
        raise Invalid(f"The sort_key value {page.sort_key!r} is an invalid field for sorting")
    key: Any = model.__table__.c.id
    # where nulls go differs between databases, so it is said
    keys: list[ColumnElement[Any]] = [column.is_(None), column, key]
    if page.sort_key == "id" or not model.__table__.c[page.sort_key].nullable:
        del keys[0]
    if page.marker is not None:
        found = session.execute(
            select(*keys).where(getattr(model, identity) == page.marker)
        ).one_or_none()
        if found is None:
            raise NotFound(model.__tablename__.removesuffix("s"), page.marker)
        query = query.where(_beyond(keys, tuple(found), page.descending))
    ordered = [each.desc() if page.descending else each.asc() for each in keys]
    return query.order_by(*ordered).limit(page.limit)


def _beyond(
    keys: list[ColumnElement[Any]], values: tuple[Any, ...], descending: bool
) -> ColumnElement[bool]:
    """Rows whose keys come after the values, compared one by one."""
    ways, equal = [], []
    for column, value in zip(keys, values, strict=True):
        if value is not None:
            ways.append(and_(*equal, column < value if descending else column > value))
        equal.append(column.is_(None) if value is None else column == value)
    return or_(*ways)
