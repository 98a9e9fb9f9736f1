"""
Answers: JSON by orjson, links, times, and the runtime that a handler works with.
"""

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
JSON = "application/json"
#: our times are naive UTC; clients get "+00:00"
OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_NON_STR_KEYS


def runtime() -> Runtime:
    found: Runtime = current_app.extensions[RUNTIME]
    return found


def json(document: Any, status: int = 200, location: str | None = None) -> Response:
    """A JSON answer; values may be `orjson.Fragment`s."""
    response = Response(orjson.dumps(document, option=OPTIONS), status, content_type=JSON)
    if location:
        response.headers["Location"] = location
    return response


class _Empty(Response):
    default_mimetype = None


def empty(status: int = 204, location: str | None = None) -> Response:
    """An answer without a body, and so without a content type."""
    response = _Empty(b"", status)
    if location:
        response.headers["Location"] = location
    return response


def time(when: datetime | None) -> str | None:
    """ISO 8601 with microseconds and offset, as every client expects it."""
    if when is None:
        return None
    return when.isoformat(timespec="microseconds") + "+00:00"


def host() -> str:
    """The URL that links begin with, without a slash at its end."""
    if public := runtime().settings.api.public_endpoint:
        return public.rstrip("/")
    asked = request_ctx.request
    return _host(asked.scheme, asked.host)


@lru_cache(maxsize=64)  # werkzeug looks at every letter of it
def _host(scheme: str, host: str) -> str:
    return get_current_url(scheme, host).rstrip("/")


def links(path: str, base: str | None = None) -> list[dict[str, str]]:
    """A link to `path` under /v1, and the same without the version, as Ironic has them."""
    base = base or host()
    return [
        {"href": f"{base}/v1/{path}", "rel": "self"},
        {"href": f"{base}/{path}", "rel": "bookmark"},
    ]
