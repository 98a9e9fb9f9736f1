"""
SQL functions of texts and JSON values that give equal results on SQLite and PostgreSQL.

LIKE of SQLite ignores case, lower() of PostgreSQL depends on the collation, and both convert JSON
values to text in different ways.
"""

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Float, Text, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from app.db.dialect_texts import declare_texts
from app.selection.tree import Pattern

_CAPITALS = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def folded(text: str) -> str:
    """Return a text with its ASCII letters in lower case."""
    return text.translate(_CAPITALS)


class Condition(FunctionElement[bool]):
    """A condition: SQLAlchemy would compare a function with 1, and SQLite use no index then."""

    type = Boolean()
    inherit_cache = True

    def self_group(self, against: object = None) -> Any:
        return self


class _Fits(Condition):
    """A text, as a whole, fits a pattern: (text, pattern of GLOB, pattern of LIKE)."""

    inherit_cache = True


class _Contains(Condition):
    """A text contains another one, whose ASCII letters are in lower case; in any case."""

    inherit_cache = True


class _HasFolded(Condition):
    """A text whose ASCII letters are in lower case contains another such one."""

    inherit_cache = True


class _JsonText(FunctionElement[str]):
    """Text of a string, an integer or a truth value in a document: (document, path, keys...)."""

    type = Text()
    inherit_cache = True


class _JsonString(FunctionElement[str]):
    """Text of a string in a document: (document, path, keys...)."""

    type = Text()
    inherit_cache = True


class _JsonNumber(FunctionElement[float]):
    """A number in a document, or a string of at most 15 digits: (document, path, keys...)."""

    type = Float()
    inherit_cache = True


def has(value: str | Pattern, text: str) -> bool:
    """Whether a text contains a value, in any case; or, as a whole, fits a pattern."""
    if isinstance(value, Pattern):
        return re.fullmatch(".*".join(map(re.escape, value.parts)), text, re.DOTALL) is not None
    return folded(value) in folded(text)


def fits(text: ColumnElement[object], pattern: Pattern) -> ColumnElement[bool]:
    """Return the condition of the texts that fit a pattern."""
    glob = "*".join(
        part.replace("[", "[[]").replace("?", "[?]").replace("*", "[*]") for part in pattern.parts
    )
    like = "%".join(
        part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for part in pattern.parts
    )
    return _Fits(text, literal(glob, Text), literal(like, Text))


def contains(text: ColumnElement[Any], part: str) -> ColumnElement[bool]:
    """Return the condition of the texts that contain a part, in capital or small letters."""
    return _Contains(text, literal(folded(part), Text))


def has_folded(text: ColumnElement[object], part: str) -> ColumnElement[bool]:
    """Return the condition of the texts, with letters in lower case, that contain a part."""
    return _HasFolded(text, literal(folded(part), Text))


def json_text(document: ColumnElement[object], keys: Sequence[str]) -> ColumnElement[str]:
    return _JsonText(document, *_path(keys))


def json_string(document: ColumnElement[object], keys: Sequence[str]) -> ColumnElement[str]:
    return _JsonString(document, *_path(keys))


def json_number(document: ColumnElement[object], keys: Sequence[str]) -> ColumnElement[float]:
    return _JsonNumber(document, *_path(keys))


def _path(keys: Sequence[str]) -> list[ColumnElement[str]]:
    """Return a path for SQLite, then the keys for PostgreSQL."""
    path = "$" + "".join(f'."{key}"' for key in keys)
    return [literal(path, Text), *(literal(key, Text) for key in keys)]


declare_texts(_Fits, sqlite="({0} GLOB {1})", postgresql="({0} LIKE {2})")
declare_texts(
    _Contains,
    sqlite="(instr(lower({0}), {1}) > 0)",
    postgresql='(strpos(lower({0} COLLATE "C"), {1}) > 0)',
)
declare_texts(_HasFolded, sqlite="(instr({0}, {1}) > 0)", postgresql="(strpos({0}, {1}) > 0)")
declare_texts(
    _JsonText,
    sqlite="CASE json_type({0}, {1}) WHEN 'text' THEN json_extract({0}, {1})"
    " WHEN 'integer' THEN CAST(json_extract({0}, {1}) AS TEXT)"
    " WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' END",
)
declare_texts(
    _JsonString, sqlite="CASE json_type({0}, {1}) WHEN 'text' THEN json_extract({0}, {1}) END"
)
_VALUE = "json_extract({0}, {1})"
declare_texts(
    _JsonNumber,
    sqlite=f"CASE json_type({{0}}, {{1}}) WHEN 'integer' THEN CAST({_VALUE} AS REAL)"
    f" WHEN 'real' THEN {_VALUE} WHEN 'text' THEN CASE WHEN length({_VALUE}) BETWEEN 1 AND 15"
    f" AND {_VALUE} NOT GLOB '*[^0-9]*' THEN CAST({_VALUE} AS REAL) END END",
)


def _on_postgresql(
    element: FunctionElement[Any], compiler: SQLCompiler, kwargs: Any
) -> tuple[str, str]:
    """Return the JSON value of a path, and its text."""
    document, _, *keys = element.clauses
    value = compiler.process(document, **kwargs)
    names = [f"CAST({compiler.process(key, **kwargs)} AS TEXT)" for key in keys]
    for name in names[:-1]:
        value = f"({value} -> {name})"
    return f"({value} -> {names[-1]})", f"({value} ->> {names[-1]})"


@compiles(_JsonText, "postgresql")
def _json_text_on_postgresql(element: _JsonText, compiler: SQLCompiler, **kwargs: object) -> str:
    value, text = _on_postgresql(element, compiler, kwargs)
    return (
        f"CASE json_typeof({value}) WHEN 'string' THEN {text} WHEN 'boolean' THEN {text}"
        f" WHEN 'number' THEN CASE WHEN {text} ~ '^-?[0-9]+$' THEN {text} END END"
    )


@compiles(_JsonString, "postgresql")
def _json_string_on_postgresql(
    element: _JsonString, compiler: SQLCompiler, **kwargs: object
) -> str:
    value, text = _on_postgresql(element, compiler, kwargs)
    return f"CASE json_typeof({value}) WHEN 'string' THEN {text} END"


@compiles(_JsonNumber, "postgresql")
def _json_number_on_postgresql(
    element: _JsonNumber, compiler: SQLCompiler, **kwargs: object
) -> str:
    value, text = _on_postgresql(element, compiler, kwargs)
    number = f"CAST({text} AS DOUBLE PRECISION)"
    return (
        f"CASE json_typeof({value}) WHEN 'number' THEN {number} WHEN 'string' THEN"
        f" CASE WHEN {text} ~ '^[0-9]{{1,15}}$' THEN {number} END END"
    )
