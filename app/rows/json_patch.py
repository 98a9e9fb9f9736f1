"""
JSON Patch with Ironic's operations: `add`, `replace` and `remove` on the fields of a resource.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from app.errors import Invalid

OPERATIONS = ("add", "replace", "remove")
MEMBERS = {"op", "path", "value"}
_PATH = re.compile(r"(/[\w-]+)+", re.ASCII)
_ESCAPED = re.compile(r"(/([^/~]|~[01])+)+")
_MISSING = object()

Document = dict[str, object]


@dataclass(frozen=True, slots=True)
class Change:
    """One operation of a patch."""

    op: str
    path: tuple[str, ...]  # name of the field, then keys within its value
    value: object = None  # None for `remove`

    @property
    def field(self) -> str:
        return self.path[0]

    def refused(self, reason: str) -> Invalid:
        """Return the error for an operation that does not apply to the current values."""
        operation: Document = {"op": self.op, "path": "/" + "/".join(self.path)}
        if self.op != "remove":
            operation["value"] = self.value
        return Invalid(f"Couldn't apply patch '{operation}'. Reason: {reason}")


def parse(
    document: object, allowed_fields: Collection[str], *, escapes: bool = False
) -> list[Change]:
    """
    Return the operations of a patch, which may change the fields `allowed_fields`.

    With `escapes`, keys may be any text, with `~0` for "~" and `~1` for "/".

    Raises Invalid: the document is not a patch, or names another field.
    """
    if not isinstance(document, list):
        raise _not_a_patch(f"{document!r} is not of type 'array', of operations")
    return [
        _parse(operation, allowed_fields, _ESCAPED if escapes else _PATH) for operation in document
    ]


def _parse(operation: object, allowed_fields: Collection[str], pattern: re.Pattern[str]) -> Change:
    if not isinstance(operation, dict):
        raise _not_a_patch(f"{operation!r} is not of type 'object', with op, path and value")
    for name in operation.keys() - MEMBERS:
        raise _not_a_patch(f"Additional properties are not allowed ({name!r} was unexpected)")
    for name in ("op", "path"):
        if name not in operation:
            raise _not_a_patch(f"{name!r} is a required property")
    op, path = operation["op"], operation["path"]
    if op not in OPERATIONS:
        raise _not_a_patch(f"op: {op!r} is not one of {[*OPERATIONS]}")
    if not isinstance(path, str):
        raise _not_a_patch(f"path: {path!r} is not of type 'string'")
    if not pattern.fullmatch(path):
        raise _not_a_patch(f"path: {path!r} does not match '^{pattern.pattern}$'")
    if op != "remove" and "value" not in operation:
        raise Change(op, (path[1:],)).refused("The operation does not contain a 'value' member")
    parts = tuple(part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
    if parts[0] not in allowed_fields:
        names = ", ".join(sorted(allowed_fields))
        raise Invalid(f"Cannot patch /{parts[0]}. Only the following can be updated: {names}")
    return Change(op, parts, operation.get("value"))


def _not_a_patch(reason: str) -> Invalid:
    return Invalid(f"Schema error for patch: {reason}")


def apply(fields: Mapping[str, object], changes: Sequence[Change]) -> Document:
    """
    Apply a patch to the `fields` fields, and return the changed ones with their new values.

    The value of a removed field is None.

    Raises Invalid: a key does not exist.
    """
    changed_fields: Document = {}
    for change in changes:
        field = change.field
        if len(change.path) == 1:
            changed_fields[field] = None if change.op == "remove" else change.value
            continue
        if field not in changed_fields:
            changed_fields[field] = deepcopy(fields[field])
        if changed_fields[field] is None and change.op == "add":
            changed_fields[field] = {}
        _apply_inside(changed_fields[field], change)
    return changed_fields


def _apply_inside(container: object, change: Change) -> None:
    *parents, key_ = change.path[1:]
    for key in parents:
        container = _get(container, key)
        if container is _MISSING:
            raise change.refused(f"member {key!r} not found in the document above it")
    if isinstance(container, list):
        _apply_to_list(container, key_, change)
    elif not isinstance(container, dict):
        raise change.refused(f"Cannot apply token {key_!r} to non-container type {type(container)}")
    elif change.op != "add" and key_ not in container:
        raise change.refused(f"can't {change.op} a non-existent object {key_!r}")
    elif change.op == "remove":
        del container[key_]
    else:
        container[key_] = change.value


def _apply_to_list(container: list[object], key: str, change: Change) -> None:
    if change.op == "add" and key == "-":
        container.append(change.value)
        return
    index = _index(key)
    if index is None:
        raise change.refused(f"{key!r} is not a valid sequence index")
    if index >= len(container) + (change.op == "add"):
        raise change.refused(f"index {key!r} is out of bounds of {len(container)} items")
    if change.op == "add":
        container.insert(index, change.value)
    elif change.op == "remove":
        del container[index]
    else:
        container[index] = change.value


def _get(container: object, key: str) -> object:
    if isinstance(container, list):
        index = _index(key)
        return container[index] if index is not None and index < len(container) else _MISSING
    return container.get(key, _MISSING) if isinstance(container, dict) else _MISSING


def _index(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
