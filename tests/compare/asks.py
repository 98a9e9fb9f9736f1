"""
Requests to both services, as data.

    post("/v1/nodes", {"driver": "fake-hardware"}, save={"node": "uuid"})
    get("/v1/nodes/{node}", at="1.8")

`{node}` is replaced by a value that `save` took from an earlier response of the same service.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

NEWEST = "1.115"
#: UUID for resources that are created with a chosen one; else no resource has it.
UUID = "11111111-2222-4333-8444-555555555555"
#: A step of fake hardware for templates and runbooks, without its priority or order.
STEP = {"interface": "bios", "step": "apply_configuration", "args": {"settings": []}}
VERSION = "X-OpenStack-Ironic-API-Version"
_VARIABLE = re.compile(r"\{(\w+)\}")
_LONGEST = 160


class Unknown(Exception):
    """A value is missing, because the request that saves it failed."""


@dataclass(frozen=True)
class Raw:
    """A body that is sent without encoding."""

    data: bytes
    type: str | None = "application/json"


@dataclass(frozen=True)
class Ask:
    """One request."""

    method: str
    path: str
    body: Any = None
    version: str | None = NEWEST  # None: no header
    headers: Mapping[str, str] = field(default_factory=dict)
    save: Mapping[str, str] = field(default_factory=dict)  # variable -> key in the response, a.b
    settle: str | None = None  # path of a node or allocation whose work must end before the next
    note: str = ""  # distinguishes it from another request that looks the same
    prose: bool = False  # the values of the response are texts for people

    @property
    def label(self) -> str:
        """Name of the request in reports and in the list of known differences."""
        words = [self.method, self.path if len(self.path) < _LONGEST else _cut(self.path)]
        if isinstance(self.body, Raw):
            words.append(_cut(repr(self.body.data)))
            words.append(f"({self.body.type})")
        elif self.body is not None:
            words.append(_cut(json.dumps(self.body)))
        words += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.version != NEWEST:
            words.append(f"@{self.version}")
        if self.note:
            words.append(f"#{self.note}")
        return " ".join(words)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...({len(text)})"


def _asking(method: str):
    def ask(path: str, body: Any = None, at: str | None = NEWEST, **attributes: Any) -> Ask:
        return Ask(method, path, body, at, **attributes)

    return ask


get, head, options = _asking("GET"), _asking("HEAD"), _asking("OPTIONS")
post, put, patch, delete = (_asking(method) for method in ("POST", "PUT", "PATCH", "DELETE"))


def node(variable: str = "node", /, **fields: Any) -> Ask:
    """Enroll a node of fake hardware; save its UUID as `{variable}`."""
    return post("/v1/nodes", {"driver": "fake-hardware", **fields}, save={variable: "uuid"})


def verb(target: str, of: str = "node", **fields: Any) -> Ask:
    """Request a verb, and wait for its result."""
    path = f"/v1/nodes/{{{of}}}"
    return put(f"{path}/states/provision", {"target": target, **fields}, settle=path)


def change(path: str, *operations: tuple[Any, ...], **attributes: Any) -> Ask:
    """Send a patch of (op, path) or (op, path, value)."""
    document = [
        dict(zip(("op", "path", "value"), operation, strict=False)) for operation in operations
    ]
    return patch(path, document, **attributes)


def available(variable: str = "node", /, **fields: Any) -> list[Ask]:
    """Enroll a node that can be deployed."""
    return [node(variable, **fields), verb("manage", variable), verb("provide", variable)]


def at_each(ask: Ask, *minors: int) -> list[Ask]:
    """Repeat a request in several microversions."""
    return [replace(ask, version=f"1.{minor}") for minor in minors]


def around(ask: Ask, minor: int) -> list[Ask]:
    """Repeat a request in the microversion before one, and in it."""
    return at_each(ask, minor - 1, minor)


def filled(part: Any, variables: Mapping[str, str]) -> Any:
    """Replace the variables of a path or document. Raises Unknown."""
    if isinstance(part, str):
        return _VARIABLE.sub(lambda match: _value(match[1], variables), part)
    if isinstance(part, Mapping):
        return {filled(key, variables): filled(value, variables) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [filled(item, variables) for item in part]
    return part


def _value(name: str, variables: Mapping[str, str]) -> str:
    if name not in variables:
        raise Unknown(name)
    return variables[name]
