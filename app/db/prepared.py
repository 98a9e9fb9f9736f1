"""
Prepared statements: for what is asked so often that SQLAlchemy's share would be most of its cost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

Row = tuple[Any, ...]
#: The converters of what needs one: by the names of parameters, by the places of columns.
Converters = Sequence[tuple[Any, Callable[[Any], Any]]]


@dataclass(slots=True)
class _Text:
    """
    A statement in the words of one dialect.

    order: of its parameters, where they have no names. constants: parameters that have a value.
    given: converters of parameters. returns_rows, read (converters of columns): None until the
    first answer. To read `cursor.description` for each answer is expensive with psycopg.
    """

    sql: str
    order: Sequence[str] | None
    constants: Mapping[str, Any]
    given: Converters = ()
    read: Converters | None = None
    returns_rows: bool | None = None

    def parameters(self, values: Mapping[str, Any]) -> Any:
        named = {**self.constants, **values}
        for name, convert in self.given:
            named[name] = convert(named[name])
        return named if self.order is None else tuple([named[each] for each in self.order])


class Prepared:
    """
    A statement whose text is made once, and which is run by the driver itself.

    Nothing is converted: values are texts and numbers; `Typed` converts. Every method takes the
    values of the statement's parameters, and raises what SQLAlchemy would raise.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self.statement = statement
        self._texts: dict[str, _Text] = {}

    def first(self, connection: Connection, values: Mapping[str, Any]) -> Row | None:
        """Run it; the first row that it returns, if any."""
        cursor = self._run(connection, values)
        row: Row | None = cursor.fetchone() if self._returns_rows(connection, cursor) else None
        if row is not None:
            (row,) = self._converted(connection, cursor, [row])
        cursor.close()
        return row

    def all(self, connection: Connection, values: Mapping[str, Any]) -> Sequence[Row]:
        """Run it; all rows that it returns."""
        cursor = self._run(connection, values)
        rows = self._converted(connection, cursor, cursor.fetchall())
        cursor.close()
        return rows

    def count(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Run it; how many rows it has changed."""
        cursor = self._run(connection, values)
        changed: int = cursor.rowcount
        cursor.close()
        return changed

    def many(self, connection: Connection, values: Sequence[Mapping[str, Any]]) -> None:
        """Run it once for each of several sets of values."""
        text = self._text(connection.dialect)
        parameters = [text.parameters(each) for each in values]
        self._call(connection, "executemany", text.sql, parameters).close()

    def _run(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        text = self._text(connection.dialect)
        return self._call(connection, "execute", text.sql, text.parameters(values))

    def _call(self, connection: Connection, method: str, sql: str, parameters: Any) -> Any:
        cursor = connection.connection.cursor()
        try:
            getattr(cursor, method)(sql, parameters)
        except Exception as error:
            # it knows what the error means, and whether the connection is lost
            connection._handle_dbapi_exception(error, sql, parameters, cursor, None)
        return cursor

    def _returns_rows(self, connection: Connection, cursor: Any) -> bool:
        text = self._text(connection.dialect)
        if text.returns_rows is None:
            text.returns_rows = cursor.description is not None
        return text.returns_rows

    def _converted(self, connection: Connection, cursor: Any, rows: Sequence[Row]) -> Sequence[Row]:
        return rows

    def _text(self, dialect: Dialect) -> _Text:
        text = self._texts.get(dialect.name)
        if text is None:
            compiled = self.statement.compile(
                dialect=dialect, compile_kwargs={"render_postcompile": True}
            )
            assert isinstance(compiled, SQLCompiler)  # of what is no DDL
            text = self._texts[dialect.name] = self._written(compiled)
        return text

    def _written(self, compiled: SQLCompiler) -> _Text:
        order = list(compiled.positiontup or ()) if compiled.positional else None
        constants = {
            name: compiled.params[name]
            for bind, name in compiled.bind_names.items()
            if not bind.required and name in compiled.params
        }
        return _Text(str(compiled), order, constants)


class Typed(Prepared):
    """The same, with parameters and columns converted as the types of the statement's parts say."""

    def _written(self, compiled: SQLCompiler) -> _Text:
        text, dialect = super()._written(compiled), compiled.dialect
        converters = {
            name: convert
            for bind, name in compiled.bind_names.items()
            if (convert := bind.type.dialect_impl(dialect).bind_processor(dialect))
        }
        text.constants = {
            name: converters.pop(name)(value) if name in converters else value
            for name, value in text.constants.items()
        }
        text.given = list(converters.items())
        return text

    def _converted(self, connection: Connection, cursor: Any, rows: Sequence[Row]) -> Sequence[Row]:
        text, dialect = self._text(connection.dialect), connection.dialect
        if text.read is None:
            columns = self.statement.exported_columns  # type: ignore[attr-defined]
            text.read = [
                (place, convert)
                for place, (column, told) in enumerate(
                    zip(columns, cursor.description, strict=True)
                )
                if (convert := column.type.dialect_impl(dialect).result_processor(dialect, told[1]))
            ]
        if not text.read:
            return rows
        converted = []
        for each in rows:
            row = list(each)
            for place, convert in text.read:
                row[place] = convert(row[place])
            converted.append(tuple(row))
        return converted
