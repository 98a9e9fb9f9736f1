"""
WSGI middleware that reads the complete body before the request is processed, within a time limit.

granian has no timeout for bodies, and a started read cannot be cancelled. So another thread reads;
on a timeout the connection is closed, which ends the read. A request whose body never arrives holds
no request slot, and a thread no longer than the limit.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import BoundedSemaphore
from typing import Any

from app import log
from app.api.answers import Wsgi
from app.api.parsing import DEFAULT_LIMIT, limit_of

logger = log.get(__name__)

#: Bodies read at a time, and how many of them may exceed DEFAULT_LIMIT, which bounds the memory.
AT_ONCE, LARGE_AT_ONCE = 32, 4
#: Seconds that a request waits for one of these reads to end.
QUEUE_TIMEOUT = 1.0
#: Least rate of a body in bytes per second; the time limit grows by length / rate.
MIN_RATE = 1 << 20
CLOSE = ("Connection", "close")


def middleware(timeout: float, inner: Wsgi) -> Wsgi:
    """
    Wrap an application: read each body, then call `inner`.

    timeout: seconds for a body, beside those for its length.
    """
    readers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="body")
    small, large = BoundedSemaphore(AT_ONCE - LARGE_AT_ONCE), BoundedSemaphore(LARGE_AT_ONCE)

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        stated = environ.get("CONTENT_LENGTH")
        if stated == "0" or not (stated or "HTTP_TRANSFER_ENCODING" in environ):
            return inner(environ, start_response)
        limit = limit_of(environ["PATH_INFO"])
        length = int(stated) if stated else limit + 1  # one byte more shows that it is too long
        if stated and length > limit:
            environ["wsgi.input"] = BytesIO()  # `parsing` refuses it by its Content-Length
            return inner(environ, start_response)
        slots = large if length > DEFAULT_LIMIT + 1 else small
        if not slots.acquire(timeout=QUEUE_TIMEOUT):
            start_response("503 Service Unavailable", [("Retry-After", "1"), CLOSE])
            return ()
        reading = readers.submit(environ["wsgi.input"].read, length)
        reading.add_done_callback(lambda _: slots.release())
        try:
            body = reading.result(timeout + length / MIN_RATE)
        except TimeoutError:
            logger.warning(
                "request.body_late", path=environ["PATH_INFO"], client=environ.get("REMOTE_ADDR")
            )
            return cut_off(start_response)
        environ["wsgi.input"] = BytesIO(body)
        if not stated:
            environ.pop("HTTP_TRANSFER_ENCODING", None)
            environ["CONTENT_LENGTH"] = str(len(body))
        return inner(environ, start_response)

    return application


def cut_off(start_response: Any) -> Iterable[bytes]:
    """
    Answer 408 and have the server close the connection, by a response shorter than its length.

    After a complete response the server would wait for the rest of the body.
    """
    start_response("408 Request Timeout", [("Content-Length", "1"), CLOSE])
    return iter(())
