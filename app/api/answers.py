"""Responses: JSON by orjson, links and times. Also the runtime of the current application."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson
from flask import Response, current_app
from flask.globals import request_ctx
from werkzeug.sansio.utils import get_current_url

from app.runtime import Runtime

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]

RUNTIME = "ingot"
#: Key of the WSGI environment with the WebSocket that a request asks for (`app.gateway`), if any.
SOCKET = "ingot.socket"
JSON = "application/json"
#: Times are naive UTC; clients get "+00:00".
OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_NON_STR_KEYS


def runtime() -> Runtime:
    found: Runtime = current_app.extensions[RUNTIME]
    return found


def json(document: Any, status: int = 200, location: str | None = None) -> Response:
    """
    Return a JSON response.

    document: may contain `orjson.Fragment`s. location: URL for the header Location.
    """
    response = Response(orjson.dumps(document, option=OPTIONS), status, content_type=JSON)
    if location:
        response.headers["Location"] = location
    return response


class _Empty(Response):
    default_mimetype = None


def empty(status: int = 204, location: str | None = None) -> Response:
    """Return a response without body and content type."""
    response = _Empty(b"", status)
    if location:
        response.headers["Location"] = location
    return response


def time(when: datetime | None) -> str | None:
    """Format a time in ISO 8601 with microseconds and offset, as Ironic does."""
    if when is None:
        return None
    return when.isoformat(timespec="microseconds") + "+00:00"


def host() -> str:
    """Return the URL that links begin with, without a trailing slash."""
    if public := runtime().settings.api.public_endpoint:
        return public.rstrip("/")
    current = request_ctx.request
    return _host(current.scheme, current.host)


@lru_cache(maxsize=64)  # werkzeug checks each character
def _host(scheme: str, host: str) -> str:
    return get_current_url(scheme, host).rstrip("/")


def links(path: str, base: str | None = None) -> list[dict[str, str]]:
    """Return Ironic's two links to `path`: `self` under /v1, `bookmark` without the version."""
    base = base or host()
    return [
        {"href": f"{base}/v1/{path}", "rel": "self"},
        {"href": f"{base}/{path}", "rel": "bookmark"},
    ]
