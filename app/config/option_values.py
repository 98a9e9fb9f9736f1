"""Conversion of the value of an option from a text or a TOML value to its type, and its checks."""

import difflib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from app.config.options import Option


def convert(option: Option, value: object) -> Any:
    """
    Convert a value to the option's type, and check it.

    Texts have the form of environment variables: lists are separated by commas, maps are name:value
    pairs, an empty text is None if the option may be None.

    Raises ValueError: the value is wrong; the message has the accepted values.
    """
    kind = option.type
    if isinstance(kind, types.UnionType):  # X | None
        if value is None or value == "":
            return None
        (kind,) = (member for member in typing.get_args(kind) if member is not types.NoneType)
    attributes = option.about
    converted: Any
    if typing.get_origin(kind) is dict:
        converted = _map(value, typing.get_args(kind)[1])
    else:
        converted = CONVERTERS[typing.get_origin(kind) or kind](value)
    for item in converted if isinstance(converted, tuple) else (converted,):
        if attributes.choices and item not in attributes.choices:
            matches = difflib.get_close_matches(str(item), attributes.choices, 1)
            hint = f"; did you mean {matches[0]!r}?" if matches else ""
            raise ValueError(f"{item!r} is not one of {', '.join(attributes.choices)}{hint}")
    low, high = attributes.minimum, attributes.maximum
    if low is not None and converted < low:
        raise ValueError(f"{converted} is less than {low:g}")
    if high is not None and converted > high:
        raise ValueError(f"{converted} is more than {high:g}")
    if attributes.check:
        attributes.check(converted)
    return converted


def _bool(value: object) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True}
    words |= {"false": False, "no": False, "off": False, "0": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.strip().lower() not in words:
        raise ValueError(f"{value!r} is not true or false")
    return words[value.strip().lower()]


def _int(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(f"{value!r} is not a whole number") from None


def _float(value: Any) -> float:
    try:
        number = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError):
        number = float("nan")
    if number - number != 0:  # neither nan nor inf
        raise ValueError(f"{value!r} is not a number")
    return number


def _str(value: object) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{value!r} is not a text")


def _list(value: object) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{value!r} is not a list of texts")
    return tuple(part.strip() for part in parts if part.strip())


def _map(value: object, kind: type[Any]) -> dict[str, Any]:
    """Parse name:value pairs, split at the last colon for numbers, at the first one for texts."""
    if isinstance(value, Mapping):
        return {str(name): CONVERTERS[kind](item) for name, item in value.items()}
    result = {}
    for part in _list(value):
        name, colon, item = part.partition(":") if kind is str else part.rpartition(":")
        if not colon and kind is str:  # it may be a part of a URL with a password
            raise ValueError("expected name:value pairs; a comma in a value is written as %2C")
        if not colon:
            raise ValueError(f"{part!r} is not of the form name:value")
        result[name.strip()] = CONVERTERS[kind](item.strip())
    return result


CONVERTERS: Mapping[Any, Callable[[Any], Any]] = {
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    tuple: _list,
}
