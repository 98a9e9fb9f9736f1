"""
JSON Patch, as Ironic understands it: `add`, `replace`, `remove` on the fields of a resource.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from app.errors import Invalid

OPERATIONS = ("add", "replace", "remove")
_PATH = re.compile(r"(/[\w-]+)+", re.ASCII)
_ESCAPED = re.compile(r"(/([^/~]|~[01])+)+")
_MISSING: Any = object()

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One operation; path: field first, then keys into it. value: missing with `remove`."""

    op: str
    path: tuple[str, ...]
    value: Any = None

    @property
    def field(self) -> str:
        return self.path[0]


def parse(document: Any, allowed: Collection[str], *, escapes: bool = False) -> list[Change]:
    """
    The changes of a patch whose fields are `allowed`. Raises Invalid.

    escapes: keys may be any text, with `~0` for "~" and `~1` for "/".
    """
    if not isinstance(document, list):
        raise Invalid("A patch is an array of operations.")
    return [_parse(each, allowed, _ESCAPED if escapes else _PATH) for each in document]


def _parse(each: Any, allowed: Collection[str], pattern: re.Pattern[str]) -> Change:
    if not isinstance(each, dict) or not each.keys() <= {"op", "path", "value"}:
        raise Invalid("An operation of a patch has op, path and value, and nothing else.")
    op, path = each.get("op"), each.get("path")
    if op not in OPERATIONS:
        raise Invalid(f"op: {op!r} is not one of {', '.join(OPERATIONS)}")
    if not isinstance(path, str) or not pattern.fullmatch(path):
        raise Invalid(f"path: {path!r} is not a path like /extra/key")
    if op != "remove" and "value" not in each:
        raise Invalid(f"value: {op} {path} needs one")
    parts = tuple(part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
    if parts[0] not in allowed:
        raise Invalid(f"{path} is not a field that can be changed")
    return Change(op, parts, each.get("value"))


def apply(current: Mapping[str, Any], changes: Sequence[Change]) -> Document:
    """
    The fields that the changes touch, with their new values; None for one that was removed.

    current: field -> value. Raises Invalid for a key that is not there.
    """
    touched: Document = {}
    for change in changes:
        field = change.field
        if len(change.path) == 1:
            touched[field] = None if change.op == "remove" else change.value
            continue
        if field not in touched:
            touched[field] = deepcopy(current[field])
        if touched[field] is None and change.op == "add":
            touched[field] = {}
        _apply_inside(touched[field], change)
    return touched


def _apply_inside(container: Any, change: Change) -> None:
    shown = "/" + "/".join(change.path)
    *way, last = change.path[1:]
    for key in way:
        container = _get(container, key)
        if container is _MISSING:
            raise Invalid(f"{shown}: there is no {key!r}")
    if isinstance(container, list):
        _apply_to_list(container, last, change, shown)
    elif not isinstance(container, dict):
        raise Invalid(f"{shown}: what it is part of has no parts")
    elif change.op != "add" and last not in container:
        raise Invalid(f"{shown}: there is no {last!r}")
    elif change.op == "remove":
        del container[last]
    else:
        container[last] = change.value


def _apply_to_list(container: list[Any], last: str, change: Change, shown: str) -> None:
    if change.op == "add" and last == "-":
        container.append(change.value)
        return
    index = _index(last)
    if index is None or index >= len(container) + (change.op == "add"):
        raise Invalid(f"{shown}: there is no item {last!r}")
    if change.op == "add":
        container.insert(index, change.value)
    elif change.op == "remove":
        del container[index]
    else:
        container[index] = change.value


def _get(container: Any, key: str) -> Any:
    if isinstance(container, list):
        index = _index(key)
        return container[index] if index is not None and index < len(container) else _MISSING
    return container.get(key, _MISSING) if isinstance(container, dict) else _MISSING


def _index(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
