"""
Differences between two responses to one request.

Values that must differ (URLs, UUIDs, times, request ids) are first replaced by words. Texts for
people are compared by type only, a link to the next page part by part. The text of an error must
contain the words of Ironic's, in their order.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

ABSENT, EMPTY = "absent", "empty"
#: Fields with texts for people.
FREE = {"reason", "last_error", "event"}
#: Documents with private content of the service.
OPAQUE = {"driver_internal_info", "internal_info"}
#: Prefix of the names of lists without an order.
UNORDERED = "enabled_"
#: Headers that are not part of the API.
IGNORED = {
    "server", "date", "connection", "keep-alive", "content-length", "transfer-encoding",
}  # fmt: skip
#: Methods that Ingot allows on every path, and Ironic on few.
EVERYWHERE = {"HEAD", "OPTIONS"}
#: Part of a difference between the texts of errors.
WORDS = "words"
#: Quotations of the request in an error: their form varies, and clients do not match on them.
_QUOTED = re.compile(
    r"""'\{.*\}'|(?<![a-z])'[^']*'|"[^"]*"|\[.*\]|\{.*\}|<[^>]*>|[^\sa-z]*[\d_/][^\s,;:()]*"""
)
#: Position before a list of accepted values.
_LISTED = re.compile(r"(?<=are:)|(?<=updated:)")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?")
_SECRET = re.compile(r"[\w-]{40,}")
_LONGEST = 70


@dataclass(frozen=True)
class Answer:
    """A response of a service."""

    status: int  # 0: the request was not sent
    headers: Mapping[str, str]  # lower-cased names
    body: Any  # a JSON document, text, or None

    @classmethod
    def unsent(cls, reason: str) -> "Answer":
        return cls(0, {}, reason)


@dataclass(frozen=True, order=True)
class Difference:
    """One difference between two responses."""

    part: str  # "status", "header NAME", or a path into the body
    ironic: str
    ingot: str

    @property
    def both_texts(self) -> bool:
        return self.ironic.startswith('"') and self.ingot.startswith('"')


def answer(
    status: int, headers: Mapping[str, str], data: bytes, base: str, variables: Mapping[str, str]
) -> Answer:
    """
    Make a response comparable.

    base: the service's URL. variables: name -> value; values are replaced by their variables.
    """
    names = {value: name for name, value in variables.items() if _UUID.fullmatch(value)}
    secrets = {
        value: f"{{{name}}}" for name, value in variables.items() if _SECRET.fullmatch(value)
    }

    def plain(text: str) -> str:
        text = secrets.get(text, text).replace(base, "<base>")
        text = _UUID.sub(lambda m: f"{{{names[m[0]]}}}" if m[0] in names else "<uuid>", text)
        return _TIME.sub(_time_shape, text)

    compared_headers = {
        name.lower(): plain(value) for name, value in headers.items() if name.lower() not in IGNORED
    }
    if "allow" in compared_headers:
        methods = set(compared_headers["allow"].replace(" ", "").split(","))
        compared_headers["allow"] = ", ".join(sorted(methods - EVERYWHERE))
    return Answer(status, compared_headers, _body(data, plain))


def _time_shape(match: re.Match[str]) -> str:
    """Shape of a time: which of its optional parts it has."""
    fraction = f".{'0' * (len(match[1]) - 1)}" if match[1] else ""
    return f"<time{fraction}{match[2] or ''}>"


def _body(data: bytes, plain: Any) -> Any:
    if not data:
        return None
    try:
        document = json.loads(data)
    except ValueError:
        return f"<text {plain(data.decode(errors='replace'))[:_LONGEST]}>"
    if isinstance(document, dict) and (error := _error(document)):
        shape, words = error
        return {"error": shape, WORDS: plain(words)}
    return _each(document, plain)


def _error(document: Mapping[str, Any]) -> tuple[str, str] | None:
    """(shape, text) of an error, in one of its few shapes; None for other documents."""
    message = document.get("error_message")
    if message is None:
        flat = document.keys() == {"faultcode", "faultstring"}
        return ("flat", str(document["faultstring"])) if flat else None
    if not isinstance(message, str):
        return "not encoded", ""
    try:
        inner = json.loads(message)
    except ValueError:
        return "text", message
    if not isinstance(inner, dict):
        return "no object", message
    keys = "+".join(sorted(inner))
    shape = {"code+description+title": "router", "debuginfo+faultcode+faultstring": "handler"}
    code = inner.get("faultcode", inner.get("code"))
    text = inner.get("faultstring", inner.get("description"))
    return f"{shape.get(keys, keys)} {code}", str(text or "")


def _each(part: Any, plain: Any) -> Any:
    if isinstance(part, str):
        return plain(part)
    if isinstance(part, dict):
        document = {plain(key): _each(value, plain) for key, value in part.items()}
        if isinstance(document.get("next"), str):
            document["next"] = _parts(document["next"])
        return document
    if isinstance(part, list):
        return [_each(item, plain) for item in part]
    return part


def _parts(url: str) -> dict[str, str]:
    """Path of a URL, and its parameters."""
    path, _, query = url.partition("?")
    return {"path": path, **dict(parse_qsl(query, keep_blank_values=True))}


def differences(theirs: Answer, ours: Answer, *, prose: bool = False) -> list[Difference]:
    """
    Return the differences, one per kind of place; only the status if that differs.

    prose: the content of texts does not matter.
    """
    if theirs.status != ours.status:
        return [Difference("status", _status(theirs), _status(ours))]
    header_differences = [
        Difference(f"header {name}", _value(name, theirs), _value(name, ours))
        for name in sorted(theirs.headers.keys() | ours.headers.keys())
        if _header(name, theirs) != _header(name, ours)
    ]
    unique: dict[str, Difference] = {}
    for difference in _differing("", theirs.body, ours.body):
        if not (prose and difference.both_texts):
            unique.setdefault(difference.part, difference)
    return [*header_differences, *unique.values()]


def _status(one: Answer) -> str:
    return str(one.status) if one.status else f"not sent: {one.body}"


def _value(name: str, one: Answer) -> str:
    return one.headers.get(name, ABSENT) or EMPTY


def _header(name: str, one: Answer) -> str | None:
    value = one.headers.get(name)
    if value is not None and name.endswith("request-id"):
        return "a request id"
    return value


def _differing(path: str, theirs: Any, ours: Any) -> Iterator[Difference]:  # noqa: C901 - one branch per JSON type
    place = path or "body"
    name = path.rpartition(".")[2]
    if place == WORDS:
        if not says(ours, theirs):
            yield Difference(place, json.dumps(theirs.partition("\n")[0]), json.dumps(ours))
    elif _kind(theirs) != _kind(ours):
        yield Difference(place, _json(theirs), _json(ours))
    elif isinstance(theirs, dict):
        if name in OPAQUE:
            return
        mine, yours = [*_common(theirs, ours)], [*_common(ours, theirs)]
        if mine != yours and name != "next":  # the order of a link's parameters is free
            at = next(
                i for i, (one, other) in enumerate(zip(mine, yours, strict=True)) if one != other
            )
            yield Difference(f"order of {place}", _json(mine[at:]), _json(yours[at:]))
        for key in (*theirs, *(member for member in ours if member not in theirs)):
            inner = f"{path}.{key}" if path else str(key)
            if key not in ours:
                yield Difference(inner, _json(theirs[key]), ABSENT)
            elif key not in theirs:
                yield Difference(inner, ABSENT, _json(ours[key]))
            else:
                yield from _differing(inner, theirs[key], ours[key])
    elif isinstance(theirs, list):
        if name.startswith(UNORDERED):
            theirs, ours = sorted(theirs), sorted(ours)
        pairs = zip(theirs, ours, strict=False)
        if (mine := _identities(theirs)) is not None and (yours := _identities(ours)) is not None:
            if [*mine] != [*yours]:
                yield Difference(place, _json([*mine]), _json([*yours]))
            pairs = ((mine[identity], yours[identity]) for identity in mine if identity in yours)
        elif len(theirs) != len(ours):
            yield Difference(place, _json(theirs), _json(ours))
        for one, other in pairs:
            yield from _differing(f"{path}[]", one, other)
    elif theirs != ours and name not in FREE:
        yield Difference(place, _json(theirs), _json(ours))


def _common(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    return (key for key in one if key in other)


def says(text: str, words: str) -> bool:
    """
    Whether a text has the words of another one's first line, in their order.

    Each run of words must occur whole. Quotations and lists of accepted values need not match.
    """
    expected = _LISTED.split(words.lower().partition("\n")[0])[0]
    runs = (re.findall(r"[a-z]+", run) for run in _QUOTED.split(expected))
    patterns = [rf"\b{' '.join(run)}\b" for run in runs if run]
    plain_text = " ".join(re.findall(r"[a-z]+", text.lower()))
    return re.search(".*".join(patterns), plain_text) is not None


def _identities(items: list[Any]) -> dict[str, Any] | None:
    """
    Return variable -> item, of a list of resources with UUIDs; None for other lists.

    Resources without a variable are left out: their creation may have failed in one of the services.
    """
    if not all(isinstance(item, dict) and "uuid" in item for item in items):
        return None
    return {item["uuid"]: item for item in items if item["uuid"] != "<uuid>"}


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, int | float) else type(value).__name__


def _json(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
