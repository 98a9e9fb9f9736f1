"""
Error responses in Ironic's formats; never HTML.

Most are `{"error_message": TEXT}`, where TEXT is a JSON document again: clients decode it twice.
"""

import traceback
from collections.abc import Mapping
from typing import Any

import orjson
from flask import Flask, Response, current_app, g, request
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

from app import log
from app.api.transport.responses import RUNTIME, json
from app.db import diagnosis
from app.errors import ServiceError, TooLarge, Unauthorized, Unavailable
from drivers.core.errors import InvalidDriverInfo

logger = log.get(__name__)
seldom = log.RateLimited(logger)

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


def register(app: Flask) -> None:
    """Register the error handlers of an application."""
    app.register_error_handler(ServiceError, _service_error)
    app.register_error_handler(InvalidDriverInfo, _invalid_node)
    app.register_error_handler(HTTPException, _http_exception)
    app.register_error_handler(SQLAlchemyError, _database_error)
    app.register_error_handler(Exception, _bug)


def service_error(error: ServiceError, environ: Mapping[str, Any]) -> Response:
    """Return the response to an error of the request `environ`, before Flask processes it."""
    response = answer(error.status, str(error))
    client = environ.get("HTTP_USER_AGENT", "")
    if error.retry_after is not None and NO_RETRY_AFTER not in client:
        response.headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, Unauthorized) and error.challenge:
        response.headers["WWW-Authenticate"] = error.challenge
    return response


def _service_error(error: ServiceError) -> Response:
    if isinstance(error, TooLarge | TooDeep):
        g.unrouted = True
        return flat(error.status, str(error))
    if isinstance(error, Misaddressed):
        g.unrouted = True
        return unrouted(error.status, HTTP_STATUS_CODES[error.status], str(error))
    return service_error(error, request.environ)


def _invalid_node(error: InvalidDriverInfo) -> Response:
    """Answer errors of nodes' settings, such as a disabled interface named in instance_info."""
    return answer(400, str(error))


def _http_exception(error: HTTPException) -> Response:
    status = error.code or 500
    g.unrouted = True
    if status == 413:
        return flat(413, "Request body too large.")
    message = error.name
    if error.description != type(error).description:
        message = error.description or message
    elif status in (404, 405):
        path = request.environ.get(ORIGINAL_PATH, request.path)
        message = f"{request.method} {path} is not something that this version of the API has."
    response = unrouted(status, error.name, message)
    for name, value in error.get_headers():
        if name == "Allow":
            response.headers[name] = value
    return response


def _database_error(error: SQLAlchemyError) -> Response:
    trouble = diagnosis.database_problem(error)
    if trouble is None:
        return _bug(error)
    message = f"The database {trouble}, please retry."
    seldom.warning("request.no_database", error=message, detail=diagnosis.reason(error))
    return _service_error(Unavailable(message))


def _bug(error: Exception) -> Response:
    logger.error("request.crashed", exc_info=error)
    settings = current_app.extensions[RUNTIME].settings.default
    debug = "".join(traceback.format_exception(error)) if settings.debug_tracebacks_in_api else None
    return answer(500, "Internal server error.", debug)
