"""
Request bodies, read completely before a request is worked on, within a time limit.

granian has no time limit for bodies, and a read that has begun cannot be cancelled. So another
thread reads; when that takes too long, the connection is closed, which ends the read. Requests
whose bodies never arrive hold neither a turn nor, for longer than the limit, a thread.
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

#: Bodies that are read at once, and how many of them may be larger than DEFAULT_LIMIT: those fill
#: the memory.
AT_ONCE, LARGE_AT_ONCE = 32, 4
#: Seconds to wait for one of these to end, when there are as many.
PATIENCE = 1.0
#: Bytes a second at which a large body may arrive.
SLOWEST = 1 << 20
CLOSE = ("Connection", "close")


def first(timeout: float, inner: Wsgi) -> Wsgi:
    """An application that reads the bodies of requests and leaves all else to `inner`."""
    readers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="body")
    small, large = BoundedSemaphore(AT_ONCE - LARGE_AT_ONCE), BoundedSemaphore(LARGE_AT_ONCE)

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        stated = environ.get("CONTENT_LENGTH")
        if stated == "0" or not (stated or "HTTP_TRANSFER_ENCODING" in environ):
            return inner(environ, start_response)
        limit = limit_of(environ["PATH_INFO"])
        length = int(stated) if stated else limit + 1  # a byte more: it is too long
        if stated and length > limit:
            environ["wsgi.input"] = BytesIO()  # refused by what it states
            return inner(environ, start_response)
        free = large if length > DEFAULT_LIMIT + 1 else small
        if not free.acquire(timeout=PATIENCE):
            start_response("503 Service Unavailable", [("Retry-After", "1"), CLOSE])
            return ()
        reading = readers.submit(environ["wsgi.input"].read, length)
        reading.add_done_callback(lambda _: free.release())
        try:
            body = reading.result(timeout + length / SLOWEST)
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
    Close the connection at once: the content ends before the length that is stated.

    After a complete answer the server would wait for the rest of the body.
    """
    start_response("408 Request Timeout", [("Content-Length", "1"), CLOSE])
    return iter(())
