"""
Rows without a session: read, insert and update rows of models by prepared statements.

For the rows that every step of every node reads and writes, where a session costs more than the
statement. The rows are instances of their models that no session has: attributes and properties
work as usual, and a change is written by `save` only.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import BindParameter, Column, Connection, Table, bindparam, insert, inspect, update
from sqlalchemy.orm import DeclarativeBase

from app.db.clock import now
from app.db.prepared import Prepared, Values
from app.db.secret_columns import Document, at, is_secret, place_of

T = TypeVar("T", bound=DeclarativeBase)


def reader(model: type[T]) -> Callable[[Iterator[Any]], T]:
    """
    Return a function that reads a row of a model; its argument has the table's columns in order.

    It takes only as many values as there are columns, so that several readers can read a joined row
    from one iterator.
    """
    names = model.__table__.columns.keys()

    def read(values: Iterator[Any]) -> T:
        row = model()
        vars(row).update(zip(names, islice(values, len(names)), strict=True))
        return row

    return read


def save(connection: Connection, row: DeclarativeBase) -> None:
    """
    Write the attributes of a row that were set since it was read; values may be `now()`.

    Does nothing for rows of a session, which writes them.
    """
    state, values = inspect(row), vars(row)
    if not state.transient:
        return
    changes = {
        name: values[name]
        for name, old_value in state.committed_state.items()
        if isinstance(values[name], now) or values[name] != old_value
    }
    if changes:
        table, (constants, clock) = _table(type(row)), _split(changes)
        parameters = {**_parameters(table, constants, values), "row": values["id"]}
        _update(table, tuple(constants), clock).count(connection, parameters)


def add(connection: Connection, row: DeclarativeBase) -> int:
    """
    Insert a row that no session has, and return its id.

    Unset columns get the model's defaults. Later changes of the row are not written.
    """
    table, values = _table(type(row)), _complete(row)
    constants, clock = _split(values)
    parameters = _parameters(table, constants, values)
    inserted_row = _insert(table, clock).first(connection, parameters)
    assert inserted_row is not None
    return int(inserted_row[0])


def add_all(connection: Connection, rows: Sequence[DeclarativeBase]) -> None:
    """Insert several rows of one model; values must not be `now()`."""
    table = _table(type(rows[0]))
    complete_rows = map(_complete, rows)
    parameters = [_parameters(table, values, values) for values in complete_rows]
    _insert_only(table).many(connection, parameters)


def _table(model: type[DeclarativeBase]) -> Table:
    table = model.__table__
    assert isinstance(table, Table)
    return table


def _split(values: Values) -> tuple[Values, frozenset[str]]:
    """Split values into plain ones, and names of columns that get the database's time."""
    clock = frozenset(name for name, value in values.items() if isinstance(value, now))
    return {name: value for name, value in values.items() if name not in clock}, clock


def _parameters(table: Table, values: Values, row: Values) -> dict[str, Any]:
    """Return the parameters of a statement. row: all values of the row, which secrets need."""
    parameters = {f"new_{name}": value for name, value in values.items()}
    for name, column in _secret_columns(table):
        if value := values.get(name):
            parameters[f"new_{name}"] = at(place_of(column, row), value)
    return parameters


@cache
def _secret_columns(table: Table) -> Sequence[tuple[str, Column[Any]]]:
    return [(name, column) for name, column in table.c.items() if is_secret(column)]


def _complete(row: DeclarativeBase) -> Values:
    values = vars(row)
    return {
        name: values[name] if name in values else default()
        for name, default in _defaults(_table(type(row)))
    }


@cache
def _defaults(table: Table) -> Sequence[tuple[str, Callable[[], Any]]]:
    return [(column.key, _default(column)) for column in _written(table)]


def _default(column: Column[Any]) -> Callable[[], Any]:
    default: Any = column.default
    if default is None:
        return lambda: None
    if default.is_callable:
        return lambda: default.arg(None)
    return lambda: default.arg


def _written(table: Table) -> Iterable[Column[Any]]:
    return (column for column in table.columns if not column.primary_key)


def _value(column: Column[Any]) -> BindParameter[Any]:
    kind = Document(none_as_null=True) if isinstance(column.type, Document) else column.type
    return bindparam(f"new_{column.key}", type_=kind)


@cache
def _update(table: Table, constants: Sequence[str], clock: frozenset[str]) -> Prepared:
    values = {name: _value(table.c[name]) for name in constants} | dict.fromkeys(clock, now())
    return Prepared(update(table).where(table.c.id == bindparam("row")).values(values))


@cache
def _insert(table: Table, clock: frozenset[str]) -> Prepared:
    return Prepared(insert(table).values(_new_values(table, clock)).returning(table.c.id))


@cache
def _insert_only(table: Table) -> Prepared:
    return Prepared(insert(table).values(_new_values(table, frozenset())))


def _new_values(table: Table, clock: frozenset[str]) -> Mapping[str, Any]:
    return {
        column.key: now() if column.key in clock else _value(column) for column in _written(table)
    }
