"""
Rows as JSON text, made by the database.

A page of 1,000 nodes has 60,000 values. To fetch each, make a Python object of it and encode that
costs several times what the database needs to write the same text; so lists read one text per
row, and add to it what only we can compute.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import JSON, Boolean, ColumnElement, DateTime, FromClause, Text, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

#: Databases limit the arguments of a function to 100.
MOST = 48


class JsonObject(FunctionElement[str]):
    """
    The text of a JSON object: each column under its name, times with offset, documents as such.
    """

    name = "json_object"
    type = Text()
    inherit_cache = True


class _Array(FunctionElement[Any]):
    """The values of a column as a JSON array."""

    name = "json_array"
    type = JSON()
    inherit_cache = True


def array(column: ColumnElement[Any], condition: ColumnElement[bool], of: FromClause) -> Any:
    """
    The sorted values of a column in the rows that a row of the table `of` has: a JSON array.

    condition: joins both tables.
    """
    values = (
        select(column.label("value")).where(condition).order_by(column).correlate(of).subquery()
    )
    return select(_Array(values.c.value)).scalar_subquery()


def objects(columns: Sequence[ColumnElement[Any]]) -> list[ColumnElement[str]]:
    """Selectable `json_0`, `json_1`, ... that together hold all of these named columns."""
    parts = [columns[start : start + MOST] for start in range(0, len(columns), MOST)]
    return [JsonObject(*part).label(f"json_{number}") for number, part in enumerate(parts)]


def members(texts: Sequence[str]) -> str:
    """What the objects of a row have between their braces, together."""
    return ",".join(text[1:-1] for text in texts)


@compiles(_Array, "sqlite")
def _array_on_sqlite(element: _Array, compiler: SQLCompiler, **kwargs: Any) -> str:
    return f"json_group_array({compiler.process(element.clauses, **kwargs)})"


@compiles(_Array, "postgresql")
def _array_on_postgresql(element: _Array, compiler: SQLCompiler, **kwargs: Any) -> str:
    return f"coalesce(json_agg({compiler.process(element.clauses, **kwargs)}), '[]')"


@compiles(JsonObject, "sqlite")
def _on_sqlite(element: JsonObject, compiler: SQLCompiler, **kwargs: Any) -> str:
    def written(column: ColumnElement[Any]) -> str:
        value = compiler.process(column, **kwargs)
        if isinstance(column.type, JSON):
            return f"json({value})"
        if isinstance(column.type, Boolean):
            return f"json(CASE {value} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END)"
        if isinstance(column.type, DateTime):
            return f"replace({value}, ' ', 'T') || '+00:00'"
        return value

    pairs = (f"'{column.name}', {written(column)}" for column in element.clauses)
    return f"json_object({', '.join(pairs)})"


@compiles(JsonObject, "postgresql")
def _on_postgresql(element: JsonObject, compiler: SQLCompiler, **kwargs: Any) -> str:
    def written(column: ColumnElement[Any]) -> str:
        value = compiler.process(column, **kwargs)
        if isinstance(column.type, DateTime):
            return f"""to_char({value}, 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""
        return value

    pairs = (f"'{column.name}', {written(column)}" for column in element.clauses)
    return f"CAST(json_build_object({', '.join(pairs)}) AS TEXT)"
