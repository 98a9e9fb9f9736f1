"""
Two answers to one request: what differs between them.

What must differ (URLs, UUIDs, times, the ids of requests) is replaced by a word for it first. What
people read is compared by its type only, a link to the next page part by part. The text of an error
has to contain the words of Ironic's, in their order.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

ABSENT, EMPTY = "absent", "empty"
#: Texts for people.
FREE = {"reason", "last_error", "event"}
#: Documents whose content is the service's own affair.
OPAQUE = {"driver_internal_info", "internal_info"}
#: Lists with names that begin so come in any order.
UNORDERED = "enabled_"
#: Headers that say nothing about the API.
IGNORED = {
    "server", "date", "connection", "keep-alive", "content-length", "transfer-encoding",
}  # fmt: skip
#: Methods that we answer wherever there is something, and Ironic hardly anywhere.
EVERYWHERE = {"HEAD", "OPTIONS"}
#: The text of an error, where the body of its answer would be.
WORDS = "words"
#: What an error quotes of the request: it is told in many ways, and matched by nobody's script.
_QUOTED = re.compile(
    r"""'\{.*\}'|(?<![a-z])'[^']*'|"[^"]*"|\[.*\]|\{.*\}|<[^>]*>|[^\sa-z]*[\d_/][^\s,;:()]*"""
)
#: A list of what would be right begins after it.
_LISTED = re.compile(r"(?<=are:)|(?<=updated:)")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?")
_SECRET = re.compile(r"[\w-]{40,}")
_LONGEST = 70


@dataclass(frozen=True)
class Answer:
    """headers: lower-cased. body: a JSON document, text, or None."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @classmethod
    def unsent(cls, why: str) -> "Answer":
        return cls(0, {}, why)


@dataclass(frozen=True, order=True)
class Difference:
    """what: "status", "header NAME", or a path into the body."""

    what: str
    ironic: str
    ingot: str

    @property
    def both_texts(self) -> bool:
        return self.ironic.startswith('"') and self.ingot.startswith('"')


def answer(
    status: int, headers: Mapping[str, str], data: bytes, base: str, known: Mapping[str, str]
) -> Answer:
    """
    An answer of a service, made comparable.

    base: the service's URL. known: variable -> value; values are shown as their variables.
    """
    names = {value: name for name, value in known.items() if _UUID.fullmatch(value)}
    secrets = {value: f"{{{name}}}" for name, value in known.items() if _SECRET.fullmatch(value)}

    def plain(text: str) -> str:
        text = secrets.get(text, text).replace(base, "<base>")
        text = _UUID.sub(lambda m: f"{{{names[m[0]]}}}" if m[0] in names else "<uuid>", text)
        return _TIME.sub(_time_shape, text)

    kept = {
        name.lower(): plain(value) for name, value in headers.items() if name.lower() not in IGNORED
    }
    if "allow" in kept:
        methods = set(kept["allow"].replace(" ", "").split(","))
        kept["allow"] = ", ".join(sorted(methods - EVERYWHERE))
    return Answer(status, kept, _body(data, plain))


def _time_shape(found: re.Match[str]) -> str:
    """Two times are written alike when they have, or lack, the same parts."""
    fraction = f".{'0' * (len(found[1]) - 1)}" if found[1] else ""
    return f"<time{fraction}{found[2] or ''}>"


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
    """The shape of an error, of which there are a few, and its text; None for what is none."""
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
        each = {plain(key): _each(value, plain) for key, value in part.items()}
        if isinstance(each.get("next"), str):
            each["next"] = _parts(each["next"])
        return each
    if isinstance(part, list):
        return [_each(each, plain) for each in part]
    return part


def _parts(url: str) -> dict[str, str]:
    """The path of a URL, and its parameters."""
    path, _, query = url.partition("?")
    return {"path": path, **dict(parse_qsl(query, keep_blank_values=True))}


def differences(theirs: Answer, ours: Answer, *, prose: bool = False) -> list[Difference]:
    """
    What differs, each kind of place once; nothing but the status where that differs.

    prose: what texts say does not matter.
    """
    if theirs.status != ours.status:
        return [Difference("status", _status(theirs), _status(ours))]
    found = [
        Difference(f"header {name}", _value(name, theirs), _value(name, ours))
        for name in sorted(theirs.headers.keys() | ours.headers.keys())
        if _header(name, theirs) != _header(name, ours)
    ]
    unique: dict[str, Difference] = {}
    for each in _differing("", theirs.body, ours.body):
        if not (prose and each.both_texts):
            unique.setdefault(each.what, each)
    return [*found, *unique.values()]


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
        yield Difference(place, _told(theirs), _told(ours))
    elif isinstance(theirs, dict):
        if name in OPAQUE:
            return
        mine, yours = [*_common(theirs, ours)], [*_common(ours, theirs)]
        if mine != yours and name != "next":  # whose parts are those of a query
            at = next(
                i for i, (one, other) in enumerate(zip(mine, yours, strict=True)) if one != other
            )
            yield Difference(f"order of {place}", _told(mine[at:]), _told(yours[at:]))
        for key in (*theirs, *(each for each in ours if each not in theirs)):
            inner = f"{path}.{key}" if path else str(key)
            if key not in ours:
                yield Difference(inner, _told(theirs[key]), ABSENT)
            elif key not in theirs:
                yield Difference(inner, ABSENT, _told(ours[key]))
            else:
                yield from _differing(inner, theirs[key], ours[key])
    elif isinstance(theirs, list):
        if name.startswith(UNORDERED):
            theirs, ours = sorted(theirs), sorted(ours)
        pairs = zip(theirs, ours, strict=False)
        if (mine := _identities(theirs)) is not None and (yours := _identities(ours)) is not None:
            if [*mine] != [*yours]:
                yield Difference(place, _told([*mine]), _told([*yours]))
            pairs = ((mine[each], yours[each]) for each in mine if each in yours)
        elif len(theirs) != len(ours):
            yield Difference(place, _told(theirs), _told(ours))
        for one, other in pairs:
            yield from _differing(f"{path}[]", one, other)
    elif theirs != ours and name not in FREE:
        yield Difference(place, _told(theirs), _told(ours))


def _common(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    return (key for key in one if key in other)


def says(text: str, words: str) -> bool:
    """
    Whether a text has the words of another's first line, in their order, each run of them whole;
    what is quoted there, and lists of what would be right, need not be alike.
    """
    told = _LISTED.split(words.lower().partition("\n")[0])[0]
    runs = (re.findall(r"[a-z]+", run) for run in _QUOTED.split(told))
    wanted = [rf"\b{' '.join(run)}\b" for run in runs if run]
    found = " ".join(re.findall(r"[a-z]+", text.lower()))
    return re.search(".*".join(wanted), found) is not None


def _identities(items: list[Any]) -> dict[str, Any] | None:
    """
    variable -> item, of a list of things with UUIDs; None for other lists.

    What was made without a variable is left out: not each request that makes one need succeed in
    both services.
    """
    if not all(isinstance(each, dict) and "uuid" in each for each in items):
        return None
    return {each["uuid"]: each for each in items if each["uuid"] != "<uuid>"}


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, int | float) else type(value).__name__


def _told(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
