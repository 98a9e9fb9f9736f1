"""
Keyset pagination: sort a list by any column, and continue after the last item of a page.

All pages cost the same, and no item is repeated or skipped because others were created or deleted.
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
    """A requested page of a list."""

    limit: int  # maximum number of items, at least 1
    marker: str | None = None  # identity of the previous page's last item; None: the first page
    sort_key: str = "id"  # name of a column
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
    Sort a query, start it after the marker, and limit it to the page.

    `identity` is the column that markers refer to.

    Raises NotFound: there is no item with this marker.
    """
    columns = model.__table__.c
    column, key = columns[page.sort_key], columns.id
    # databases differ in the position of nulls, and some do not compare booleans
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
    """Return the condition for rows whose keys come after the values, in lexicographic order."""
    alternatives: list[ColumnElement[bool]] = []
    equal: list[ColumnElement[bool]] = []
    for column, value in zip(keys, values, strict=True):
        if value is not None:
            alternatives.append(and_(*equal, column < value if descending else column > value))
        equal.append(column.is_(None) if value is None else column == value)
    return or_(*alternatives)
