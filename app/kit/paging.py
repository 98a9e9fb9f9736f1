"""
Pages of a list: sorted by any column, cut after the item that the last page ended with.

Keyset paging: a page costs the same wherever it begins, and no item is shown twice or skipped
because others came or went.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    case,
    cast,
    or_,
    select,
)
from sqlalchemy.orm import Session

from app.errors import NotFound
from app.models import Base
from app.models.base import kind_of


@dataclass(frozen=True, slots=True)
class Page:
    """limit: most items, at least 1. marker: the identity of the last item of the page before."""

    limit: int
    marker: str | None = None
    sort_key: str = "id"
    descending: bool = False


def cut(
    session: Session | Connection,
    query: Select[Any],
    model: type[Base],
    page: Page,
    *,
    identity: str = "uuid",
) -> Select[Any]:
    """
    The query, sorted, from after the marker, with a limit.

    page.sort_key: a column. Raises NotFound for an unknown marker.
    """
    columns = model.__table__.c
    column, key = columns[page.sort_key], columns.id
    # where nulls go differs between databases, so it is said; and truth values have no order
    keys: list[ColumnElement[Any]] = [key]
    if column is not key:
        keys.insert(0, cast(column, Integer) if isinstance(column.type, Boolean) else column)
    if column.nullable:
        keys.insert(0, case((column.is_(None), 0), else_=1))
    if page.marker is not None:
        found = session.execute(select(*keys).where(columns[identity] == page.marker)).one_or_none()
        if found is None:
            raise NotFound(kind_of(model), page.marker)
        query = query.where(_beyond(keys, tuple(found), page.descending))
    ordered = [each.desc() if page.descending else each.asc() for each in keys]
    return query.order_by(*ordered).limit(page.limit)


def _beyond(
    keys: list[ColumnElement[Any]], values: tuple[Any, ...], descending: bool
) -> ColumnElement[bool]:
    """Rows whose keys come after the values, compared one by one."""
    ways: list[ColumnElement[bool]] = []
    equal: list[ColumnElement[bool]] = []
    for column, value in zip(keys, values, strict=True):
        if value is not None:
            ways.append(and_(*equal, column < value if descending else column > value))
        equal.append(column.is_(None) if value is None else column == value)
    return or_(*ways)
