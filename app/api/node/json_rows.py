"""
SQL functions that encode rows as JSON in the database; a hot path.

A page of 1,000 nodes has 60,000 values. Fetching them as Python objects and encoding those takes
several times as long as the JSON functions of the database. So lists read a few JSON texts per row,
and add the computed fields.
"""

import re
from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import (
    JSON,
    Boolean,
    ColumnElement,
    DateTime,
    FromClause,
    Text,
    case,
    cast,
    exists,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from app.db.dialect_texts import declare_texts
from app.db.secret_columns import JSON_TYPES

#: Columns per JSON object: databases limit the arguments of a function to 100, two per column.
MOST = 48
#: Length of the text of a time with microseconds.
WHOLE = len("2026-01-02 03:04:05.678901")
#: A value in the text of PostgreSQL's row value, and a quote or backslash in a quoted one.
_PART = re.compile(r'(?:"((?:""|\\\\|[^"\\])*)"|([^,]*)),')
_ESCAPED = re.compile(r'(["\\])\1')


class JsonObject(FunctionElement[str]):
    """Text of a JSON object: column name -> value, times with offset, JSON columns as JSON."""

    name = "json_object"
    type = Text()
    inherit_cache = True


class Moment(FunctionElement[str]):
    """Text of a time in UTC, as the database stores or prints it; `iso` converts it for clients."""

    name = "moment"
    type = Text()
    inherit_cache = True


class _Values(FunctionElement[str]):
    """
    Text of columns of a row: a JSON array, on PostgreSQL a row value.

    For the functions of JSON the server looks up the type of each value of each row, which takes
    half of the time of a page.
    """

    name = "json_values"
    type = Text()
    inherit_cache = True


class _Array(FunctionElement[Any]):
    """JSON array of the values of a column in several rows (aggregate)."""

    name = "json_array"
    type = JSON()
    inherit_cache = True


def array(
    column: ColumnElement[object], condition: ColumnElement[bool], outer_table: FromClause
) -> ColumnElement[str]:
    """
    Subquery for a JSON array, as text, of the sorted values of a column in related rows.

    outer_table: table of the outer query. condition: joins it with the table of `column`.
    """
    subquery = (
        select(column.label("value")).where(condition).order_by(column).correlate(outer_table)
    )
    values = select(_Array(subquery.subquery().c.value)).scalar_subquery()
    # most rows have no related ones, and EXISTS is cheaper than an empty aggregate
    return case((exists().where(condition).correlate(outer_table), cast(values, Text)), else_="[]")


def iso(text: str) -> str:
    """Convert the text of a `Moment` to ISO 8601 with microseconds and offset."""
    if len(text) != WHOLE:  # PostgreSQL prints no zeros at the end
        text = f"{text[:19]}.{text[20:]:0<6}"
    return f"{text[:10]}T{text[11:]}+00:00"


def combined(columns: Sequence[ColumnElement[object]]) -> ColumnElement[str]:
    """Combine columns of texts and booleans into one, whose text `split` reads."""
    return _Values(*columns)


def split(columns: Sequence[ColumnElement[object]], text: str) -> dict[str, str]:
    """Split the text of combined columns: column name -> JSON text of its value."""
    values = _row_value(text) if text.startswith("(") else orjson.loads(text)
    return {
        column.name: orjson.dumps(
            # SQLite stores booleans as numbers
            value in (1, "t") if value is not None and isinstance(column.type, Boolean) else value
        ).decode()
        for column, value in zip(columns, values, strict=True)
    }


def _row_value(text: str) -> list[str | None]:
    """Split the text of PostgreSQL's row value: an empty text has quotes, a null is empty."""
    return [
        unquoted or None if quoted is None else _ESCAPED.sub(r"\1", quoted)
        for quoted, unquoted in (match.groups() for match in _PART.finditer(f"{text[1:-1]},"))
    ]


def objects(columns: Sequence[ColumnElement[object]]) -> list[ColumnElement[str]]:
    """Split columns into `JsonObject`s, labelled `json_0`, `json_1`, ..., of `MOST` at most."""
    starts = range(0, len(columns), MOST)
    return [
        JsonObject(*columns[start : start + MOST]).label(f"json_{number}")
        for number, start in enumerate(starts)
    ]


# the style of PostgreSQL's times is set by `app.db.postgresql`
declare_texts(Moment, sqlite="{0}", postgresql="CAST({0} AS TEXT)")
declare_texts(_Values, sqlite="json_array({all})", postgresql="CAST(ROW({all}) AS TEXT)")
declare_texts(_Array, sqlite="json_group_array({0})", postgresql="coalesce(json_agg({0}), '[]')")


@compiles(JsonObject, "sqlite")
def _on_sqlite(element: JsonObject, compiler: SQLCompiler, **kwargs: object) -> str:
    def value_of(column: ColumnElement[object]) -> str:
        value = compiler.process(column, **kwargs)
        if isinstance(column.type, JSON_TYPES):
            return f"json({value})"
        if isinstance(column.type, Boolean):
            return f"json(CASE {value} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END)"
        if isinstance(column.type, DateTime):
            return f"replace({value}, ' ', 'T') || '+00:00'"
        return value

    pairs = (f"'{column.name}', {value_of(column)}" for column in element.clauses)
    return f"json_object({', '.join(pairs)})"


@compiles(JsonObject, "postgresql")
def _on_postgresql(element: JsonObject, compiler: SQLCompiler, **kwargs: object) -> str:
    def value_of(column: ColumnElement[object]) -> str:
        value = compiler.process(column, **kwargs)
        if isinstance(column.type, DateTime):
            return f"""to_char({value}, 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""
        return value

    pairs = (f"'{column.name}', {value_of(column)}" for column in element.clauses)
    return f"CAST(json_build_object({', '.join(pairs)}) AS TEXT)"
