"""
Keyset pagination: sort a list by any column, and continue after the last item of a page.

All pages cost the same, and no item is repeated or skipped because others were created or deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    and_,
    cast,
    literal,
    select,
    true,
    tuple_,
)
from sqlalchemy.orm import Session

from app.errors import NotFound
from app.models import Base
from app.models.base import kind_of


@dataclass(frozen=True, slots=True)
class Page:
    """A requested page of a list."""

    limit: int  # maximum number of items, at least 1
    #: identity of the previous page's last item; None for the first page
    marker: str | int | None = None
    sort_key: str = "id"  # name of a column
    descending: bool = False


def fetch(
    session: Session | Connection,
    query: Select[*tuple[Any, ...]],
    model: type[Base],
    page: Page,
    *,
    among: ColumnElement[bool],
    identity: str = "uuid",
    reference: ColumnElement[int] | None = None,
) -> list[Row[*tuple[Any, ...]]]:
    """
    Return the rows of a page of the query: sorted by the column `page.sort_key`, then by id.

    Rows without a value come before all others, and after them in descending order.

    among: condition of the rows that the marker may identify. It must exclude those that the caller
    may not see: a page after such a row would disclose its values.
    reference: column of the query that refers to the ids of the model, and by whose index the query
    is read in their order. Else SQLite reads all rows of the model, where a table refers to few.

    Raises NotFound: none of them has the marker as its identity.
    """
    columns = model.__table__.c
    column, key = columns[page.sort_key], columns.id
    keys: list[ColumnElement[Any]] = [key]
    if column is not key:
        # PostgreSQL compares truth values, but SQLAlchemy does not
        keys.insert(0, cast(column, Integer) if isinstance(column.type, Boolean) else column)
    position = None
    if page.marker is not None:
        marked = select(*keys).where(columns[identity] == page.marker, among)
        position = session.execute(marked).one_or_none()
        if position is None:
            raise NotFound(kind_of(model), str(page.marker))
    if reference is not None:
        keys[-1] = reference
    query = query.order_by(
        *(key_column.desc() if page.descending else key_column.asc() for key_column in keys)
    )
    rows: list[Row[*tuple[Any, ...]]] = []
    for part in _parts(keys, position, page.descending, bool(column.nullable)):
        rows += session.execute(query.where(part).limit(page.limit - len(rows))).all()
        if len(rows) == page.limit:
            break
    return rows


def _parts(
    keys: Sequence[ColumnElement[Any]], position: Row[Any] | None, descending: bool, nullable: bool
) -> Sequence[ColumnElement[bool]]:
    """
    Return the conditions of the rows after the marker, in the order of the rows.

    Each condition is one range of an index on the keys: databases put nulls in different places,
    and scan the whole index for two ranges that are joined by OR.
    """
    column, key = keys[0], keys[-1]
    nulls: ColumnElement[bool] = column.is_(None)
    values: ColumnElement[bool] = column.is_not(None) if nullable else true()
    if position is not None and position[0] is None:
        nulls = and_(nulls, key < position[-1] if descending else key > position[-1])
    elif position is not None:
        row, marker = (
            tuple_(*keys),
            tuple_(*map(literal, position, (key_column.type for key_column in keys))),
        )
        values = row < marker if descending else row > marker
    if not nullable:
        return [values]
    if position is not None and (position[0] is None) == descending:
        return [nulls if descending else values]  # the marker is in the last part
    return [values, nulls] if descending else [nulls, values]
