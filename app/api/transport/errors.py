"""
Error responses in Ironic's formats; never HTML.

Most are `{"error_message": TEXT}`, where TEXT is a JSON document again: clients decode it twice.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from flask import Response

from app.api.transport.responses import json
from app.errors import ServiceError, Unauthorized

#: This client (at least up to 6.3) raises TypeError on the Retry-After of a 409 or 503; without the
#: header it retries after a pause.
NO_RETRY_AFTER = "python-ironicclient"
#: Key in the WSGI environment: path of the request before its normalisation.
ORIGINAL_PATH = "ingot.original_path"


def answer(status: int, message: str, debug: str | None = None) -> Response:
    """Return the response to an error of a handler. debug: traceback, if it may be shown."""
    code = "Client" if status < 500 else "Server"
    fault = {"faultcode": code, "faultstring": message, "debuginfo": debug}
    return json({"error_message": orjson.dumps(fault).decode()}, status)


def unrouted(status: int, title: str, description: str) -> Response:
    """Return the response to a request without a handler: unknown path, method or version."""
    fault = {"code": status, "title": title, "description": description}
    return json({"error_message": orjson.dumps(fault).decode()}, status)


def flat(status: int, message: str) -> Response:
    """Return the response to a body that is not decoded: too large, or nested too deeply."""
    return json({"faultcode": "Client", "faultstring": message}, status)


class TooDeep(ServiceError):
    """The body is nested too deeply."""

    status = 400


class Misaddressed(ServiceError):
    """An identifier in the path is malformed: neither a UUID nor a valid name."""

    status = 400


def service_error(error: ServiceError, environ: Mapping[str, Any]) -> Response:
    """Return the response to an error of the request `environ`, before Flask processes it."""
    response = answer(error.status, str(error))
    client = environ.get("HTTP_USER_AGENT", "")
    if error.retry_after is not None and NO_RETRY_AFTER not in client:
        response.headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, Unauthorized) and error.challenge:
        response.headers["WWW-Authenticate"] = error.challenge
    return response
