"""
Prepared statements: for what is asked so often that SQLAlchemy's share would be most of its cost.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler


class Prepared:
    """
    A statement whose text is made once, and which is run by the driver itself.

    Nothing is converted: what it is given and what it gives are texts and numbers.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._texts: dict[str, tuple[str, list[str] | None, Mapping[str, Any]]] = {}

    def first(self, connection: Connection, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """
        Run it; the first row that comes of it, if any.

        values: those of its parameters. Raises what SQLAlchemy would raise.
        """
        name = connection.dialect.name
        text, order, constants = self._texts.get(name) or self._text(connection)
        named = {**constants, **values}
        parameters = named if order is None else tuple([named[each] for each in order])
        cursor = connection.connection.cursor()
        try:
            cursor.execute(text, parameters)
            row: tuple[Any, ...] | None = cursor.fetchone() if cursor.description else None
        except Exception as error:
            # it knows what the error means, and whether the connection is lost
            connection._handle_dbapi_exception(error, text, parameters, cursor, None)
        cursor.close()
        return row

    def _text(self, connection: Connection) -> tuple[str, list[str] | None, Mapping[str, Any]]:
        """The text, the order of its parameters where they have no names, those with a value."""
        dialect = connection.dialect
        compiled = self._statement.compile(
            dialect=dialect, compile_kwargs={"render_postcompile": True}
        )
        assert isinstance(compiled, SQLCompiler)  # of what is no DDL
        order = list(compiled.positiontup or ()) if compiled.positional else None
        known = {name: value for name, value in compiled.params.items() if value is not None}
        made = self._texts[dialect.name] = (str(compiled), order, known)
        return made
