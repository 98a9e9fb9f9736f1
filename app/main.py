"""
The application: what every request passes through, and who answers it.
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
from app.kit.concurrency import Turns
from app.runtime import Runtime

logger = log.get(__name__)

BLUEPRINTS = (
    root.root, nodes, node_states, ports, drivers, conductors, operations, history, agents,
    traits, templates, runbooks, allocations, shards, events, steps, why,
    management, machine_states, vendor, hardware, portgroups, chassis, volumes, vifs,
    inspection_rules,
)  # fmt: skip
#: Requests that change nothing, and those of agents, which come all the time: not for the audit.
READS, HEARTBEATS = ("GET", "HEAD", "OPTIONS"), "/v1/heartbeat"
#: Characters of a header that are logged.
LONGEST_HEADER = 200
#: Paths that are what they seem; all others are under /v1, whether they say so or not.
OUTSIDE = ("/", "/openapi.json", "/docs", "/healthcheck")
#: Older clients name the node last; no node can have the names that then come first.
NODE_LAST = re.compile(
    r"/v1/nodes/(maintenance|states(?:/(?:power|provision|raid|console|boot_mode|secure_boot))?"
    r"|management/(?:boot_device|inject_nmi|indicators)|vendor_passthru)/([^/]+)(/.*)?"
)


def create_app(runtime: Runtime) -> Flask:
    """A WSGI application that serves the API. Raises SettingsError."""
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
    _open(app, auth.make(runtime.settings))
    turns = Turns(runtime.settings.api.blocking_threads, runtime.settings.api.waiting_threads)
    taken = heartbeats.first(runtime, _in_turn(turns, app.wsgi_app))
    app.wsgi_app = _under_v1(bodies.first(runtime.settings.api.body_timeout, taken))  # type: ignore[method-assign, assignment]
    return app


class Application(Flask):
    """
    No handler is a coroutine, and so none is looked at for that, five times a request. A part of a
    thing that is too new for a request is not there, by whatever method it is asked for.
    """

    def raise_routing_exception(self, request: Request) -> NoReturn:
        if isinstance(request.routing_exception, MethodNotAllowed) and routes.hidden():
            raise NoSuchRoute
        super().raise_routing_exception(request)

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func


class Api(flask_smorest.Api):  # type: ignore[misc]
    """
    Documents the routes; errors are told in Ironic's shapes, not in its own.

    outside: the routes that no blueprint has.
    """

    outside: Sequence[Route] = ()

    @cached_property
    def document(self) -> dict[str, Any]:
        declared = (blueprint.declared for blueprint in BLUEPRINTS)
        return document.document(self.spec, chain(self.outside, *declared))

    def _openapi_json(self) -> Response:
        return json(self.document)

    def _register_error_handlers(self) -> None:
        pass


def _open(app: Flask, authenticate: auth.Authenticate) -> None:
    """What happens before and after every request."""

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
            del headers["Content-Type"]  # there is no content
        headers.extend(versions.signature(g.request_id, None if g.unrouted else g.version))
        written = request.method not in READS and not request.path.startswith(HEARTBEATS)
        if written or log.debugging():
            _log_answer(response, logger.info if written else logger.debug)
        return response


def _log_answer(response: Response, write: Callable[..., Any]) -> None:
    """Log who asked for what, and what was answered."""
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


def _check_address(asked: Request) -> None:
    """Raises Misaddressed, Invalid."""
    if "\0" in asked.path:  # no database takes it
        raise errors.Misaddressed("A path cannot contain NUL.")
    if b"%" in asked.query_string:
        try:
            unquote_to_bytes(asked.query_string).decode()
        except UnicodeDecodeError as error:
            raise errors.Misaddressed("Parameters must be UTF-8.") from error
    if b"&" in asked.query_string:
        for name, values in asked.args.lists():
            if len(values) > 1 and name != "fields":
                raise Invalid(f"Unexpected arguments: {name}: it is given more than once")


def _in_turn(turns: Turns, inner: Wsgi) -> Wsgi:
    """The application, working on no more requests at once than there are turns."""

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with turns.taken():
            return inner(environ, start_response)

    return serve


def _under_v1(inner: Wsgi) -> Wsgi:
    """
    `/nodes/` is `/v1/nodes`: a path may leave out the version, and end in one slash; it may have
    what is asked of a node before the node.

    Below 1.91 it may end in `.json`, too, where the version is asked for by Ironic's own header.
    """

    def canonical(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ[errors.ASKED] = environ.get("PATH_INFO") or "/"
        if len(path) > 1 and path.endswith("/"):
            path = path[:-1]
        if path.endswith(".json") and path not in OUTSIDE and versions.drops_suffix(environ):
            path = path.removesuffix(".json")
            environ[versions.DROPPED] = True
        if path not in OUTSIDE and path != "/v1" and not path.startswith("/v1/"):
            path = f"/v1{path}"
        if turned := NODE_LAST.fullmatch(path):
            what, ident, rest = turned.groups(default="")
            path = f"/v1/nodes/{ident}/{what}{rest}"
        environ["PATH_INFO"] = path
        return inner(environ, start_response)

    return canonical
