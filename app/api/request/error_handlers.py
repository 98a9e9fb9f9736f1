"""Handlers of the errors of requests: each answers in Ironic's form."""

import traceback

from flask import Flask, Response, request
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

from app import log
from app.api.request.context import current
from app.api.transport import errors
from app.db import diagnosis
from app.errors import ServiceError, TooLarge, Unavailable
from drivers.core.errors import InvalidDriverInfo

logger = log.get(__name__)
seldom = log.RateLimited(logger)


def register(app: Flask) -> None:
    """Register the error handlers of an application."""
    app.register_error_handler(ServiceError, _service_error)
    app.register_error_handler(InvalidDriverInfo, _invalid_node)
    app.register_error_handler(HTTPException, _http_exception)
    app.register_error_handler(SQLAlchemyError, _database_error)
    app.register_error_handler(Exception, _bug)


def _service_error(error: ServiceError) -> Response:
    if isinstance(error, TooLarge | errors.TooDeep):
        current().unrouted = True
        return errors.flat(error.status, str(error))
    if isinstance(error, errors.Misaddressed):
        current().unrouted = True
        return errors.unrouted(error.status, HTTP_STATUS_CODES[error.status], str(error))
    return errors.service_error(error, request.environ)


def _invalid_node(error: InvalidDriverInfo) -> Response:
    """Answer errors of nodes' settings, such as a disabled interface named in instance_info."""
    return errors.answer(400, str(error))


def _http_exception(error: HTTPException) -> Response:
    status = error.code or 500
    current().unrouted = True
    if status == 413:
        return errors.flat(413, "Request body too large.")
    message = error.name
    if error.description != type(error).description:
        message = error.description or message
    elif status in (404, 405):
        path = request.environ.get(errors.ORIGINAL_PATH, request.path)
        message = f"{request.method} {path} is not something that this version of the API has."
    response = errors.unrouted(status, error.name, message)
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
    settings = current().runtime.settings.default
    debug = "".join(traceback.format_exception(error)) if settings.debug_tracebacks_in_api else None
    return errors.answer(500, "Internal server error.", debug)
