"""
Drafts: insert and update rows without an ORM session.

Raw SQL on purpose, for the rows that every step of every node writes: the session would cost more
than the statement. Statements are compiled once for each set of columns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeVar, cast

from sqlalchemy import BindParameter, Column, Connection, Table, bindparam, insert, update
from sqlalchemy.ext.hybrid import hybrid_property

from app.db.clock import now
from app.db.prepared import Typed
from app.db.secret_columns import Document, at, is_secret, place_of
from app.models.base import Base

T = TypeVar("T", bound=Base)


class _Draft:
    """A row whose changed columns keep their old values in `before`, a dict by column name."""

    table: Table
    id: int

    def __init__(self, columns: Iterable[tuple[str, Any]]) -> None:
        self.__dict__.update(columns, before={})

    def __setattr__(self, name: str, value: Any) -> None:
        values = self.__dict__
        values["before"].setdefault(name, values[name])
        values[name] = value


def drafts(model: type[T]) -> Callable[[Iterable[Any]], T]:
    """
    Return a factory of drafts of a model; its argument has the table's columns in order.

    It takes only as many values as there are columns, so that several factories can read a joined
    row from one iterator. A draft has the columns and properties of the model. Its columns can be
    set; `save` writes those that were.
    """
    names = model.__table__.columns.keys()
    properties = {
        name: item
        for name, item in vars(model).items()
        if isinstance(item, property | hybrid_property)
    }
    kind = type(model.__name__, (_Draft,), {**properties, "table": model.__table__})

    def make(values: Iterable[Any]) -> T:
        return cast("T", kind(zip(names, islice(values, len(names)), strict=True)))

    return make


def save(connection: Connection, row: Any) -> None:
    """
    Write the changed columns of a draft; values may be `now()`.

    Does nothing for other rows, which their session writes.
    """
    if not isinstance(row, _Draft):
        return
    values = row.__dict__
    changes = {
        name: values[name]
        for name, old_value in values["before"].items()
        if isinstance(values[name], now) or values[name] != old_value
    }
    if changes:
        constants, clock = _split(changes)
        values_ = {**_named(row.table, constants, values), "row": row.id}
        _update(row.table, tuple(constants), clock).count(connection, values_)
        values["before"] = {}


def add(connection: Connection, row: Base) -> int:
    """
    Insert a row that no session has, and return its id.

    Unset columns get the model's defaults. Later changes of the row are not written.
    """
    complete = _complete(row)
    constants, clock = _split(complete)
    parameters = _named(row.__table__, constants, complete)
    inserted_row = _insert(row.__table__, clock).first(connection, parameters)
    assert inserted_row is not None
    return int(inserted_row[0])


def add_all(connection: Connection, rows: Sequence[Base]) -> None:
    """Insert several rows of one model; values must not be `now()`."""
    table = rows[0].__table__
    complete = map(_complete, rows)
    _insert_only(table).many(connection, [_named(table, values, values) for values in complete])


def _split(values: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """Split values into plain ones, and names of columns that get the database's time."""
    clock = frozenset(name for name, value in values.items() if isinstance(value, now))
    return {name: value for name, value in values.items() if name not in clock}, clock


def _named(table: Any, values: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a statement. row: all values of the row, which secrets need."""
    return {
        f"new_{name}": at(place_of(column, row), values[name])
        if is_secret(column := table.c[name]) and values[name]
        else values[name]
        for name in values
    }


def _complete(row: Base) -> dict[str, Any]:
    values = row.__dict__
    return {
        name: values[name] if name in values else default()
        for name, default in _defaults(row.__table__)
    }


@cache
def _defaults(table: Any) -> Sequence[tuple[str, Callable[[], Any]]]:
    return [(column.key, _default(column)) for column in table.columns if not column.primary_key]


def _default(column: Column[Any]) -> Callable[[], Any]:
    default: Any = column.default
    if default is None:
        return lambda: None
    if default.is_callable:
        return lambda: default.arg(None)
    return lambda: default.arg


def _value(column: Column[Any]) -> BindParameter[Any]:
    kind = Document(none_as_null=True) if isinstance(column.type, Document) else column.type
    return bindparam(f"new_{column.key}", type_=kind)


@cache
def _update(table: Table, constants: Sequence[str], clock: frozenset[str]) -> Typed:
    values = {name: _value(table.c[name]) for name in constants} | dict.fromkeys(clock, now())
    return Typed(update(table).where(table.c.id == bindparam("row")).values(values))


@cache
def _insert(table: Any, clock: frozenset[str]) -> Typed:
    return Typed(insert(table).values(_inserted(table, clock)).returning(table.c.id))


@cache
def _insert_only(table: Any) -> Typed:
    return Typed(insert(table).values(_inserted(table, frozenset())))


def _inserted(table: Any, clock: frozenset[str]) -> dict[str, Any]:
    columns = [column for column in table.columns if not column.primary_key]
    return {column.key: now() if column.key in clock else _value(column) for column in columns}
