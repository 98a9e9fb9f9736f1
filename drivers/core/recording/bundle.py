"""
Recordings of BMCs: the answers of one BMC to GET requests, and the exchanges of an operation with
it, as one JSON file.

    {"format": "ingot-bmc-recording", "version": 1, "system": "/redfish/v1/Systems/1" or null,
     "unread": [path, ...],
     "answers": [{"path": "/redfish/v1/", "status": 200, "headers": {"ETag": ...},
                  "encoding": "utf-8", "body": "..."}, ...],
     "exchanges": [{"step": "power.set_power_state", "seconds": 0.25, "method": "POST",
                    "request_body": "..." or null, and what an answer has; status 0: none}, ...]}

A path is the path of the request, with its query. `encoding` is utf-8, or latin-1 for a body that
is not UTF-8: the body's bytes are `body` in this encoding. `unread` names the links that the limits
of the recording left out. A recording is untrusted: it is checked before its use.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT, VERSION = "ingot-bmc-recording", 1
#: Limits of a file: bytes, answers, bytes of a body, characters of a path and of a header.
MOST_BYTES, MOST_ANSWERS, LONGEST_BODY = 64 << 20, 10_000, 4 << 20
LONGEST_PATH, LONGEST_HEADER = 2048, 4096
ENCODINGS = ("utf-8", "latin-1")
METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE")
#: Headers of answers that matter to clients; the others may hold secrets.
HEADERS = (
    "Allow", "Content-Type", "ETag", "Link", "Location", "OData-Version", "Retry-After",
    "WWW-Authenticate",
)  # fmt: skip
#: Host in place of the BMC's own one in absolute URLs.
OWN_HOST = "bmc.example"
_PATH = re.compile(r"/redfish(?:[/?][!-~]*)?")


class BadRecording(ValueError):
    """A file is no valid recording; the message names the entry."""


@dataclass(slots=True)
class Answer:
    """One answer of a BMC."""

    path: str  # with the query
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"  # of `body`
    body: str = ""

    @property
    def content(self) -> bytes:
        return self.body.encode(self.encoding)

    def document(self) -> Any:
        """Return the body as JSON, read leniently; None if it is not JSON."""
        try:
            return json.loads(self.body.removeprefix("\ufeff"), strict=False)
        except (ValueError, RecursionError):
            return None


@dataclass(slots=True)
class Exchange:
    """A request of an operation, and its answer; `drivers.core.recording.traffic` has its rules."""

    step: str  # interface and name
    seconds: float  # since the step's call to the driver began
    method: str
    request_body: str | None  # body of the request; None: it has none, or is no JSON
    answer: Answer  # status 0: there is none, and the body is the reason

    def dump(self) -> dict[str, object]:
        request = {"step": self.step, "seconds": self.seconds, "method": self.method}
        return {**request, "request_body": self.request_body, **asdict(self.answer)}


@dataclass(slots=True)
class Recording:
    """The answers of one BMC."""

    answers: Sequence[Answer]
    system: str | None = None  # path of the node's system; None: the only one
    unread: Sequence[str] = ()
    exchanges: Sequence[Exchange] = ()  # of an operation, in their order

    def dump(self) -> str:
        """Return the text of the file."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "system": self.system,
            "unread": list(self.unread),
            "answers": [asdict(answer) for answer in self.answers],
        }
        if self.exchanges:
            document["exchanges"] = [exchange.dump() for exchange in self.exchanges]
        return json.dumps(document, indent=1) + "\n"


def text_of(content: bytes) -> tuple[str, str]:
    """Return the encoding of a body, and its text."""
    try:
        return "utf-8", content.decode()
    except UnicodeDecodeError:
        return "latin-1", content.decode("latin-1")


def load(path: Path) -> Recording:
    """
    Read a recording.

    Raises BadRecording: the file cannot be read, or has an invalid entry.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise BadRecording(f"more than {MOST_BYTES >> 20} MiB")
        return parse(json.loads(content))
    except BadRecording as error:
        raise BadRecording(f"{path}: {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadRecording(f"{path}: it cannot be read as JSON: {error}") from None


def parse(document: Any) -> Recording:
    """Check a recording. Raises BadRecording."""
    _demand(isinstance(document, dict), "a recording is a JSON object")
    _demand(document.get("format") == FORMAT, f"format: {FORMAT!r} is expected")
    version = document.get("version")
    _demand(version == VERSION, f"version: {version!r} is not {VERSION}, which this release reads")
    answers, unread = document.get("answers"), document.get("unread", [])
    exchanges = document.get("exchanges", [])
    for name, value in (("answers", answers), ("unread", unread), ("exchanges", exchanges)):
        valid = isinstance(value, list) and len(value) <= MOST_ANSWERS
        _demand(valid, f"{name}: a list of at most {MOST_ANSWERS} entries is expected")
    system = document.get("system")
    _demand(system is None or is_path(system), "system: a path below /redfish is expected")
    for path in unread:
        _demand(is_path(path), "unread: paths below /redfish are expected")
    checked = [_answer(f"answers[{i}]", answer) for i, answer in enumerate(answers)]
    _demand(len({a.path for a in checked}) == len(checked), "answers: two have the same path")
    entries = [_exchange(f"exchanges[{i}]", entry) for i, entry in enumerate(exchanges)]
    return Recording(checked, system, unread, entries or ())


def of_exchanges(exchanges: Sequence[Exchange], system: str | None) -> Recording:
    """
    Return the recording of an operation.

    Its answers are the first ones to each read, as the operation found the machine.
    """
    answers: dict[str, Answer] = {}
    for exchange in exchanges:
        if exchange.method == "GET" and exchange.answer.status >= 200:
            answers.setdefault(exchange.answer.path, exchange.answer)
    return Recording([*answers.values()], system, [], exchanges)


def is_path(value: Any) -> bool:
    """Whether a value is a path below /redfish that a request may ask for."""
    valid = isinstance(value, str) and len(value) <= LONGEST_PATH and _PATH.fullmatch(value)
    return bool(valid) and "/../" not in f"{value.partition('?')[0]}/"


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that a recording keeps."""
    by_name = {name.lower(): value for name, value in headers.items()}
    return {
        name: by_name[name.lower()][:LONGEST_HEADER] for name in HEADERS if name.lower() in by_name
    }


def _exchange(label: str, entry: Any) -> Exchange:
    _demand(isinstance(entry, dict), f"{label}: an object is expected")
    step, seconds, method = entry.get("step"), entry.get("seconds"), entry.get("method")
    _demand(isinstance(step, str) and _is_line(step), f"{label}.step: a text is expected")
    numeric = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    _demand(numeric and 0 <= seconds < math.inf, f"{label}.seconds: a number is expected")
    _demand(method in METHODS, f"{label}.method: one of {', '.join(METHODS)} is expected")
    request_body = entry.get("request_body")
    valid = request_body is None or (
        isinstance(request_body, str) and len(request_body) <= LONGEST_BODY
    )
    _demand(
        valid,
        f"{label}.request_body: a text of at most {LONGEST_BODY >> 20} MiB, or null, is expected",
    )
    return Exchange(step, seconds, method, request_body, _answer(label, entry, unanswered=True))


def _answer(label: str, entry: Any, *, unanswered: bool = False) -> Answer:
    """Check an answer. unanswered: its status may be 0."""
    _demand(isinstance(entry, dict), f"{label}: an object is expected")
    path, status, headers = entry.get("path"), entry.get("status"), entry.get("headers", {})
    _demand(is_path(path), f"{label}.path: a path below /redfish is expected")
    numeric = isinstance(status, int) and not isinstance(status, bool)
    valid_status = numeric and (200 <= status <= 599 or (unanswered and status == 0))
    _demand(valid_status, f"{label}.status: a number from 200 to 599 is expected")
    _demand(isinstance(headers, dict), f"{label}.headers: an object is expected")
    for name, value in headers.items():
        valid = name in HEADERS and isinstance(value, str) and _is_line(value)
        _demand(valid, f"{label}.headers: {name[:40]!r} is not one of {', '.join(HEADERS)} as text")
    encoding, body = entry.get("encoding", "utf-8"), entry.get("body", "")
    _demand(encoding in ENCODINGS, f"{label}.encoding: utf-8 or latin-1 is expected")
    _demand(isinstance(body, str), f"{label}.body: a text is expected")
    try:
        length = len(body.encode(encoding))
    except UnicodeEncodeError:
        raise BadRecording(f"{label}.body: it is not {encoding}") from None
    _demand(length <= LONGEST_BODY, f"{label}.body: more than {LONGEST_BODY >> 20} MiB")
    return Answer(path, status, dict(headers), encoding, body)


def _is_line(value: str) -> bool:
    return len(value) <= LONGEST_HEADER and value.isascii() and value.isprintable()


def _demand(valid: object, message: str) -> None:
    if not valid:
        raise BadRecording(message)


def links(answer: Answer, origin: str) -> Iterator[str]:
    """
    Yield the paths of the same BMC that an answer leads to, in their order.

    origin: scheme, host and port of the BMC, with which its absolute links begin.
    """
    registry = "/Registries" in answer.path
    for link in (answer.headers.get("Location", ""), *_links_in(answer.document(), registry)):
        path = link.removeprefix(origin).partition("#")[0]
        if is_path(path):
            yield path


def _links_in(value: object, registry: bool) -> Iterator[str]:
    """Yield the links in a document; registry: also the links of registries' files."""
    if isinstance(value, list):
        for item in value:
            yield from _links_in(item, registry)
    elif isinstance(value, dict):
        for name, item in value.items():
            is_link = name == "@odata.id" or name.endswith("@odata.nextLink")
            if isinstance(item, str) and (is_link or (registry and name == "Uri")):
                yield item
            else:
                yield from _links_in(item, registry)
