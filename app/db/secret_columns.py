"""
Types of columns that may have secrets: documents, and texts that are secrets as a whole.

They seal and open by the keyring of the engine (`app.db.sealing`), bound to table, column and row.
A query selects the place of a value together with it, so every SELECT opens, with and without the
ORM; `CAST(column AS TEXT)` and `type_coerce` read what is stored. A value that is written says its
place itself (`at`): sessions do that when they flush (`app.models.placing`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import JSON, Column, ColumnElement, Dialect, Table, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.operators import OperatorType
from sqlalchemy.types import TypeDecorator, TypeEngine

from app.db.sealing import Place, keyring_of
from app.text.masking import Unreadable

#: Key of `Table.info`: names of the columns that identify a row for ever, and are known before it
#: is inserted. Without it: `uuid` if there is one, or else the primary key.
ROW = "row"


class _PlacedDict(dict[str, object]):
    place: Place


class _PlacedList(list[object]):
    place: Place


class _PlacedText(str):
    __slots__ = ("place",)
    place: Place


_PLACED: Mapping[type, Callable[[Any], object]] = {
    dict: _PlacedDict,
    list: _PlacedList,
    tuple: _PlacedList,
    str: _PlacedText,
}


def is_secret(column: ColumnElement[object]) -> bool:
    """Whether a column may have secrets."""
    return isinstance(column.type, Document | SealedText)


def row_columns(table: Table) -> list[str]:
    """Return the names of the columns that identify a row in the places of its secrets."""
    column_names: tuple[str, ...] | None = table.info.get(ROW)
    return list(
        column_names or (("uuid",) if "uuid" in table.c else table.primary_key.columns.keys())
    )


def place_of(column: Any, row: Mapping[Any, object]) -> Place:
    """Return the place of a value. row: has at least the columns of `row_columns`."""
    names = row_columns(column.table)
    return f"{_name(column)}:{'/'.join(str(row[name]) for name in names)}"


def at(place: Place, value: Any) -> object:
    """Return a value that is equal, and is written to a place."""
    if isinstance(value, Unreadable):
        return value
    for kind, placed in _PLACED.items():
        if isinstance(value, kind):
            value = placed(value)
            value.place = place
            break
    return value


class _WithPlace(FunctionElement[object]):
    """Text of a value after its place and a line feed; NULL for NULL."""

    name = "with_place"
    inherit_cache = True

    def __init__(self, column: ColumnElement[object]) -> None:
        base: Any = next(iter(column.base_columns))
        available = column.table.c
        names = row_columns(base.table)
        rows = [available[name] for name in names] if {*names} <= {*available.keys()} else []
        super().__init__(*rows, column)
        self.column_name = _name(base)
        self.type = column.type


@compiles(_WithPlace)
def _compile_with_place(element: _WithPlace, compiler: SQLCompiler, **kwargs: object) -> str:
    *row, value = (
        f"CAST({compiler.process(clause, **kwargs)} AS TEXT)" for clause in element.clauses
    )
    ident = " || '/' || ".join(row) or "''"
    return f"('{element.column_name}:' || {ident} || '\n' || {value})"


class _Secret(TypeDecorator[object]):
    """Base of both types."""

    def column_expression(self, column: ColumnElement[object]) -> ColumnElement[object]:
        return _WithPlace(column)


class Document(_Secret):
    """A JSON document. Its secrets are sealed, other values stay readable for SQL."""

    impl = JSON
    cache_ok = True

    def __init__(self, none_as_null: bool = False) -> None:
        super().__init__(none_as_null=none_as_null)
        self.none_as_null = none_as_null

    @property
    def should_evaluate_none(self) -> bool:  # as of `JSON`
        return not self.none_as_null

    @should_evaluate_none.setter
    def should_evaluate_none(self, value: bool) -> None:
        self.none_as_null = not value

    def coerce_compared_value(self, op: OperatorType | None, value: object) -> TypeEngine[object]:
        return self.impl_instance.coerce_compared_value(op, value)

    def bind_processor(self, dialect: Dialect) -> Callable[[object], str | None]:
        def sealed(value: object) -> str | None:
            if value is None and self.none_as_null:
                return None
            return keyring_of(dialect).dumps(value, getattr(value, "place", None))

        return sealed

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[str | None], object]:
        def opened(text: str | None) -> object:
            if text is None:
                return None
            place, _, document = text.partition("\n")
            return keyring_of(dialect).loads(document, place)

        return opened


#: Types of all columns with JSON.
JSON_TYPES = (JSON, Document)


class SealedText(_Secret):
    """A text that is a secret as a whole."""

    impl = Text
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], str | None]:
        def sealed(value: str | None) -> str | None:
            keyring = keyring_of(dialect)
            if value is None or isinstance(value, Unreadable) or not keyring.seals:
                return value if value is None else str(value)
            return keyring.seal_at(value.encode(), getattr(value, "place", None))

        return sealed

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[str | None], str | None]:
        def opened(text: str | None) -> str | None:
            if text is None:
                return None
            place, _, value = text.partition("\n")
            return keyring_of(dialect).opened_text(value, place)

        return opened


def _name(column: Column[object]) -> str:
    return f"{column.table.name}.{column.name}"
