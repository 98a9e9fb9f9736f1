"""
The rules of HTTP with a BMC, for both of its readers: sushy (orders) and aiohttp (power sweep).

`conversation` is a generator without I/O: it yields the requests to send, receives their answers,
and returns the last one. A failure of a request is thrown into it as `Failure`. docs/redfish.md has
the rules as a table; they follow DSP0266 and RFC 9110.
"""

import math
import re
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import partial
from urllib.parse import urlsplit

from drivers.core.errors import HardwareError, Refused, Unconfirmed, Unexpected, Unreachable
from drivers.redfish.transport import bodies, pages
from drivers.redfish.transport.bodies import MalformedDocument
from drivers.redfish.transport.conversions import entry, printable
from drivers.redfish.transport.peer import Peer, raw_target

READS = frozenset({"GET", "HEAD"})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MOST_REDIRECTS = 5
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
#: A login or logout changes no state of the machine, so it is no order.
_SESSION = re.compile(r"/Sessions(/[^/?]*)?/?$", re.IGNORECASE)


class Failure(Exception):
    """
    A request without a whole answer.

    words: of the error, after the BMC's name. was_sent: the BMC may have received a part of it.
    repeats: how often a read may be repeated: 0 (nothing answers at the address), 1 (slow), 2.
    """

    def __init__(self, words: str, *, was_sent: bool, repeats: int) -> None:
        super().__init__(words)
        self.words, self.was_sent, self.repeats = words, was_sent, repeats


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


Conversation = Generator[Request, Answer, tuple[Answer, object]]
_Exchange = Generator[Request, Answer, Answer]


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
        if request.order and answer.status == 304:  # it is no answer to an order
            raise _unconfirmed(request.order, words)
        if request.order:
            raise Refused(f"{request.order} was not ordered: {words}")
        raise MalformedDocument(f"{words} to {request}")
    if request.order and answer.status in _OF_GATEWAYS:
        raise _unconfirmed(request.order, f"{peer.name} answered {answer.status}")
    if request.method != "GET" or not 200 <= answer.status < 300 or not answer.body:
        return answer, None
    if not pages.may_be_partial(answer.body):
        return answer, None
    document = bodies.document(peer.name, answer.body)
    yield from pages.complete(peer, document, answer.url, partial(_page, peer, deadline))
    return answer, document


def _page(peer: Peer, deadline: float, url: str) -> Generator[Request, Answer, dict[str, object]]:
    """Read a further page of a document. Raises Unexpected: the BMC does not serve it."""
    answer = yield from _followed(peer, Request("GET", url), deadline)
    if not 200 <= answer.status < 300:
        raise Unexpected(f"{peer.name} answered {answer.status} for page {urlsplit(url).path}")
    return bodies.document(peer.name, answer.body)


def _delivered(peer: Peer, request: Request, deadline: float) -> _Exchange:
    """Send a request, until it is answered: repeat what was not carried out, and reads."""
    repeats, waits = 0, LONGEST_WAIT
    while True:
        try:
            answer = yield request
        except Failure as failure:
            unsafe = failure.was_sent and request.order
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
    locations = [(request.method, request.url)]
    while True:
        answer = yield from _delivered(peer, request, deadline)
        location = answer.headers.get("Location")
        if answer.status not in REDIRECTS or not location:
            if request.order and request.method in READS and answer.status >= 400:  # after a 303
                raise _unconfirmed(request.order, f"{request} was answered {answer.status}")
            return answer
        request = _redirected(peer, request, answer.status, location)
        locations.append((request.method, request.url))
        if len(set(locations)) < len(locations) or len(locations) > MOST_REDIRECTS + 1:
            chain = " -> ".join(url for _, url in locations)
            raise _not_done(request, f"{peer.name} redirects too often, or in a circle: {chain}")


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
    moved = raw_target(url).rstrip("/") != raw_target(request.url).rstrip("/")
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
    current_exchange = yield from _followed(peer, Request("GET", request.url), deadline)
    tags = _tags(current_exchange.etag(peer.name), required=answer.status == 428)
    for tag in tags:
        headers = {**request.headers, "If-Match": tag}
        answer = yield from _followed(peer, replace(request, headers=headers), deadline)
        if answer.status not in _PRECONDITION:
            break
    return answer


def _tags(tag: str | None, *, required: bool) -> list[str | None]:
    """Return the values of If-Match to try, in order; None stands for no such header."""
    strong = (tag or "").removeprefix("W/")
    forms = [tag, strong, strong if strong.startswith('"') else f'"{strong}"'] if tag else []
    return [*dict.fromkeys(forms), "*" if required else None]


def _wait(answer: Answer) -> float | None:
    """Return the seconds that a busy BMC asks to wait, if it does."""
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
    if failure.was_sent or request.method in READS:
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


def _is_header(value: str) -> bool:
    return value.isascii() and value.isprintable()
