"""
The part of JSON Schema that arguments of steps need.

Keywords: type, enum, minimum, maximum, items, properties, required. Others are ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any

_TYPES: Mapping[str, Callable[[object], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def mismatch(value: object, schema: Mapping[str, Any], path: str) -> str | None:
    """
    Describe the first mismatch of a value and a schema; None if it matches.

    path: name of the value in the description.
    """
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(_TYPES[type_name](value) for type_name in types):
        return f"{path} must be of type {' or '.join(types)}, not {type(value).__name__}"
    if "enum" in schema and value not in schema["enum"]:
        allowed_values = ", ".join(str(allowed_value) for allowed_value in schema["enum"])
        return f"{path} must be one of {allowed_values}, not {value!r}"
    if "minimum" in schema and _TYPES["number"](value) and value < schema["minimum"]:
        return f"{path} must be at least {schema['minimum']}, not {value}"
    if "maximum" in schema and _TYPES["number"](value) and value > schema["maximum"]:
        return f"{path} must be at most {schema['maximum']}, not {value}"
    inner: list[tuple[Any, Mapping[str, Any], str]] = []
    if isinstance(value, list):
        inner = [
            (item, schema.get("items", {}), f"{path}/{index}") for index, item in enumerate(value)
        ]
    elif isinstance(value, dict):
        missing_names = [name for name in schema.get("required", ()) if name not in value]
        if missing_names:
            return f"{path} lacks {', '.join(missing_names)}"
        properties = schema.get("properties", {})
        inner = [
            (value[name], properties[name], f"{path}/{name}")
            for name in properties
            if name in value
        ]
    problems = (mismatch(*inner_check) for inner_check in inner)
    return next((problem for problem in problems if problem), None)
