"""
Bodies of requests: their limits of size, and a middleware that reads them within a time limit.

The middleware reads a complete body before the request is processed. On a timeout the connection is
closed. A request whose body never arrives holds no request slot, and a thread no longer than the
limit. The late bodies of a client do not delay other clients' bodies.
"""

from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Request

from app.api.declarations.public_paths import is_of_bmcs, without_secret
from app.errors import TooLarge
from app.observe import log
from app.requests.request_slots import Busy, FairSlots, SharedPlaces

logger = log.get(__name__)

#: End of the path -> largest body in bytes.
DEFAULT_LIMIT = 1024 << 10
EVENTS_LIMIT = 256 << 10  # of a BMC
LIMITS = {"/states/provision": 65536 << 10, "/continue_inspection": 16384 << 10}
#: Bodies read at a time, and how many of them may exceed DEFAULT_LIMIT, which bounds the memory.
AT_ONCE, LARGE_AT_ONCE = 64, 4
#: Seconds that a request waits for one of these reads to end, and how many may wait.
QUEUE_TIMEOUT = 1.0
QUEUED, LARGE_QUEUED = 192, 8
#: Least rate of a body in bytes per second; the time limit grows by length / rate.
MIN_RATE = 1 << 20
CLOSE = ("Connection", "close")


def middleware(
    timeout: float, client_of: Callable[[Mapping[str, object]], str], inner: WSGIApplication
) -> WSGIApplication:
    """
    Wrap an application: read each body, then call `inner`.

    timeout: seconds for a body, in addition to the time for its length. client_of: returns the
    address of a request's client.
    """
    small = FairSlots(AT_ONCE - LARGE_AT_ONCE, leaves_free=True), SharedPlaces(QUEUED)
    large = FairSlots(LARGE_AT_ONCE, leaves_free=True), SharedPlaces(LARGE_QUEUED)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        length = length_of(environ)
        if not length:
            return inner(environ, start_response)
        content_length = environ.get("CONTENT_LENGTH")
        if content_length and length > limit_of(environ["PATH_INFO"]):
            environ["wsgi.input"] = BytesIO()  # `parsing` refuses it by its Content-Length
            return inner(environ, start_response)
        slots, queue = large if length > DEFAULT_LIMIT + 1 else small
        client = client_of(environ)
        if not slots.acquire(client, 0) and not _queued(slots, queue, client):
            start_response("503 Service Unavailable", [("Retry-After", "1"), CLOSE])
            return ()
        try:
            body = _read(environ["wsgi.input"], length, timeout + length / MIN_RATE)
        except TimeoutError:
            logger.warning(
                "request.body_late",
                path=without_secret(environ["PATH_INFO"]),
                client=environ.get("REMOTE_ADDR"),
            )
            return cut_off(start_response)
        finally:
            slots.release(client)
        environ["wsgi.input"] = BytesIO(body)
        if not content_length:
            environ.pop("HTTP_TRANSFER_ENCODING", None)
            environ["CONTENT_LENGTH"] = str(len(body))
        return inner(environ, start_response)

    return application


def data_of(req: Request) -> bytes:
    """
    Return the body of a request as it was sent.

    Raises TooLarge.
    """
    limit = limit_of(req.path)
    if (req.content_length or 0) > limit:
        raise TooLarge(f"Request body too large: more than {limit >> 10} KiB.")
    req.max_content_length = limit
    return req.get_data()


def limit_of(path: str) -> int:
    """Return the size limit of a body, in bytes."""
    if is_of_bmcs(path):
        return EVENTS_LIMIT
    return next((size for end, size in LIMITS.items() if path.endswith(end)), DEFAULT_LIMIT)


def length_of(environ: Mapping[str, Any]) -> int:
    """Return the bytes of a body; if they are not stated, one more than may be sent."""
    if content_length := environ.get("CONTENT_LENGTH"):
        return int(content_length)
    return limit_of(environ["PATH_INFO"]) + 1 if "HTTP_TRANSFER_ENCODING" in environ else 0


def _read(stream: Any, length: int, seconds: float) -> bytes:
    """Read a body. Raises TimeoutError: it does not arrive in time (`app.server.gateway.Body`)."""
    read_within = getattr(stream, "read_within", None)
    body: bytes = (
        read_within(length, seconds) if read_within else stream.read(length)
    )  # else: of a test
    return body


def _queued(slots: FairSlots, queue: SharedPlaces, client: str) -> bool:
    """Wait for a slot; return whether it is taken."""
    try:
        with queue.hold(client):
            return slots.acquire(client, QUEUE_TIMEOUT)
    except Busy:
        return False


def cut_off(start_response: StartResponse) -> Iterable[bytes]:
    """
    Answer 408 and have the server close the connection, by a response shorter than its length.

    After a complete response the server would wait for the rest of the body.
    """
    start_response("408 Request Timeout", [("Content-Length", "1"), CLOSE])
    return iter(())
