"""
Prepared statements: SQL text compiled once, and executed by the DBAPI driver directly.

For the most frequent statements, whose cost would be mostly SQLAlchemy's compilation and result
handling.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import Connection, Dialect
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.selectable import ReturnsRows

Row = tuple[Any, ...]
Values = Mapping[str, Any]
#: Type converters with the name of their parameter, or the index of their column.
Converters = Sequence[tuple[Any, Callable[[Any], Any]]]
#: A named parameter of psycopg, or an escaped percent sign.
_NAMED = re.compile(r"%(?:\((\w+)\)s|%)")


@dataclass(slots=True)
class _Text:
    """A statement in one dialect's SQL."""

    sql: str
    order: Sequence[str] | None  # of positional parameters; None if the dialect has named ones
    constants: Values  # values of parameters that the caller does not pass
    converters: Converters  # of parameters
    # None until the first result; psycopg's `cursor.description` is too expensive for each one
    read: Converters | None = None  # of columns

    def parameters(self, values: Values) -> Any:
        arguments = {**self.constants, **values}
        for name, convert in self.converters:
            arguments[name] = convert(arguments[name])
        return arguments if self.order is None else tuple([arguments[name] for name in self.order])


class Prepared:
    """
    A prepared statement; its parameters and columns are converted by their SQLAlchemy types.

    All methods take the values of the statement's parameters and raise SQLAlchemy's exceptions.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self.statement = statement
        # by dialect, as each engine has its own codec of JSON
        self._texts: WeakKeyDictionary[Dialect, _Text] = WeakKeyDictionary()
        _KNOWN.add(self)

    def first(self, connection: Connection, values: Values) -> Row | None:
        """Execute the statement and return its first row, if any."""
        cursor = self._run(connection, values)
        row: Row | None = cursor.fetchone()
        if row is not None:
            (row,) = self._converted(connection, cursor, [row])
        cursor.close()
        return row

    def all(self, connection: Connection, values: Values) -> Sequence[Row]:
        """Execute the statement and return all rows."""
        cursor = self._run(connection, values)
        rows = self._converted(connection, cursor, cursor.fetchall())
        cursor.close()
        return rows

    def count(self, connection: Connection, values: Values) -> int:
        """Execute the statement and return the number of changed rows."""
        cursor = self._run(connection, values)
        changed: int = cursor.rowcount
        cursor.close()
        return changed

    def many(self, connection: Connection, values: Sequence[Values]) -> None:
        """Execute the statement once for each set of values."""
        if len(values) == 1:  # psycopg's `executemany` enters its pipeline mode: twice the cost
            self.count(connection, values[0])
            return
        text = self._text(connection.dialect)
        parameters = [text.parameters(row) for row in values]
        self._call(connection, "executemany", text.sql, parameters).close()

    def _run(self, connection: Connection, values: Values) -> DBAPICursor:
        text = self._text(connection.dialect)
        # by default psycopg prepares a statement at its sixth execution on a connection
        options = {"prepare": True} if _is_psycopg(connection.dialect) else {}
        return self._call(connection, "execute", text.sql, text.parameters(values), **options)

    def _call(
        self, connection: Connection, method: str, sql: str, parameters: Any, **options: bool
    ) -> DBAPICursor:
        cursor = _cursor(connection)
        try:
            getattr(cursor, method)(sql, parameters, **options)
        except Exception as error:
            # maps the error to SQLAlchemy's exceptions, and invalidates a lost connection
            connection._handle_dbapi_exception(error, sql, parameters, cursor, None)
        return cursor

    def _converted(
        self, connection: Connection, cursor: DBAPICursor, rows: Sequence[Row]
    ) -> Sequence[Row]:
        text, dialect = self._text(connection.dialect), connection.dialect
        if text.read is None:
            text.read = self._readers(dialect, cursor.description)
        if not text.read:
            return rows
        converted = []
        for raw_row in rows:
            row = list(raw_row)
            for index, convert in text.read:
                row[index] = convert(row[index])
            converted.append(tuple(row))
        return converted

    def _readers(self, dialect: Dialect, description: Sequence[Any]) -> Converters:
        """Return the converters of columns; without any if the statement is a text."""
        if not isinstance(self.statement, ReturnsRows):
            return ()
        columns = zip(self.statement.exported_columns, description, strict=True)
        converters = [
            column.type.dialect_impl(dialect).result_processor(dialect, column_description[1])
            for column, column_description in columns
        ]
        return [(index, convert) for index, convert in enumerate(converters) if convert]

    def _text(self, dialect: Dialect) -> _Text:
        text = self._texts.get(dialect)
        if text is None:
            compiled = self.statement.compile(
                dialect=dialect, compile_kwargs={"render_postcompile": True}
            )
            assert isinstance(compiled, SQLCompiler)  # the statement is not DDL
            text = self._texts[dialect] = self._prepare(compiled)
        return text

    def _prepare(self, compiled: SQLCompiler) -> _Text:
        dialect = compiled.dialect
        converters = {
            name: convert
            for bind, name in compiled.bind_names.items()
            if (convert := bind.type.dialect_impl(dialect).bind_processor(dialect))
        }
        constants = {
            name: converters.pop(name, _unchanged)(compiled.params[name])
            for bind, name in compiled.bind_names.items()
            if not bind.required and name in compiled.params
        }
        sql, order = str(compiled), None
        if _is_psycopg(dialect):
            sql, order = _numbered(sql)
        elif compiled.positional:
            order = compiled.positiontup
        return _Text(sql, order, constants, list(converters.items()))


def _unchanged(value: object) -> Any:
    return value


def _is_psycopg(dialect: Dialect) -> bool:
    return dialect.driver == "psycopg"


def _numbered(sql: str) -> tuple[str, Sequence[str]]:
    """
    Number the parameters of a statement as the server does: return its text, and their names.

    psycopg does the same with named parameters, at each execution if the text is longer than 4 KiB.
    """
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "%"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _NAMED.sub(number, sql), names


def _cursor(connection: Connection) -> DBAPICursor:
    if not _is_psycopg(connection.dialect):
        return connection.connection.cursor()
    from psycopg import RawCursor  # SQLite does not need it

    driver_connection: Any = connection.connection.driver_connection
    raw_cursor: Any = RawCursor(driver_connection)
    cursor: DBAPICursor = raw_cursor
    return cursor


_KNOWN: WeakSet[Prepared] = WeakSet()


def compile_all(dialect: Dialect) -> None:
    """Compile all statements for a dialect, so that processes forked later share the result."""
    for statement in _KNOWN:
        statement._text(dialect)
