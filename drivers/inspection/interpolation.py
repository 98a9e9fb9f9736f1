"""
Interpolation: `{inventory[cpu][count]}` or `{inventory.cpu.count}` in the arguments of a rule.

Only documents are looked into, by key or index; nothing is ever called. A text that is one
placeholder and nothing else becomes the value itself, whatever its type.
"""

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

SECRETS = frozenset({"password", "auth_token", "bmc_password"})
HIDDEN = "***"
_PART = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]*)\]")
_FORMATTER = Formatter()


class Missing(Exception):
    """There is nothing at a path."""


def filled(value: Any, context: Mapping[str, Any]) -> Any:
    """
    A value with its placeholders replaced, in depth; what cannot be replaced is left as it is.

    context: what the first name of a placeholder may be.
    """
    if isinstance(value, str):
        try:
            return text(value, context)
        except Missing:
            return value
    if isinstance(value, Mapping):
        return {filled(key, context): filled(each, context) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, context) for each in value]
    return value


def text(template: str, context: Mapping[str, Any]) -> Any:
    """The same for one text. Raises Missing."""
    try:
        parts = list(_FORMATTER.parse(template))
    except ValueError:  # a brace that is no placeholder
        return template
    named = [(literal, name) for literal, name, _spec, _conversion in parts]
    if len(named) == 1 and not named[0][0] and named[0][1]:
        return at(named[0][1], context)
    return "".join(
        literal + ("" if name is None else str(at(name, context))) for literal, name in named
    )


def at(path: str, context: Any) -> Any:
    """What is at a path. Raises Missing."""
    parts = [dotted or bracketed for dotted, bracketed in _PART.findall(path)]
    if not parts:
        raise Missing(path)
    found = context
    for part in parts:
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, Sequence) and not isinstance(found, str) and _is_index(part, found):
            found = found[int(part)]
        else:
            raise Missing(path)
    return found


def _is_index(part: str, of: Sequence[Any]) -> bool:
    return part.isascii() and part.isdigit() and int(part) < len(of)


def masked(document: Any) -> Any:
    """A document without its secrets."""
    if isinstance(document, Mapping):
        return {key: HIDDEN if key in SECRETS else masked(value) for key, value in document.items()}
    if isinstance(document, list):
        return [masked(each) for each in document]
    return document
