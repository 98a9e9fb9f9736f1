"""
Actions of inspection rules, by operator.

Each function receives the subject as its first argument and changes only the subject. `api-call`
sends a request.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any

from urllib3.util import Retry

from app.inspection.operators import Operation
from app.inspection.subject import NODE_FIELDS, PORT_FIELDS, Document, Subject
from app.observe import log
from drivers.core.errors import HardwareError, InspectionFailed
from drivers.net import fetch

logger = log.get(__name__)

#: An object, and a path in it.
Location = tuple[Document, list[str]]
#: Finds the object that the arguments of an operator name; the end checks the changed field.
Locator = Callable[..., AbstractContextManager[Location]]
LEVELS = ("debug", "info", "warning", "error", "critical")
#: Status codes after which `api-call` retries.
_RETRIED_STATUSES = (429, 500, 502, 503, 504)


def _fail(_subject: Subject, msg: object) -> None:
    raise InspectionFailed(str(msg))


def _log(subject: Subject, msg: object, level: object = "info") -> None:
    if str(level).lower() not in LEVELS:
        raise InspectionFailed(f"level: {level!r} is none of {', '.join(LEVELS)}")
    number = logging.getLevelNamesMapping()[str(level).upper()]
    logger.log(number, "inspection_rule.logged", node=subject.node["uuid"], text=msg)


def parts_of(path: object) -> list[str]:
    """Return the names in a path: /a/b or a.b. Raises InspectionFailed."""
    text = str(path)
    parts = text.strip("/").split("/") if "/" in text else text.split(".")
    if not all(parts):
        raise InspectionFailed(f"path: {path!r} is not a path such as /properties/cpus")
    return parts


@contextmanager
def _of_node(subject: Subject, path: object) -> Iterator[Location]:
    parts = parts_of(path)
    if parts[0] not in NODE_FIELDS and not parts[0].endswith("_interface"):
        raise InspectionFailed(f"path: {parts[0]!r} of a node cannot be changed by rules")
    yield subject.node, parts
    _convert(subject.node, parts[0], NODE_FIELDS)


@contextmanager
def _of_port(subject: Subject, port_id: object, path: object) -> Iterator[Location]:
    port, parts = subject.port(str(port_id)), parts_of(path)
    if port is None:
        raise InspectionFailed(f"port_id: the node has no port {port_id}")
    if parts[0] not in PORT_FIELDS:
        raise InspectionFailed(f"path: {parts[0]!r} of a port cannot be changed by rules")
    yield port, parts
    _convert(port, parts[0], PORT_FIELDS)


@contextmanager
def _of_plugin_data(subject: Subject, path: object) -> Iterator[Location]:
    yield subject.plugin_data, parts_of(path)


def _convert(document: Document, name: str, types: Mapping[str, type]) -> None:
    """
    Convert a changed field to its type, if it is text or None.

    Raises InspectionFailed: the value has another type.
    """
    value_type, value = types.get(name, str), document.get(name)
    if value is None:
        document[name] = {} if value_type is dict else None
    elif value_type is str and not isinstance(value, dict | list):
        document[name] = str(value)
    elif not isinstance(value, value_type):
        raise InspectionFailed(f"path: {name} cannot be {value!r}")


def _holder(document: Document, parts: list[str], *, create: bool) -> Document:
    """
    Return the object with the last name of a path. create: add missing objects.

    Raises InspectionFailed: a part of the path is no object.
    Raises KeyError: a part is missing.
    """
    for part in parts[:-1]:
        document = document.setdefault(part, {}) if create else document[part]
        if not isinstance(document, dict):
            raise InspectionFailed(f"path: {part!r} of {'/'.join(parts)} is not an object")
    return document


def _set(locate: Locator, subject: Subject, value: object, **names: object) -> None:
    with locate(subject, **names) as (document, parts):
        _holder(document, parts, create=True)[parts[-1]] = value


def _extend(
    locate: Locator, subject: Subject, value: object, unique: object = False, **names: object
) -> None:
    with locate(subject, **names) as (document, parts):
        holder = _holder(document, parts, create=True)
        items = holder.get(parts[-1])
        if items is None:
            items = []
        if not isinstance(items, list):
            raise InspectionFailed(f"path: {'/'.join(parts)} is not a list")
        if not unique or value not in items:
            holder[parts[-1]] = [*items, value]


def _delete(locate: Locator, subject: Subject, **names: object) -> None:
    with locate(subject, **names) as (document, parts), suppress(KeyError):  # already absent
        del _holder(document, parts, create=False)[parts[-1]]


# Capabilities, traits


def _set_capability(subject: Subject, name: object, value: object) -> None:
    subject.set_capabilities(**{str(name): str(value)})


def _unset_capability(subject: Subject, name: object) -> None:
    subject.set_capabilities(**{str(name): None})


def _add_trait(subject: Subject, name: object) -> None:
    subject.traits = sorted({*subject.traits, str(name)})


def _remove_trait(subject: Subject, name: object) -> None:
    subject.traits = [trait for trait in subject.traits if trait != str(name)]


# Others


def _call_api(  # noqa: PLR0917 - called by name
    subject: Subject,
    url: object,
    headers: object = None,
    proxies: object = None,
    timeout: Any = 5,
    retries: Any = 3,
    backoff_factor: Any = 0.3,
) -> None:
    """GET a URL. A repeated inspection repeats the request."""
    try:
        retry = Retry(
            total=int(retries),
            backoff_factor=float(backoff_factor),
            status_forcelist=_RETRIED_STATUSES,
            allowed_methods=["GET"],
            raise_on_status=False,
        )
        request_options = {"headers": headers, "proxies": proxies, "timeout": float(timeout)}
        fetch.call(subject.options, "api-call", str(url), retry=retry, **request_options)
    except (HardwareError, TypeError, ValueError) as error:
        raise InspectionFailed(f"api-call to {url}: {error}") from error


#: Operator -> its arguments after the subject, and its function.
ACTIONS = {
    "fail": Operation(("msg",), (), _fail),
    "log": Operation(("msg",), ("level",), _log),
    "set-attribute": Operation(("path", "value"), (), partial(_set, _of_node)),
    "extend-attribute": Operation(("path", "value"), ("unique",), partial(_extend, _of_node)),
    "del-attribute": Operation(("path",), (), partial(_delete, _of_node)),
    "set-capability": Operation(("name", "value"), (), _set_capability),
    "unset-capability": Operation(("name",), (), _unset_capability),
    "add-trait": Operation(("name",), (), _add_trait),
    "remove-trait": Operation(("name",), (), _remove_trait),
    "set-plugin-data": Operation(("path", "value"), (), partial(_set, _of_plugin_data)),
    "extend-plugin-data": Operation(
        ("path", "value"), ("unique",), partial(_extend, _of_plugin_data)
    ),
    "unset-plugin-data": Operation(("path",), (), partial(_delete, _of_plugin_data)),
    "set-port-attribute": Operation(("port_id", "path", "value"), (), partial(_set, _of_port)),
    "extend-port-attribute": Operation(
        ("port_id", "path", "value"), ("unique",), partial(_extend, _of_port)
    ),
    "del-port-attribute": Operation(("port_id", "path"), (), partial(_delete, _of_port)),
    "api-call": Operation(
        ("url",), ("headers", "proxies", "timeout", "retries", "backoff_factor"), _call_api
    ),
}
