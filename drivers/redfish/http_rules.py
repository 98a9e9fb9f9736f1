"""
The rules of HTTP with a BMC, for both of its readers: sushy (orders) and aiohttp (power sweep).

`conversation` is a generator without I/O: it yields the requests to send, receives their answers,
and returns the last one. A failure of a request is thrown into it as `Failure`. docs/redfish.md has
the rules as a table; they follow DSP0266 and RFC 9110.
"""

import math
import re
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from drivers.core.errors import HardwareError, Refused, Unconfirmed, Unexpected, Unreachable
from drivers.redfish import bodies
from drivers.redfish.bodies import MalformedDocument
from drivers.redfish.values import entry, printable
from drivers.web.answers import MOST_VALUES

READS = frozenset({"GET", "HEAD"})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MOST_REDIRECTS = 5
PORTS = {"http": 80, "https": 443}
#: Pauses before the repetitions of a read, in seconds.
PAUSES = (0.2, 1.0)
#: Longest time, in seconds, that a request waits for a BMC that is busy; also the longest wait for
#: a BMC's turn.
LONGEST_WAIT = 60.0
#: Least pause, in seconds, of a BMC that asks for none.
_LEAST_WAIT = 0.2
#: Statuses of a BMC that is busy: with Retry-After, the request was not carried out.
BUSY = frozenset({429, 503})
#: Statuses of a failed read that is repeated once.
_FAILED = frozenset({500, 502, 503, 504})
#: Statuses of a gateway before the BMC: the order may have been carried out.
_OF_GATEWAYS = frozenset({502, 504})
_PRECONDITION = frozenset({412, 428})
_NEXT = "@odata.nextLink"
#: Properties with the path of a resource or action.
_PATHS = ("@odata.id", "target")
#: A login or logout changes no state of the machine, so it is no order.
_SESSION = re.compile(r"/Sessions(/[^/?]*)?/?$", re.IGNORECASE)
#: Characters of a path and query that stay as they are.
_PLAIN = "%/:=&?~#+!$,;'@()*[]"


class Failure(Exception):
    """
    A request without a whole answer.

    words: of the error, after the BMC's name. sent: the BMC may have received a part of it.
    repeats: how often a read may be repeated: 0 (nothing answers at the address), 1 (slow), 2.
    """

    def __init__(self, words: str, *, sent: bool, repeats: int) -> None:
        super().__init__(words)
        self.words, self.sent, self.repeats = words, sent, repeats


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send: the caller's own, but for these attributes."""

    method: str
    url: str
    headers: Mapping[str, str | None] = field(default_factory=dict)  # changed; None: removed
    has_body: bool = True  # the body of the caller's request, if that has one
    pause: float = 0.0  # seconds before it
    order: str | None = None  # method and path of the order that it belongs to; None: a read

    def __str__(self) -> str:
        return f"{self.method} {urlsplit(self.url).path}"


@dataclass(slots=True)
class Answer:
    """An answer of a BMC."""

    status: int
    reason: str
    headers: Mapping[str, str]  # case-insensitive
    body: bytes
    url: str = ""  # of the request

    def etag(self, name: str) -> str | None:
        """Return the ETag: of the header, else of the document."""
        tag = self.headers.get("ETag")
        if not tag and self.status < 300 and b"@odata.etag" in self.body:
            try:
                tag = entry(bodies.parsed(name, self.body), "@odata.etag")
            except MalformedDocument:
                return None
        return tag if isinstance(tag, str) and _is_header(tag) else None


Conversation = Generator[Request, Answer, tuple[Answer, Any]]
_Exchange = Generator[Request, Answer, Answer]


@dataclass(frozen=True, slots=True)
class Peer:
    """A BMC at its address: scheme, host and port."""

    address: str

    @property
    def name(self) -> str:
        return f"BMC {self.address}"

    def url(self, link: str, base: str | None = None) -> str:
        """
        Return the URL of a link at this address.

        link: a path, or a URL with another spelling of the address: of the host, with or without
        the default port, with the other scheme and its default port. base: URL of the document.

        Raises MalformedDocument: the link leads to another address, or is no URL.
        """
        if link.startswith("/") and not link.startswith("//"):
            return self.address + _target(link)
        url = _joined(base or f"{self.address}/", link)
        if url is None or not self._is_of_machine(url):
            raise MalformedDocument(
                f"{self.name} sent a link to another address: {printable(link)[:200]!r}"
            )
        return self.address + _target(url)

    def path(self, link: str) -> str:
        """Return the path of a link to this address; other texts unchanged."""
        url = _joined(f"{self.address}/", link) if "//" in link else None
        return _target(url) if url and self._is_of_machine(url) else link

    def redirect(self, location: str, base: str) -> str | None:
        """
        Return the URL that a redirect leads to; None: another address.

        The scheme may change from http to https between the default ports, never back.
        """
        url = _joined(base, location)
        place, here = _place(url) if url else None, _place(base)
        if url is None or place is None or here is None:
            return None
        if place == here:
            return f"{base.removesuffix(_raw_target(base))}{_target(url)}"
        defaults = [("http", here[1], PORTS["http"]), ("https", here[1], PORTS["https"])]
        if [here, place] == defaults:
            host = f"[{here[1]}]" if ":" in here[1] else here[1]
            return f"https://{host}:{PORTS['https']}{_target(url)}"
        return None

    def _is_of_machine(self, url: str) -> bool:
        place, here = _place(url), _place(self.address)
        if place is None or here is None or place[1] != here[1]:
            return False
        return place == here or (place[2], here[2]) == (PORTS.get(place[0]), PORTS.get(here[0]))


def is_order(method: str, url: str) -> bool:
    """Whether a request changes the state of the machine, so that it may not be repeated."""
    return method not in READS and not _SESSION.search(urlsplit(url).path)


def received(peer: Peer, request: Request, answer: Answer) -> Answer:
    """
    Return an answer with its body unpacked.

    The status of an error or a redirect counts also with an unreadable body.

    Raises MalformedDocument: the body of a read cannot be unpacked.
    Raises Unconfirmed: that of an accepted order.
    """
    try:
        body = bodies.unpacked(peer.name, answer.headers, answer.body)
    except MalformedDocument as error:
        if answer.status < 300:
            if request.order:
                raise _unconfirmed(request.order, str(error)) from None
            raise
        body = b""
    return replace(answer, body=body, url=request.url)


def conversation(peer: Peer, request: Request, deadline: float) -> Conversation:
    """
    Carry out a request by the rules; return the answer, and the document of a read that ended well.

    A document is a JSON object with all pages of its collections, and with paths in place of URLs
    of the BMC. deadline: on time.monotonic.

    Raises Unreachable: no answer; an order was not sent.
    Raises Unconfirmed: an order was sent, and its answer was lost.
    Raises Unexpected: a redirect to another address, or in a circle; a malformed document.
    """
    if is_order(request.method, request.url):
        request = replace(request, order=str(request))
    answer = yield from _matched(peer, request, deadline)
    if 300 <= answer.status < 400:
        words = f"{peer.name} answered {answer.status} {printable(answer.reason)}".rstrip()
        if request.order:
            raise Refused(f"{request.order} was not ordered: {words}")
        raise MalformedDocument(f"{words} to {request}")
    if request.order and answer.status in _OF_GATEWAYS:
        raise _unconfirmed(request.order, f"{peer.name} answered {answer.status}")
    if request.method != "GET" or not 200 <= answer.status < 300 or not answer.body:
        return answer, None
    if not _has_rules(answer.body):
        return answer, None
    document = bodies.document(peer.name, answer.body)
    yield from _completed(peer, document, answer.url, deadline)
    _shorten(peer, document)
    return answer, document


def _delivered(peer: Peer, request: Request, deadline: float) -> _Exchange:
    """Send a request, until it is answered: repeat what was not carried out, and reads."""
    repeats, waits = 0, LONGEST_WAIT
    while True:
        try:
            answer = yield request
        except Failure as failure:
            unsafe = failure.sent and request.order
            if unsafe or repeats >= failure.repeats or _is_late(PAUSES[repeats], deadline):
                raise _error_of(peer, request, failure) from None
            request = replace(request, pause=PAUSES[repeats])
            repeats += 1
            continue
        if answer.status == 406 and request.headers.get("Accept-Encoding") != "gzip":
            headers = {**request.headers, "Accept-Encoding": "gzip"}
            request = replace(request, headers=headers, pause=0.0)
            continue
        wait = _wait(answer)
        if wait is not None and wait <= waits and not _is_late(wait, deadline):
            waits -= wait
            request = replace(request, pause=wait)
            continue
        failed = wait is None and answer.status in _FAILED and request.method in READS
        if failed and not repeats and not _is_late(PAUSES[-1], deadline):
            repeats = len(PAUSES)
            request = replace(request, pause=PAUSES[-1])
            continue
        return answer


def _followed(peer: Peer, request: Request, deadline: float) -> _Exchange:
    """Follow the redirects of a request within the BMC's own address."""
    places = [(request.method, request.url)]
    while True:
        answer = yield from _delivered(peer, request, deadline)
        location = answer.headers.get("Location")
        if answer.status not in REDIRECTS or not location:
            if request.order and request.method in READS and answer.status >= 400:  # after a 303
                raise _unconfirmed(request.order, f"{request} was answered {answer.status}")
            return answer
        request = _redirected(peer, request, answer.status, location)
        places.append((request.method, request.url))
        if len(set(places)) < len(places) or len(places) > MOST_REDIRECTS + 1:
            way = " -> ".join(url for _, url in places)
            raise _not_done(request, f"{peer.name} redirects too often, or in a circle: {way}")


def _redirected(peer: Peer, request: Request, status: int, location: str) -> Request:
    """
    Return the request that follows a redirect.

    303 leads to the result of an order. With 302 to another resource a BMC may mean the same.
    """
    url = peer.redirect(location, request.url)
    if url is None:
        raise _not_done(
            request,
            f"{peer.name} redirects {request} from {request.url} to another address,"
            f" {printable(location)[:200]}",
        )
    if request.method in READS:
        return replace(request, url=url, pause=0.0)
    if status == 303:
        return replace(request, url=url, pause=0.0, method="GET", has_body=False)
    moved = _raw_target(url).rstrip("/") != _raw_target(request.url).rstrip("/")
    if status == 302 and moved and request.order:
        raise _unconfirmed(request.order, f"{peer.name} answered 302 with the address {url}")
    return replace(request, url=url, pause=0.0)


def _matched(peer: Peer, request: Request, deadline: float) -> _Exchange:
    """
    Send a change that was refused for its If-Match again, with the present ETag.

    An action is not sent again: it has no If-Match, and if it was carried out all the same, a
    second one is another action.
    """
    answer = yield from _followed(peer, request, deadline)
    if answer.status not in _PRECONDITION or request.method in (*READS, "POST"):
        return answer
    present = yield from _followed(peer, Request("GET", request.url), deadline)
    tags = _tags(present.etag(peer.name), required=answer.status == 428)
    for tag in tags:
        headers = {**request.headers, "If-Match": tag}
        answer = yield from _followed(peer, replace(request, headers=headers), deadline)
        if answer.status not in _PRECONDITION:
            break
    return answer


def _tags(tag: str | None, *, required: bool) -> list[str | None]:
    """Return the values of If-Match to try, in order; None: no such header."""
    strong = (tag or "").removeprefix("W/")
    forms = [tag, strong, strong if strong.startswith('"') else f'"{strong}"'] if tag else []
    return [*dict.fromkeys(forms), "*" if required else None]


def _completed(
    peer: Peer, document: dict[str, Any], url: str, deadline: float
) -> Generator[Request, Answer, None]:
    """
    Add the members of all further pages to the lists of a document.

    Raises Unexpected: a page is missing, or the pages have no end.
    """
    for holder, key in list(_paged(document)):
        name = key.removesuffix(_NEXT) or "Members"
        members, link, base = holder.get(name), holder.pop(key), url
        links: set[str] = set()
        while link not in {None, ""}:
            if not isinstance(link, str) or not isinstance(members, list):
                raise MalformedDocument(f"{peer.name} sent a malformed {key}")
            base = peer.url(link, base)
            if base in links or base == url or len(members) > MOST_VALUES:
                raise Unexpected(f"{peer.name} sent pages of {urlsplit(url).path} without an end")
            links.add(base)
            answer = yield from _followed(peer, Request("GET", base), deadline)
            if not 200 <= answer.status < 300:
                raise Unexpected(
                    f"{peer.name} answered {answer.status} for a page of {urlsplit(url).path}"
                )
            page = bodies.document(peer.name, answer.body)
            more, link = page.get(name), page.pop(key, None) or page.pop(_NEXT, None)
            if not isinstance(more, list):
                raise Unexpected(f"{peer.name} sent a page of {urlsplit(url).path} without {name}")
            yield from _completed(peer, page, base, deadline)  # lists inside its members
            members.extend(more)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in a JSON value."""
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            yield value
            values.extend(item for item in value.values() if isinstance(item, dict | list))
        else:
            values.extend(item for item in value if isinstance(item, dict | list))


def _paged(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the objects with a link to a further page, and the key of the link."""
    for value in _objects(document):
        for key in list(value):
            if key.endswith(_NEXT):
                yield value, key


def _has_rules(body: bytes) -> bool:
    """Whether a document may have further pages, or URLs in place of paths."""
    return b"nextLink" in body or b"//" in body or b"\\/" in body


def _shorten(peer: Peer, document: dict[str, Any]) -> None:
    """Replace the URLs of the BMC's resources by their paths."""
    for value in _objects(document):
        for key in _PATHS:
            link = value.get(key)
            if isinstance(link, str):
                value[key] = peer.path(link)


def _wait(answer: Answer) -> float | None:
    """Return the seconds that a busy BMC asks to wait; None: it does not."""
    text = answer.headers.get("Retry-After") if answer.status in BUSY else None
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = _seconds_until(text, answer.headers.get("Date"))
    return None if math.isnan(seconds) else max(seconds, _LEAST_WAIT)


def _seconds_until(date: str, now: str | None) -> float:
    """Return the seconds until a date by the BMC's own clock; NaN: one of both is no date."""
    try:
        begin = parsedate_to_datetime(now or "").timestamp()
        return parsedate_to_datetime(date).timestamp() - begin
    except (ValueError, OverflowError):
        return math.nan


def _is_late(pause: float, deadline: float) -> bool:
    return time.monotonic() + pause >= deadline


def _error_of(peer: Peer, request: Request, failure: Failure) -> HardwareError:
    words = f"{peer.name} {failure.words}"
    if request.order is None:
        return Unreachable(words)
    if failure.sent or request.method in READS:
        return _unconfirmed(request.order, words)
    return Unreachable(f"{request.order} was not ordered: {words}")


def _unconfirmed(order: str, words: str) -> Unconfirmed:
    return Unconfirmed(f"{order} was ordered, not confirmed: {words}")


def _not_done(request: Request, words: str) -> HardwareError:
    """Return the error of a redirect that is not followed."""
    if request.order is None:
        return MalformedDocument(words)
    if request.method in READS:  # after a 303
        return _unconfirmed(request.order, words)
    return Unexpected(f"{request.order} was not ordered: {words}")


def _joined(base: str, link: str) -> str | None:
    try:
        return urljoin(base, link)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _place(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of a URL in one spelling; None: it is no URL of HTTP."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return None
    host = (parts.hostname or "").rstrip(".")
    if not host or port is None or parts.scheme not in PORTS:
        return None
    with suppress(ValueError):
        host = str(ip_address(host))
    return parts.scheme, host, port


def _raw_target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _target(url: str) -> str:
    """Return path and query of a URL, quoted."""
    return quote(_raw_target(url), safe=_PLAIN)


def _is_header(value: str) -> bool:
    return value.isascii() and value.isprintable()
