"""
Interpolation of placeholders in rules: `{inventory[cpu][count]}` or `{inventory.cpu.count}`.

Placeholders read documents by key or index, and cannot call anything. A text that consists of one
placeholder becomes the value itself, of any type.
"""

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

SECRETS = frozenset({"password", "auth_token", "bmc_password"})
HIDDEN = "***"
_PART = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]*)\]")
_FORMATTER = Formatter()


class MissingValue(Exception):
    """A path leads to no value."""


def interpolate(value: object, context: Mapping[str, Any]) -> Any:
    """
    Replace the placeholders in a value, recursively. Unknown placeholders stay as they are.

    context: first name of a placeholder -> document.
    """
    if isinstance(value, str):
        try:
            return text(value, context)
        except MissingValue:
            return value
    if isinstance(value, Mapping):
        return {
            interpolate(key, context): interpolate(item, context) for key, item in value.items()
        }
    if isinstance(value, list):
        return [interpolate(item, context) for item in value]
    return value


def text(template: str, context: Mapping[str, Any]) -> Any:
    """Replace the placeholders in a text. Raises MissingValue."""
    try:
        parts = list(_FORMATTER.parse(template))
    except ValueError:  # unbalanced braces: no placeholder
        return template
    fields = [(literal, name) for literal, name, _spec, _conversion in parts]
    if len(fields) == 1 and not fields[0][0] and fields[0][1]:
        return value_at(fields[0][1], context)
    return "".join(
        literal + ("" if name is None else str(value_at(name, context))) for literal, name in fields
    )


def value_at(path: str, context: object) -> object:
    """Return the value at a path. Raises MissingValue."""
    parts = [dotted or bracketed for dotted, bracketed in _PART.findall(path)]
    if not parts:
        raise MissingValue(path)
    value = context
    for part in parts:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, Sequence) and not isinstance(value, str) and _is_index(part, value):
            value = value[int(part)]
        else:
            raise MissingValue(path)
    return value


def _is_index(part: str, sequence: Sequence[object]) -> bool:
    return part.isascii() and part.isdigit() and int(part) < len(sequence)


def masked(document: object) -> Any:
    """Return a copy of a document with its secrets masked."""
    if isinstance(document, Mapping):
        return {key: HIDDEN if key in SECRETS else masked(value) for key, value in document.items()}
    if isinstance(document, list):
        return [masked(item) for item in document]
    return document
