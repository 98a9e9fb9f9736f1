"""
Texts of validation errors: Ironic's words first, which scripts match on, then the field.

    Schema error for node: 'xxx' is too long: at most 80 characters (resource_class)

Ironic checks some bodies as a whole, by JSON schema; it checks members of other bodies and query
parameters as arguments. Messages of schema fields may contain `{name}`, the name of the field, and
`{naming}`, the beginning of Ironic's text for an invalid name.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from marshmallow import Schema, ValidationError, fields

from app.api.values.value_types import Document, Flag

#: Schemas of bodies that Ironic checks as a whole -> its name for them; empty: it has none.
WHOLE: Mapping[str, str] = {
    "NodeCreate": "node", "PortCreate": "port", "PortgroupCreate": "portgroup",
    "ChassisCreate": "chassis", "ConnectorCreate": "connector", "TargetCreate": "target",
    "TemplateCreate": "template", "RunbookCreate": "runbook", "Vif": "vif", "Traits": "body",
    "VirtualMedium": "vmedia", "Report": "data", "AllocationCreate": "", "RuleCreate": "",
    "Events": "",
}  # fmt: skip
#: Locations of webargs: the first key of its error messages, left out of the texts.
LOCATIONS = {"query", "json", "json_or_query"}
#: Messages of marshmallow for a value of the wrong type.
MISTYPED = {
    "Not a valid string.", "Not a valid list.", "Not a valid mapping type.", "Not a valid integer.",
    "Not a valid number.", "Not a valid boolean.", "Invalid type.", "Invalid input type.",
    "Field may not be null.",
}  # fmt: skip
#: Most errors in a text.
MOST = 20
#: Most characters of an unknown name that is compared with the known ones.
LONGEST_NAME = 64
REQUIRED, UNKNOWN = "Missing data for required field.", "Unknown field."
#: Class of a field, and the JSON schema type of its values; the first match counts.
TYPES: tuple[tuple[type, str], ...] = (
    (Document, "object"), (fields.Dict, "object"), (fields.List, "array"), (Flag, "boolean"),
    (fields.Integer, "integer"), (fields.Float, "number"), (fields.String, "string"),
)  # fmt: skip
_OF_SCHEMA = re.compile(
    r"is not of type|required property|Additional properties|too (long|short)|should be non-empty"
    r"|does not match|is not one of|m(in|ax)imum of"
)

Place = tuple[str | int, ...]


def format_errors(error: ValidationError, schema: Schema, changed: str = "") -> str:
    """
    Format the first errors of a document, on one line.

    changed: the object of a patch, as "Node UUID"; empty for the creation of an object.
    """
    whole = "patch" if changed else WHOLE.get(type(schema).__name__)
    problems = []
    for place, message in islice(_leaves(error.messages, ()), MOST):
        words = _words(message, place, error.data, schema, whole=whole is not None)
        words = words.replace("{naming}", _naming(whole, changed))
        shown = "/".join(str(part) for part in place)
        problems.append(words if not shown or shown in words else f"{words} ({shown})")
    text = "; ".join(problems)
    if not _OF_SCHEMA.search(text) or text.startswith("Invalid "):
        return text
    return f"Schema error for {whole}: {text}" if whole else f"Schema error: {text}"


def _naming(kind: str | None, changed: str) -> str:
    if changed:
        return f"{changed}: Cannot change name to"
    return f"Cannot create {kind or 'allocation'} with"


def _leaves(messages: Any, place: Place) -> Iterator[tuple[Place, str]]:
    """Flatten marshmallow's tree of messages to (place, message)."""
    if isinstance(messages, Mapping):
        for name, inner in messages.items():
            left_out = name == "_schema" or (not place and name in LOCATIONS)
            yield from _leaves(inner, place if left_out else (*place, name))
    elif isinstance(messages, list | tuple):
        for each in messages:
            yield from _leaves(each, place)
    else:
        yield place, str(messages)


def _words(message: str, place: Place, data: Any, schema: Schema, *, whole: bool) -> str:
    name = next((str(part) for part in reversed(place) if isinstance(part, str)), "")
    inside = not whole and len(place) > 1
    words = message.replace("{name}", name)
    if message == REQUIRED:
        words = f"{name!r} is a required property"
        if not (whole or inside):
            return f"Missing mandatory parameter: {name}"
    elif message == UNKNOWN:
        words = f"Additional properties are not allowed ({name!r} was unexpected)"
        nearest = _nearest(schema, place)
        if not (whole or inside):
            return f"Unexpected arguments: {name}{nearest}"
        words += nearest
    elif message in MISTYPED:
        value, wanted = _value(data, place), _types(schema, place)
        words = f"{value!r} is not of type {', '.join(map(repr, wanted))}"
        if not (whole or inside):
            needed = next((name for name, each in schema.fields.items() if each.required), "")
            if place:
                return f"Expected {wanted[0]} for {name}: {value!r}"
            if needed:
                return f"Missing mandatory parameter: {needed}: {words}"
    return f"Invalid {place[0]}: {words}" if inside else words


def _value(data: Any, place: Place) -> Any:
    """Return the value at a place of a document; None if there is none."""
    for part in place:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _nearest(schema: Schema, place: Place) -> str:
    """Return the end of a sentence that names the known field with the most similar name."""
    name, known = str(place[-1]), _fields(_declared(schema, place[:-1]))
    near = get_close_matches(name, known, 1) if len(name) <= LONGEST_NAME else []
    return f"; the nearest is {near[0]!r}" if near else ""


def _types(schema: Schema, place: Place) -> list[str]:
    """Return the JSON schema types that are valid at a place."""
    found = _declared(schema, place)
    kind = next((name for type_, name in TYPES if isinstance(found, type_)), "object")
    return [kind, "null"] if getattr(found, "allow_none", False) else [kind]


def _declared(schema: Schema, place: Place) -> Any:
    """Return the schema or field that is declared for a place; None: there is none."""
    found: Any = schema
    for part in place:
        known = _fields(found)
        found = known.get(str(part)) if known else getattr(found, "inner", None)
    return found


def _fields(declared: Any) -> Mapping[str, fields.Field[Any]]:
    """Return the fields of a schema by their names in documents; of others, none."""
    schema = declared.schema if isinstance(declared, fields.Nested) else declared
    if not isinstance(schema, Schema):
        return {}
    return {field.data_key or key: field for key, field in schema.fields.items()}
