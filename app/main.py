"""
The WSGI application of the API: middleware, blueprints and hooks of all requests.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

import flask_smorest
from flask import Flask, Request, Response, g, request
from flask.globals import request_ctx
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.exceptions import NotFound as NoSuchRoute
from werkzeug.http import HTTP_STATUS_CODES

from app import log
from app.api import auth, bodies, errors, heartbeats, root, routes, versions
from app.api.agents import agents
from app.api.allocations import allocations
from app.api.answers import RUNTIME, Wsgi, json
from app.api.chassis import chassis
from app.api.conductors import conductors
from app.api.drivers import drivers
from app.api.events import events
from app.api.hardware import hardware
from app.api.history import history
from app.api.inspection_rules import inspection_rules
from app.api.machine_states import machine_states
from app.api.management import management
from app.api.node_states import node_states
from app.api.nodes import nodes
from app.api.openapi import document
from app.api.operations import operations
from app.api.parsing import Json
from app.api.policy.enforce import POLICY
from app.api.policy.file import make as make_policy
from app.api.portgroups import portgroups
from app.api.ports import ports
from app.api.routes import Route
from app.api.runbooks import runbooks
from app.api.shards import shards
from app.api.steps import steps
from app.api.templates import templates
from app.api.traits import traits
from app.api.vendor import vendor
from app.api.vifs import vifs
from app.api.volumes import volumes
from app.api.why import why
from app.errors import Invalid, NotAcceptable
from app.kit.caller import Caller
from app.kit.concurrency import RequestSlots
from app.runtime import Runtime

logger = log.get(__name__)

BLUEPRINTS = (
    root.root, nodes, node_states, ports, drivers, conductors, operations, history, agents,
    traits, templates, runbooks, allocations, shards, events, steps, why,
    management, machine_states, vendor, hardware, portgroups, chassis, volumes, vifs,
    inspection_rules,
)  # fmt: skip
#: Excluded from the audit log: read-only methods, and the frequent heartbeats of agents.
READS, HEARTBEATS = ("GET", "HEAD", "OPTIONS"), "/v1/heartbeat"
#: Most characters of a header in the log.
LONGEST_HEADER = 200
#: Paths without API version; all others are below /v1, with or without that prefix.
UNVERSIONED = ("/", "/openapi.json", "/docs", "/healthcheck")
#: Paths of older clients, with the node last; these first parts are no valid names of nodes.
NODE_LAST = re.compile(
    r"/v1/nodes/(maintenance|states(?:/(?:power|provision|raid|console|boot_mode|secure_boot))?"
    r"|management/(?:boot_device|inject_nmi|indicators)|vendor_passthru)/([^/]+)(/.*)?"
)


def create_app(runtime: Runtime) -> Flask:
    """
    Create the WSGI application that serves the API.

    Raises SettingsError: the settings of the authentication or the policy are not usable.
    """
    app = Application("ingot", static_folder=None)
    app.json = Json(app)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.extensions[RUNTIME] = runtime
    app.extensions[POLICY] = make_policy(runtime.settings)
    app.config.update(
        API_TITLE="Ingot",
        API_VERSION=f"1.{versions.MAX}",
        OPENAPI_VERSION="3.1.0",
        OPENAPI_URL_PREFIX="/",
        OPENAPI_JSON_PATH="openapi.json",
        PROPAGATE_EXCEPTIONS=False,
    )
    api = Api(app, spec_kwargs={"marshmallow_plugin": document.Marshmallow()})
    for blueprint in BLUEPRINTS:
        api.register_blueprint(blueprint)
    api.outside = root.register(app)
    app.add_url_rule("/docs", view_func=document.page)
    errors.register(app)
    _register_hooks(app, auth.make(runtime.settings))
    turns = RequestSlots(
        runtime.settings.api.blocking_threads, runtime.settings.api.waiting_threads
    )
    application = heartbeats.middleware(runtime, _limited(turns, app.wsgi_app))
    app.wsgi_app = _under_v1(bodies.middleware(runtime.settings.api.body_timeout, application))  # type: ignore[method-assign, assignment]
    return app


class Application(Flask):
    """
    Flask with two changes.

    No handler is a coroutine, so `ensure_sync`, which Flask calls five times per request, is the
    identity. A route that is newer than the request's API version is not found with any method.
    """

    def raise_routing_exception(self, request: Request) -> NoReturn:
        if isinstance(request.routing_exception, MethodNotAllowed) and routes.hidden():
            raise NoSuchRoute
        super().raise_routing_exception(request)

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func


class Api(flask_smorest.Api):  # type: ignore[misc]
    """OpenAPI document of the routes; errors keep Ironic's shape instead of flask-smorest's."""

    outside: Sequence[Route] = ()  # routes outside of the blueprints

    @cached_property
    def document(self) -> dict[str, Any]:
        declared = (blueprint.declared for blueprint in BLUEPRINTS)
        return document.document(self.spec, chain(self.outside, *declared))

    def _openapi_json(self) -> Response:
        return json(self.document)

    def _register_error_handlers(self) -> None:
        pass


def _register_hooks(app: Flask, authenticate: auth.Authenticate) -> None:
    """Register the hooks before and after every request."""

    @app.before_request
    def identify() -> Response | None:
        g.started = time.perf_counter()
        g.request_id = f"req-{uuid.uuid4()}"
        g.unrouted = True
        request = request_ctx.request
        try:
            g.version = versions.negotiate(request.headers)
        except NotAcceptable as error:
            if request.path == "/":
                return errors.answer(406, str(error))
            return errors.unrouted(406, HTTP_STATUS_CODES[406], str(error))
        g.unrouted = False
        _check_address(request)
        g.caller = authenticate(request, g.request_id)
        return None

    @app.after_request
    def sign(response: Response) -> Response:
        headers = response.headers
        if request.method == "OPTIONS":
            del headers["Content-Type"]  # the answer has no content
        headers.extend(versions.signature(g.request_id, None if g.unrouted else g.version))
        audited = request.method not in READS and not request.path.startswith(HEARTBEATS)
        if audited or log.debugging():
            _log_response(response, logger.info if audited else logger.debug)
        return response


def _log_response(response: Response, write: Callable[..., Any]) -> None:
    """Log the caller, the request and the status of its answer."""
    caller: Caller = g.get("caller") or Caller()
    forwarded = request.headers.get("X-Forwarded-For")
    write(
        "request.answered",
        user=caller.user_id,
        address=request.remote_addr,
        **({"forwarded_for": forwarded[:LONGEST_HEADER]} if forwarded else {}),
        method=request.method,
        path=request.path,
        status=response.status_code,
        request_id=g.request_id,
        ms=round((time.perf_counter() - g.started) * 1000, 1),
    )


def _check_address(request: Request) -> None:
    """
    Check path and query string.

    Raises Misaddressed: NUL in the path, or a query string that is not UTF-8.
    Raises Invalid: a parameter is given twice.
    """
    if "\0" in request.path:  # the databases refuse it
        raise errors.Misaddressed("A path cannot contain NUL.")
    if b"%" in request.query_string:
        try:
            unquote_to_bytes(request.query_string).decode()
        except UnicodeDecodeError as error:
            raise errors.Misaddressed("Parameters must be UTF-8.") from error
    if b"&" in request.query_string:
        for name, values in request.args.lists():
            if len(values) > 1 and name != "fields":
                raise Invalid(f"Unexpected arguments: {name}: it is given more than once")


def _limited(turns: RequestSlots, inner: Wsgi) -> Wsgi:
    """Limit the requests that the application handles at once to the number of request slots."""

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with turns.taken():
            return inner(environ, start_response)

    return serve


def _under_v1(inner: Wsgi) -> Wsgi:
    """
    Rewrite a path to its canonical form below /v1, as `/nodes/` to `/v1/nodes`.

    The version may be missing; one trailing slash is removed; older clients name the node last.
    Below API version 1.91, a `.json` suffix is removed where Ironic's own header selects the
    version.
    """

    def canonical(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ[errors.ORIGINAL_PATH] = environ.get("PATH_INFO") or "/"
        if len(path) > 1 and path.endswith("/"):
            path = path[:-1]
        if path.endswith(".json") and path not in UNVERSIONED and versions.drops_suffix(environ):
            path = path.removesuffix(".json")
            environ[versions.DROPPED] = True
        if path not in UNVERSIONED and path != "/v1" and not path.startswith("/v1/"):
            path = f"/v1{path}"
        if match := NODE_LAST.fullmatch(path):
            what, ident, rest = match.groups(default="")
            path = f"/v1/nodes/{ident}/{what}{rest}"
        environ["PATH_INFO"] = path
        return inner(environ, start_response)

    return canonical
