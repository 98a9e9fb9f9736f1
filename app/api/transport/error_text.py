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


def format_errors(error: ValidationError, schema: Schema, changed_object: str = "") -> str:
    """
    Format the first errors of a document, on one line.

    changed_object: the object of a patch, as "Node UUID"; empty for the creation of an object.
    """
    document_name = "patch" if changed_object else WHOLE.get(type(schema).__name__)
    problems = []
    for place, message in islice(_leaves(error.messages, ()), MOST):
        words = _words(message, place, error.data, schema, is_whole=document_name is not None)
        words = words.replace("{naming}", _naming(schema, changed_object))
        path = "/".join(str(part) for part in place)
        problems.append(words if not path or path in words else f"{words} ({path})")
    text = "; ".join(problems)
    if not _OF_SCHEMA.search(text) or text.startswith("Invalid "):
        return text
    return f"Schema error for {document_name}: {text}" if document_name else f"Schema error: {text}"


def _naming(schema: Schema, changed_object: str) -> str:
    if changed_object:
        return f"{changed_object}: Cannot change name to"
    name = type(schema).__name__
    return f"Cannot create {WHOLE.get(name) or name.removesuffix('Create').lower()} with"


def _leaves(messages: object, place: Place) -> Iterator[tuple[Place, str]]:
    """Flatten marshmallow's tree of messages to (place, message)."""
    if isinstance(messages, Mapping):
        for name, inner in messages.items():
            left_out = name == "_schema" or (not place and name in LOCATIONS)
            yield from _leaves(inner, place if left_out else (*place, name))
    elif isinstance(messages, list | tuple):
        for message in messages:
            yield from _leaves(message, place)
    else:
        yield place, str(messages)


def _words(message: str, place: Place, data: object, schema: Schema, *, is_whole: bool) -> str:
    name = next((str(part) for part in reversed(place) if isinstance(part, str)), "")
    inside = not is_whole and len(place) > 1
    words = message.replace("{name}", name)
    if message == REQUIRED:
        words = f"{name!r} is a required property"
        if not (is_whole or inside):
            return f"Missing mandatory parameter: {name}"
    elif message == UNKNOWN:
        words = f"Additional properties are not allowed ({name!r} was unexpected)"
        nearest = _nearest(schema, place)
        if not (is_whole or inside):
            return f"Unexpected arguments: {name}{nearest}"
        words += nearest
    elif message in MISTYPED:
        value, types = _value(data, place), _types(schema, place)
        words = f"{value!r} is not of type {', '.join(map(repr, types))}"
        if not (is_whole or inside):
            required_name = next(
                (name for name, field in schema.fields.items() if field.required), ""
            )
            if place:
                return f"Expected {types[0]} for {name}: {value!r}"
            if required_name:
                return f"Missing mandatory parameter: {required_name}: {words}"
    return f"Invalid {place[0]}: {words}" if inside else words


def _value(data: Any, place: Place) -> Any:
    """Return the value at a place of a document, if there is one."""
    for part in place:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _nearest(schema: Schema, place: Place) -> str:
    """Return the end of a sentence that names the known field with the most similar name."""
    name, names = str(place[-1]), _fields(_declared(schema, place[:-1]))
    matches = get_close_matches(name, names, 1) if len(name) <= LONGEST_NAME else []
    return f"; the nearest is {matches[0]!r}" if matches else ""


def _types(schema: Schema, place: Place) -> list[str]:
    """Return the JSON schema types that are valid at a place."""
    declaration = _declared(schema, place)
    kind = next((name for type_, name in TYPES if isinstance(declaration, type_)), "object")
    return [kind, "null"] if getattr(declaration, "allow_none", False) else [kind]


def _declared(schema: Schema, place: Place) -> object:
    """Return the schema or field that is declared for a place, if there is one."""
    declaration: object = schema
    for part in place:
        members = _fields(declaration)
        declaration = members.get(str(part)) if members else getattr(declaration, "inner", None)
    return declaration


def _fields(declaration: object) -> Mapping[str, fields.Field[object]]:
    """Return the fields of a schema by their names in documents; of others, none."""
    schema = declaration.schema if isinstance(declaration, fields.Nested) else declaration
    if not isinstance(schema, Schema):
        return {}
    return {field.data_key or key: field for key, field in schema.fields.items()}
