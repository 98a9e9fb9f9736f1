"""
Heartbeats, taken before Flask sees them.

With thousands of agents they are most of all requests, and Flask's share would be most of their
cost. Only what is in order is answered here; anything else goes on to the route (`app.api.agents`),
which does the same again and knows how to tell what is wrong.
"""

import uuid
from collections.abc import Iterable
from io import BytesIO
from typing import Any

import orjson
from werkzeug.datastructures import EnvironHeaders

from app import log
from app.api import versions
from app.api.agents import HEARTBEAT_SINCE, hear
from app.api.answers import JSON, Wsgi, signature
from app.api.schemas.agents import Heartbeat
from app.errors import NotFound
from app.runtime import Runtime
from app.services.idents import is_uuid

PATH = "/v1/heartbeat/"
#: What agents do not send; it may change who asks, or what.
UNUSUAL = ("QUERY_STRING", "HTTP_AUTHORIZATION", "HTTP_X_AUTH_TOKEN", "HTTP_TRANSFER_ENCODING")
#: Bytes that are looked at here.
LONGEST = 128 << 10

_HEARTBEAT = Heartbeat()


def first(runtime: Runtime, inner: Wsgi) -> Wsgi:
    """An application that takes heartbeats, and leaves all else to `inner`."""

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith(PATH) or not _is_usual(environ):
            return inner(environ, start_response)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        try:
            minor = _take(runtime, environ, body)
        except Exception:  # whatever it is, the route meets it, too
            environ["wsgi.input"] = BytesIO(body)
            return inner(environ, start_response)
        headers = [("Content-Length", "0"), *signature(f"req-{uuid.uuid4()}", minor)]
        start_response("202 ACCEPTED", headers)
        return ()

    return application


def _is_usual(environ: dict[str, Any]) -> bool:
    length = environ.get("CONTENT_LENGTH") or ""
    return (
        environ["REQUEST_METHOD"] == "POST"
        and environ.get("CONTENT_TYPE") == JSON
        and length.isdigit()
        and int(length) <= LONGEST
        and not any(environ.get(name) for name in UNUSUAL)
        and is_uuid(environ["PATH_INFO"][len(PATH) :])
        and not log.debugging()  # Flask's requests are logged then
    )


def _take(runtime: Runtime, environ: dict[str, Any], body: bytes) -> int:
    """Record it; the minor version that it speaks. Raises what the route would tell."""
    minor = versions.negotiate(EnvironHeaders(environ))
    if minor < HEARTBEAT_SINCE:
        raise NotFound("route", PATH)
    sign = _HEARTBEAT.load(orjson.loads(body))
    hear(runtime, environ["PATH_INFO"][len(PATH) :], sign, minor)
    return minor
