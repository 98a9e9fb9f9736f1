"""
Exchanges with a BMC, as operations have them: each request with its answer, without secrets.

An exchange is a document of JSON, so that it can be stored and sent:

    {"seconds": 0.25, "method": "PATCH", "path": "/redfish/v1/Systems/1",
     "request_body": "{...}" or null,
     "status": 204, "headers": {...}, "encoding": "utf-8", "body": "..."}

seconds: since the step's call to the driver began. request_body: None: it has
none, or is no JSON. status 0: there is no answer, and the body is the reason.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from drivers.core.recording.bundle import LONGEST_HEADER, is_path, kept_headers, text_of
from drivers.core.recording.identifying import NAMES

#: An exchange as a document.
Exchange = dict[str, Any]
#: Limits of one step's call to the driver: exchanges, and bytes of all bodies.
MOST, MOST_BYTES = 500, 2 << 20
#: Longest body that is kept, in bytes.
LONGEST_KEPT = 256 << 10
HIDDEN = "******"

_SECRET = re.compile(
    rf"{NAMES['secret']}|.*(encryption|security|private|shared|kg)_?key|x-auth-token|encrypted.*",
    re.IGNORECASE,
)
#: Properties whose URL leads to a file of this service: its path is as good as a password.
_LOCATION = re.compile(
    r".*(image|imageuri|httpbooturi|targeturi|(boot|uefi)?http.*uri)", re.IGNORECASE
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]+-----", re.DOTALL)
#: A property with a text or number, in JSON that cannot be parsed.
_PROPERTY = re.compile(r'("((?:[^"\\]|\\.)*)"\s*:\s*)("(?:[^"\\]|\\.)*"?|-?[\d.]+)')


@dataclass(slots=True)
class Traffic:
    """Exchanges of one call of a driver, within the limits."""

    exchanges: list[Exchange] = field(default_factory=list)
    left_out: int = 0  # exchanges above the limits, or of which the body is
    size: int = 0  # bytes of the bodies
    _began: float = field(default_factory=time.monotonic)

    def add(self, exchange: Exchange) -> None:
        """Add an exchange; `seconds` is set."""
        length = len(exchange["body"]) + len(exchange["request_body"] or "")
        if (
            len(exchange["body"]) > LONGEST_KEPT
            or len(exchange["request_body"] or "") > LONGEST_KEPT
        ):
            exchange |= {"request_body": None, "body": ""}
            length = 0
            self.left_out += 1
        if len(self.exchanges) >= MOST or self.size + length > MOST_BYTES:
            self.left_out += 1
            return
        self.size += length
        exchange["seconds"] = round(time.monotonic() - self._began, 3)
        self.exchanges.append(exchange)


def answered(
    method: str,
    url: str,
    request_body: bytes | str | None,
    answer: tuple[int, Mapping[str, str], bytes],
    mask: Callable[[str], str],
) -> Exchange:
    """
    Return an exchange.

    answer: status, headers and body. mask: replaces the login's secrets in a text.
    """
    status, headers, content = answer
    encoding, body = text_of(content)
    header_lines = {name: mask(_line(value)) for name, value in kept_headers(headers).items()}
    return {
        "seconds": 0.0,
        "method": method,
        "path": _path(url, mask),
        "request_body": _request_body(request_body, mask),
        "status": status,
        "headers": header_lines,
        "encoding": encoding,
        "body": mask(masked(body)),
    }


def unanswered(
    method: str, url: str, request_body: bytes | str | None, reason: str, mask: Callable[[str], str]
) -> Exchange:
    """Return an exchange without an answer. reason: words of the error."""
    nothing = (0, dict[str, str](), reason.encode())
    return answered(method, url, request_body, nothing, mask)


def masked(body: str) -> str:
    """Replace the secrets in a body. It stays as it is, to the byte, if it has none."""
    body = _PRIVATE_KEY.sub(HIDDEN, body)
    try:
        document = json.loads(body.removeprefix("\ufeff"), strict=False)
        hidden = _masked(document)
    except (ValueError, RecursionError):
        return _PROPERTY.sub(_masked_property, body)
    return body if hidden == document else json.dumps(hidden)


def _masked(value: object, name: str = "") -> object:
    if isinstance(value, dict):
        # an attribute with its value beside it, as in the registries of BIOS settings
        label = str(value.get("AttributeName") or value.get("Name"))
        is_secret = _SECRET.fullmatch(label)
        return {
            key: _masked(item, label if is_secret and key.endswith("Value") else _name(key, name))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_masked(item, name) for item in value]
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        return value
    if _SECRET.fullmatch(name):
        return HIDDEN
    return _masked_url(value, name) if isinstance(value, str) else value


def _name(key: str, outer: str) -> str:
    """Return the name that decides about a value: a secret property has secrets inside."""
    return outer if _SECRET.fullmatch(outer) else key


def _masked_url(value: str, name: str) -> str:
    """Hide login, query and folders of a URL of a file."""
    if "://" not in value or not _LOCATION.fullmatch(name):
        return value
    try:
        url = urlsplit(value)
    except ValueError:
        return HIDDEN
    host, file = url.netloc.rpartition("@")[2], url.path.rpartition("/")[2]
    return f"{url.scheme}://{host}/{HIDDEN}/{file}"


def _masked_property(match: re.Match[str]) -> str:
    prefix, name, value = match[1], match[2], match[3].strip('"')
    hidden = HIDDEN if value and _SECRET.fullmatch(name) else _masked_url(value, name)
    return match[0] if hidden == value else f'{prefix}"{hidden}"'


def _request_body(body: bytes | str | None, mask: Callable[[str], str]) -> str | None:
    """Return the body of a request without secrets; None: it has none, or is no JSON."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    if not text or not isinstance(text, str):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return mask(masked(text))


def _path(url: str, mask: Callable[[str], str]) -> str:
    """Return path and query of a request, in the form of a recording's path."""
    place = urlsplit(url)
    path = mask(f"{place.path}?{place.query}" if place.query else place.path)
    return path if is_path(path) else "/redfish"


def _line(value: str) -> str:
    """Return a header as a recording may have it: one line of ASCII."""
    line = value.encode("ascii", "replace").decode()
    return "".join(character if character.isprintable() else "?" for character in line)[
        :LONGEST_HEADER
    ]
