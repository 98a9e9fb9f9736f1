"""
WSGI middleware for heartbeats: a fast path in front of Flask, with batching.

With thousands of agents most requests are heartbeats, and most of their cost would be Flask and a
transaction for each. Heartbeats that arrive together are recorded in one transaction. Only valid
heartbeats are answered here; all others go on to the route (`app.api.agent.agents`) for their
error. So does a heartbeat for which this path fails: that costs time only, and is logged and
counted.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from io import BytesIO
from typing import NamedTuple
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import orjson
from marshmallow import ValidationError
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.datastructures import EnvironHeaders

from app.agents import heartbeats
from app.agents.heartbeats import AgentHeartbeat, RecordedHeartbeat
from app.api.agent.agents import check
from app.api.declarations import versions
from app.api.schemas.agents import Heartbeat
from app.api.transport import measuring
from app.api.transport.responses import JSON
from app.errors import ServiceError
from app.metrics.table import HEARTBEAT_DEFECTS
from app.observe import log, request_ids
from app.requests.batching import Batcher
from app.rows.uuid_or_name import is_uuid
from app.runtime import Runtime

PATH, ROUTE = "/v1/heartbeat/", "/v1/heartbeat/<ident>"
#: Variables of the WSGI environment that agents do not set; they may change caller or fields.
UNUSUAL = (
    "QUERY_STRING", "HTTP_AUTHORIZATION", "HTTP_X_AUTH_TOKEN", "HTTP_TRANSFER_ENCODING",
    "HTTP_IDEMPOTENCY_KEY", "HTTP_IF_MATCH",
)  # fmt: skip
#: Bytes of the largest body that is decoded here.
LONGEST = 128 << 10
#: Batching per process: transactions per second, burst of transactions before heartbeats wait for
#: others, and most heartbeats in one transaction.
RATE, BURST, MOST = 4.0, 8, 16

#: Errors of a heartbeat, or of the database: the route has them, too.
EXPECTED = (ServiceError, SQLAlchemyError)

_HEARTBEAT = Heartbeat()
seldom = log.RateLimited(log.get(__name__))


class Received(NamedTuple):
    """A heartbeat, not decoded."""

    node: str  # UUID
    minor: int  # API version of the request
    body: bytes


def middleware(runtime: Runtime, inner: WSGIApplication) -> WSGIApplication:
    """Wrap an application: record valid heartbeats, and pass all other requests to `inner`."""
    record = Batcher(partial(_record, runtime), rate=RATE, burst=BURST, max_size=MOST)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith(PATH) or not _is_usual(environ):
            return inner(environ, start_response)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        minor = take(environ, body)
        if minor is None:
            environ["wsgi.input"] = BytesIO(body)
            return inner(environ, start_response)
        environ[measuring.ROUTE] = ROUTE
        headers = [("Content-Length", "0"), *versions.signature(request_ids.new(), minor)]
        start_response("202 ACCEPTED", headers)
        return ()

    def take(environ: WSGIEnvironment, body: bytes) -> int | None:
        """Record a heartbeat, and return its API version, or None if the route must process it."""
        try:
            minor = versions.negotiate(EnvironHeaders(environ))
            heartbeat_record = record(Received(environ["PATH_INFO"][len(PATH) :], minor, body))
            if heartbeat_record is not None:
                heartbeats.resume_waiting(runtime, heartbeat_record)
                return minor
        except EXPECTED:  # the route fails in the same way, and answers the error
            pass
        except Exception:
            _note_defect()
        return None

    return application


def _is_usual(environ: WSGIEnvironment) -> bool:
    length = environ.get("CONTENT_LENGTH") or ""
    return (
        environ["REQUEST_METHOD"] == "POST"
        and environ.get("CONTENT_TYPE") == JSON
        and length.isdigit()
        and int(length) <= LONGEST
        and not any(environ.get(name) for name in UNUSUAL)
        and is_uuid(environ["PATH_INFO"][len(PATH) :])
        and not log.debugging()  # at that level the requests in Flask are logged
    )


def _record(runtime: Runtime, received: Sequence[Received]) -> Sequence[RecordedHeartbeat | None]:
    """Record a batch; None for each heartbeat that the route must process."""
    decoded = [_decode(runtime, item) for item in received]
    try:
        records = iter(heartbeats.record_batch(runtime, [sign for sign in decoded if sign]))
    except EXPECTED:
        return [None] * len(received)
    except Exception:
        _note_defect()
        return [None] * len(received)
    return [next(records) if sign else None for sign in decoded]


def _decode(runtime: Runtime, received: Received) -> AgentHeartbeat | None:
    """Decode and validate a heartbeat; None if it is invalid."""
    try:
        fields = _HEARTBEAT.load(orjson.loads(received.body))
        check(runtime.settings, received.node, fields, received.minor)
    except (*EXPECTED, orjson.JSONDecodeError, ValidationError):
        return None
    except Exception:  # the other heartbeats of the batch are recorded
        _note_defect()
        return None
    return AgentHeartbeat(received.node, fields)


def _note_defect() -> None:
    """Log and count the exception that is being handled."""
    HEARTBEAT_DEFECTS.add()
    seldom.warning("heartbeat.defect", exc_info=True)
