"""
JSON patches: parsing of the request, and application to a row.
"""

from collections.abc import Sequence
from typing import Any

import orjson
from marshmallow import Schema, ValidationError

from app.api.request.context import RequestContext
from app.api.request.parsing import body
from app.api.transport.error_text import format_errors
from app.api.transport.request_body import DEFAULT_LIMIT
from app.errors import Invalid
from app.models import Base
from app.models.base import kind_of
from app.rows import json_patch

#: The version from which keys in paths may contain escaped characters.
ESCAPES_SINCE = 98


def parse(context: RequestContext, resource: str, schema: Schema) -> list[json_patch.Change]:
    """
    Parse the patch of the request: fields of the schema, none newer than its version.

    Raises Invalid, NotAcceptable.
    """
    escapes = context.version >= ESCAPES_SINCE
    changes = json_patch.parse(body(context), frozenset(schema.fields), escapes=escapes)
    context.version.check_fields(resource, (change.field for change in changes))
    return changes


def patched(schema: Schema, row: Base, changes: Sequence[json_patch.Change]) -> dict[str, object]:
    """
    Apply the changes to a row's fields: field -> validated new value, None for a removed field.

    Raises Invalid.
    """
    fields = {change.field for change in changes}
    values = json_patch.apply({name: getattr(row, name, None) for name in fields}, changes)
    for name, value in values.items():
        if value is None and not schema.fields[name].allow_none:
            raise Invalid(
                f"Schema error for patch: {name!r} is a required property: it cannot be removed"
            )
    for change in changes:
        nullable = getattr(schema.fields[change.field], "null", True)
        if (
            not nullable
            and len(change.path) == 1
            and change.op != "remove"
            and change.value is None
        ):
            raise Invalid(
                f"{_changed(row)}: Cannot change name to invalid name 'None': remove it instead"
            )
    try:
        new_values: dict[str, object] = schema.load(
            {name: value for name, value in values.items() if value is not None},
            partial=tuple(
                schema.fields
            ),  # by name, so that required keys inside of a field are still checked
        )
    except ValidationError as error:
        raise Invalid(format_errors(error, schema, _changed(row))) from error
    for name, value in new_values.items():
        _check_size(name, value, getattr(row, name, None))
    return {name: new_values.get(name) for name in values}


def _check_size(name: str, value: object, old_value: Any) -> None:
    """
    Check that a changed document is as large as a request could have made it.

    Many patches would make it as large as they like, and with it every answer that has it.

    Raises Invalid.
    """
    if isinstance(value, dict):
        size = _size(value)
        if size > DEFAULT_LIMIT and size > _size(old_value or {}):
            raise Invalid(
                f"{name}: would have {size >> 10} KiB; at most {DEFAULT_LIMIT >> 10} KiB are kept"
            )


def _size(document: dict[str, object]) -> int:
    """Return the bytes of a document, without a config drive: requests for verbs have more room."""
    members = {name: value for name, value in document.items() if name != "configdrive"}
    return len(orjson.dumps(members))


def _changed(row: Base) -> str:
    uuid = getattr(row, "uuid", "")
    return f"{kind_of(type(row)).capitalize()} {uuid}"
