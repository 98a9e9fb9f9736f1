"""
Rows as JSON text, made by the database.

A page of 1,000 nodes has 60,000 values. To fetch each, make a Python object of it and encode that
costs several times what the database needs to write the same text; so lists read a few texts per
row, and add to them what only we can compute.
"""

from collections.abc import Collection, Sequence
from typing import Any

import orjson
from sqlalchemy import (
    JSON,
    Boolean,
    ColumnElement,
    DateTime,
    FromClause,
    Text,
    and_,
    case,
    cast,
    exists,
    literal,
    select,
)
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


def array(
    column: ColumnElement[Any], condition: ColumnElement[bool], of: FromClause
) -> ColumnElement[str]:
    """
    The sorted values of a column in the rows that a row of the table `of` has: the text of a JSON
    array. condition: joins both tables.
    """
    found = select(column.label("value")).where(condition).order_by(column).correlate(of)
    values = select(_Array(found.subquery().c.value)).scalar_subquery()
    # most have none, and to see that is cheaper than to sort and gather nothing
    return case((exists().where(condition).correlate(of), cast(values, Text)), else_="[]")


def objects(
    columns: Sequence[ColumnElement[Any]], sparse: Sequence[Collection[str]] = ()
) -> list[ColumnElement[str]]:
    """
    Selectable `json_0`, `json_1`, ... that together hold all of these named columns.

    sparse: names of columns that few rows have anything in, in sets that are empty together; an
    empty set costs a quarter of what its columns would.
    """
    sets = [[each for each in columns if each.name in names] for names in sparse]
    rest = [each for each in columns if not any(each.name in names for names in sparse)]
    texts: list[ColumnElement[str]] = [_unless_empty(each) for each in sets if each]
    texts += [JsonObject(*rest[start : start + MOST]) for start in range(0, len(rest), MOST)]
    return [text.label(f"json_{number}") for number, text in enumerate(texts)]


def members(texts: Sequence[str]) -> str:
    """What the objects of a row have between their braces, together."""
    return ",".join([text[1:-1] for text in texts])


def _unless_empty(columns: Sequence[ColumnElement[Any]]) -> ColumnElement[str]:
    """The object of columns of a table; ready-made where none is set."""
    optional = {each.name: getattr(each, "nullable", False) for each in columns}
    nothing = orjson.dumps({name: None if null else False for name, null in optional.items()})
    empty = and_(*(each.is_(None) if optional[each.name] else ~each for each in columns))
    return case((empty, literal(nothing.decode())), else_=JsonObject(*columns))


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
