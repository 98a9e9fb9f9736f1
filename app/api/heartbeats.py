"""
Heartbeats, taken before Flask sees them.

With thousands of agents they are most of all requests. Flask's share would be most of their cost,
and a transaction of its own for each most of what remains: those that come within a moment are
recorded together, and answered then. Only what is in order is answered here; anything else goes on
to the route (`app.api.agents`), which knows how to tell what is wrong.
"""

import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

import orjson
from werkzeug.datastructures import EnvironHeaders

from app import log
from app.agents import heartbeats
from app.agents.heartbeats import Heard, Sign
from app.api import versions
from app.api.agents import check
from app.api.answers import JSON, Wsgi
from app.api.schemas.agents import Heartbeat
from app.kit.batching import Batcher
from app.kit.identifiers import is_uuid
from app.runtime import Runtime

PATH = "/v1/heartbeat/"
#: What agents do not send; it may change who asks, or what.
UNUSUAL = ("QUERY_STRING", "HTTP_AUTHORIZATION", "HTTP_X_AUTH_TOKEN", "HTTP_TRANSFER_ENCODING")
#: Bytes that are looked at here.
LONGEST = 128 << 10
#: Transactions a second of a process, and at once, before heartbeats wait for others; and the most
#: heartbeats of one transaction.
RATE, BURST, MOST = 4.0, 8, 16

_HEARTBEAT = Heartbeat()


class Asked(NamedTuple):
    """A heartbeat as it came. node: its UUID. minor: the version that it speaks."""

    node: str
    minor: int
    body: bytes


def first(runtime: Runtime, inner: Wsgi) -> Wsgi:
    """An application that takes heartbeats, and leaves all else to `inner`."""
    record = Batcher(partial(_record, runtime), rate=RATE, burst=BURST, most=MOST)

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith(PATH) or not _is_usual(environ):
            return inner(environ, start_response)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        minor = take(environ, body)
        if minor is None:
            environ["wsgi.input"] = BytesIO(body)
            return inner(environ, start_response)
        headers = [("Content-Length", "0"), *versions.signature(f"req-{uuid.uuid4()}", minor)]
        start_response("202 ACCEPTED", headers)
        return ()

    def take(environ: dict[str, Any], body: bytes) -> int | None:
        """The version that it speaks, once it is recorded; None: the route has to see to it."""
        with suppress(Exception):  # whatever it is, the route meets it, too
            minor = versions.negotiate(EnvironHeaders(environ))
            heard = record(Asked(environ["PATH_INFO"][len(PATH) :], minor, body))
            if heard is not None:
                heartbeats.wake(runtime, heard)
                return minor
        return None

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


def _record(runtime: Runtime, asked: Sequence[Asked]) -> Sequence[Heard | None]:
    """What came of each; None where the route has to see to it."""
    signs = [_sign(runtime, each) for each in asked]
    heard = iter(heartbeats.again(runtime, [each for each in signs if each]))
    return [next(heard) if each else None for each in signs]


def _sign(runtime: Runtime, asked: Asked) -> Sign | None:
    """The sign of life; None when anything is wrong with it."""
    try:
        told = _HEARTBEAT.load(orjson.loads(asked.body))
        check(runtime.settings, asked.node, told, asked.minor)
    except Exception:
        return None
    return Sign(asked.node, told)
