"""
The part of JSON Schema that arguments of steps need.

Keywords: type, enum, minimum, maximum, items, properties, required. Others are ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def mismatch(value: Any, schema: Mapping[str, Any], place: str) -> str | None:
    """
    Describe the first mismatch of a value and a schema; None if it matches.

    place: name of the value in the description.
    """
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(_TYPES[each](value) for each in types):
        return f"{place} must be of type {' or '.join(types)}, not {type(value).__name__}"
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(str(each) for each in schema["enum"])
        return f"{place} must be one of {allowed}, not {value!r}"
    if "minimum" in schema and _TYPES["number"](value) and value < schema["minimum"]:
        return f"{place} must be at least {schema['minimum']}, not {value}"
    if "maximum" in schema and _TYPES["number"](value) and value > schema["maximum"]:
        return f"{place} must be at most {schema['maximum']}, not {value}"
    inner: list[tuple[Any, Mapping[str, Any], str]] = []
    if isinstance(value, list):
        inner = [(each, schema.get("items", {}), f"{place}/{at}") for at, each in enumerate(value)]
    elif isinstance(value, dict):
        lacking = [name for name in schema.get("required", ()) if name not in value]
        if lacking:
            return f"{place} lacks {', '.join(lacking)}"
        known = schema.get("properties", {})
        inner = [(value[name], known[name], f"{place}/{name}") for name in known if name in value]
    found = (mismatch(*each) for each in inner)
    return next((each for each in found if each), None)
