"""
WSGI middleware that measures requests: their route, method, status and time.

It sees a request first, so that the time includes waits for a request slot. An application without
metrics does not have it.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Request

from app.metrics import recording
from app.metrics.kinds import one_of
from app.metrics.table import API_REQUESTS

#: Key of the WSGI environment with the template of the request's path.
ROUTE = "ingot.route"
UNROUTED = "unrouted"
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


def middleware(inner: WSGIApplication) -> WSGIApplication:
    """Wrap an application, if metrics are enabled."""
    if not recording.is_enabled():
        return inner

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start = time.perf_counter()

        def answered(
            status: str, headers: list[tuple[str, str]], *arguments: Any
        ) -> Callable[[bytes], object]:
            API_REQUESTS.observe(
                time.perf_counter() - start,
                environ.get(ROUTE, UNROUTED),
                one_of(environ["REQUEST_METHOD"], METHODS),
                f"{status[0]}xx",
            )
            return start_response(status, headers, *arguments)

        return inner(environ, answered)

    return application


def method_and_route(request: Request) -> tuple[str, str]:
    """Return the method and the route of a request, each one of a closed set of values."""
    return one_of(request.method, METHODS), request.environ.get(ROUTE, UNROUTED)


def note_route(request: Request) -> None:
    """Record the route of a request; a request that waits for an operation has one of its own."""
    if request.url_rule is not None:
        suffix = "?wait" if "wait" in request.args else ""
        request.environ[ROUTE] = f"{request.url_rule.rule}{suffix}"
