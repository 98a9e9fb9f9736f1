"""
The application: what every request passes through, and who answers it.
"""

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import flask_smorest
from flask import Flask, Response, g, request
from werkzeug.http import HTTP_STATUS_CODES

from app import log
from app.api import auth, documentation, errors, root, versions
from app.api.agents import agents
from app.api.answers import RUNTIME
from app.api.conductors import conductors
from app.api.drivers import drivers
from app.api.history import history
from app.api.node_states import node_states
from app.api.nodes import nodes
from app.api.operations import operations
from app.api.ports import ports
from app.api.routes import Json
from app.errors import Invalid, NotAcceptable
from app.runtime import Runtime

logger = log.get(__name__)

BLUEPRINTS = (
    root.root, nodes, node_states, ports, drivers, conductors, operations, history, agents,
)  # fmt: skip
#: Paths that are what they seem; all others are under /v1, whether they say so or not.
OUTSIDE = ("/", "/openapi.json", "/docs", "/healthcheck")

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


def create_app(runtime: Runtime) -> Flask:
    """A WSGI application that serves the API. Raises SettingsError."""
    app = Flask("ingot", static_folder=None)
    app.json = Json(app)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.extensions[RUNTIME] = runtime
    app.config.update(
        API_TITLE="Ingot",
        API_VERSION=f"1.{versions.MAX}",
        OPENAPI_VERSION="3.0.3",
        OPENAPI_URL_PREFIX="/",
        OPENAPI_JSON_PATH="openapi.json",
        PROPAGATE_EXCEPTIONS=False,
    )
    api = Api(app, spec_kwargs={"marshmallow_plugin": documentation.Marshmallow()})
    for blueprint in BLUEPRINTS:
        api.register_blueprint(blueprint)
    root.register(app)
    app.add_url_rule("/docs", view_func=documentation.page)
    errors.register(app)
    _open(app, auth.make(runtime.settings))
    app.wsgi_app = _under_v1(app.wsgi_app)  # type: ignore[method-assign, assignment]
    return app


class Api(flask_smorest.Api):  # type: ignore[misc]
    """Documents the routes; errors are told in Ironic's shapes, not in its own."""

    def _register_error_handlers(self) -> None:
        pass


def _open(app: Flask, authenticate: auth.Authenticate) -> None:
    """What happens before and after every request."""

    @app.before_request
    def identify() -> Response | None:
        g.started = time.perf_counter()
        g.request_id = f"req-{uuid.uuid4()}"
        g.unrouted = True
        try:
            g.version = versions.negotiate(request.headers)
        except NotAcceptable as error:
            if request.path in ("/", "/v1"):
                return errors.answer(406, str(error))
            return errors.unrouted(406, HTTP_STATUS_CODES[406], str(error))
        g.unrouted = False
        if "\0" in request.path:  # no database takes it
            raise Invalid("A path cannot contain NUL.")
        g.caller = authenticate(request, g.request_id)
        return None

    @app.after_request
    def sign(response: Response) -> Response:
        headers = response.headers
        headers["X-OpenStack-Ironic-API-Minimum-Version"] = f"1.{versions.MIN}"
        headers["X-OpenStack-Ironic-API-Maximum-Version"] = f"1.{versions.MAX}"
        headers["Openstack-Request-Id"] = headers["X-Openstack-Request-Id"] = g.request_id
        if not g.unrouted:
            headers[versions.HEADER] = f"1.{g.version}"
        logger.debug(
            "request.answered",
            method=request.method,
            path=request.path,
            status=response.status_code,
            request_id=g.request_id,
            ms=round((time.perf_counter() - g.started) * 1000, 1),
        )
        return response


def _under_v1(inner: Wsgi) -> Wsgi:
    """`/nodes/` is `/v1/nodes`: a path may leave out the version, and end in one slash."""

    def canonical(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ.get("PATH_INFO") or "/"
        if len(path) > 1 and path.endswith("/"):
            path = path[:-1]
        if path not in OUTSIDE and path != "/v1" and not path.startswith("/v1/"):
            path = f"/v1{path}"
        environ["PATH_INFO"] = path
        return inner(environ, start_response)

    return canonical
