"""Responses: JSON by orjson, links and times."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson
from flask import Request, Response
from werkzeug.sansio.utils import get_current_url

from app.config.settings import Api
from app.text.masking import Unreadable

#: Key of the WSGI environment for the WebSocket that a request asks for (`app.server.gateway`).
SOCKET = "ingot.socket"
JSON = "application/json"
#: Times are naive UTC; clients get "+00:00".
OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_NON_STR_KEYS


def json(document: object, status: int = 200, location: str | None = None) -> Response:
    """
    Return a JSON response.

    document: may contain `orjson.Fragment`s; a secret that no key opens is null. location: URL for
    the header Location.
    """
    body = orjson.dumps(document, _plain, OPTIONS | orjson.OPT_PASSTHROUGH_SUBCLASS)
    response = Response(body, status, content_type=JSON)
    if location:
        response.headers["Location"] = location
    return response


def _plain(value: object) -> Any:
    """Return a value of a subclass of JSON's types as one of these."""
    if isinstance(value, Unreadable):
        return None
    kinds: tuple[Callable[[Any], Any], ...] = (str, dict, list, int)
    for kind in kinds:
        if isinstance(value, kind):  # type: ignore[arg-type]
            return kind(value)
    raise TypeError(type(value).__name__)


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


def base_url(api: Api, request: Request) -> str:
    """Return the URL that links start with, without a trailing slash."""
    if public := api.public_endpoint:
        return public.rstrip("/")
    return _host(request.scheme, request.host)


@lru_cache(maxsize=64)  # werkzeug checks each character
def _host(scheme: str, host: str) -> str:
    return get_current_url(scheme, host).rstrip("/")


def links(path: str, base: str) -> list[dict[str, str]]:
    """
    Return Ironic's two links to `path`: `self` under /v1, `bookmark` without the version.

    base: see `base_url`.
    """
    return [
        {"href": f"{base}/v1/{path}", "rel": "self"},
        {"href": f"{base}/{path}", "rel": "bookmark"},
    ]
