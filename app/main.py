"""
The WSGI application of the API: middleware, blueprints and hooks of all requests.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

import flask_smorest
from flask import Flask, Request, Response, g, request
from flask.globals import request_ctx
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.exceptions import NotFound as NoSuchRoute
from werkzeug.http import HTTP_STATUS_CODES

from app import log, request_ids, tracing
from app.api import (
    auditing,
    auth,
    bodies,
    errors,
    heartbeats,
    measuring,
    page_facts,
    page_files,
    root,
    routes,
    sites,
    versions,
)
from app.api.agent_logs import agent_logs
from app.api.agents import agents, note_unrouted
from app.api.allocations import allocations
from app.api.answers import JSON, RUNTIME, Wsgi, json
from app.api.audit import audit
from app.api.bmc_documents import bmc_documents
from app.api.change_events import change_events
from app.api.chassis import chassis
from app.api.conductors import conductors
from app.api.consoles import consoles
from app.api.drivers import drivers
from app.api.events import events
from app.api.fleet_operations import fleet_operations
from app.api.following import FOLLOWING, Following
from app.api.hardware import hardware
from app.api.history import history
from app.api.holds import holds
from app.api.inspection_rules import inspection_rules
from app.api.limits import LIMITS, Limits
from app.api.login import login
from app.api.machine_states import machine_states
from app.api.management import management
from app.api.node_states import node_states
from app.api.nodes import nodes
from app.api.openapi import document
from app.api.operations import operations
from app.api.parsing import Json
from app.api.passwords import PasswordChecks, password_checks
from app.api.policy.enforce import POLICY
from app.api.policy.file import make as make_policy
from app.api.portgroups import portgroups
from app.api.ports import ports
from app.api.provision_states import provision_states
from app.api.public_paths import is_of_agents
from app.api.rollouts import rollouts
from app.api.routes import Route
from app.api.runbooks import runbooks
from app.api.service import service
from app.api.shards import shards
from app.api.sites import Sites
from app.api.steps import steps
from app.api.templates import templates
from app.api.traits import traits
from app.api.vendor import vendor
from app.api.vifs import vifs
from app.api.volumes import volumes
from app.api.webhooks import webhooks
from app.api.why import why
from app.config.settings import Api as ApiSettings
from app.errors import Invalid, NotAcceptable
from app.kit.caller import Caller
from app.kit.concurrency import Busy, RequestSlots, take_turn
from app.runtime import Runtime

logger = log.get(__name__)

BLUEPRINTS = (
    root.root, nodes, node_states, ports, drivers, conductors, operations, history, agents,
    traits, templates, runbooks, allocations, shards, events, steps, why,
    management, machine_states, consoles, vendor, hardware, portgroups, chassis, volumes, vifs,
    inspection_rules, change_events, webhooks, holds, audit, rollouts, provision_states,
    fleet_operations, service, login, bmc_documents, agent_logs,
)  # fmt: skip
#: Requests of agents that a process handles at once, and those that may wait for it.
AGENTS_AT_ONCE, AGENTS_QUEUED = 2, 64
#: Requests of users that may wait for a request slot in a process.
QUEUED = 256
#: Excluded from the audit log: read-only methods, and the frequent heartbeats of agents.
READS, HEARTBEATS = ("GET", "HEAD", "OPTIONS"), "/v1/heartbeat"
#: Most characters of a header in the log.
LONGEST_HEADER = 200
#: Path -> view of the pages: the documentation, and the page of operators.
PAGES = {
    **page_files.views("/docs", Path(document.__file__).parent, "page.html"),
    **page_files.views(
        "/ui", Path(__file__).parent / "ui", "index.html", facts=page_facts.encoded()
    ),
}
#: Paths without API version; all others are below /v1, with or without that prefix.
UNVERSIONED = ("/", "/openapi.json", "/healthcheck", *PAGES)
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
    for path, view in PAGES.items():
        app.add_url_rule(path, view_func=view)
    errors.register(app)
    auditing.register(app, runtime)
    checks = password_checks(runtime.settings.api)
    authenticate = app.extensions[auth.AUTHENTICATE] = auth.make(runtime, checks)
    _register_hooks(app, authenticate, Sites(runtime.settings))
    app.wsgi_app = _middleware(runtime, app, checks)  # type: ignore[method-assign, assignment]
    return app


def _middleware(runtime: Runtime, app: Flask, checks: PasswordChecks) -> Wsgi:
    """Return the application within its middleware; the last one sees a request first."""
    settings = runtime.settings.api
    limits = app.extensions[LIMITS] = Limits(settings)
    app.extensions[FOLLOWING] = Following(runtime, limits)
    client_of = limits.clients.key_of
    wsgi = _limited(settings, client_of, app.wsgi_app)
    wsgi = heartbeats.middleware(runtime, wsgi)
    wsgi = bodies.middleware(settings.body_timeout, client_of, wsgi)
    wsgi = checks.middleware(limits.middleware(wsgi))
    wsgi = _under_v1(wsgi)
    return measuring.middleware(sites.with_headers(wsgi))


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

    @cached_property
    def _encoded(self) -> bytes:
        return json(self.document).get_data()

    def _openapi_json(self) -> Response:
        return Response(self._encoded, content_type=JSON)

    def _register_error_handlers(self) -> None:
        pass


def _register_hooks(app: Flask, authenticate: auth.Authenticate, allowed: Sites) -> None:
    """Register the hooks before and after every request."""

    @app.before_request
    def identify() -> Response | None:
        request = request_ctx.request
        g.started = time.perf_counter()
        g.span = tracing.begin_request(request.headers.get("Traceparent"))
        g.request_id = tracing.id_of(g.span) if g.span else request_ids.new()
        log.bind(request_id=g.request_id)
        g.unrouted = True
        measuring.note_route(request)
        try:
            g.version = versions.negotiate(request.headers)
        except NotAcceptable as error:
            if request.path == "/":
                return errors.answer(406, str(error))
            return errors.unrouted(406, HTTP_STATUS_CODES[406], str(error))
        g.unrouted = False
        _check_address(request)
        allowed.check(request)
        g.caller = authenticate(request, g.request_id)
        take_turn(g.caller.tenant)
        return None

    @app.after_request
    def sign(response: Response) -> Response:
        note_unrouted(response)
        response = auditing.finish(response)
        headers = response.headers
        if request.method == "OPTIONS":
            del headers["Content-Type"]  # the answer has no content
        version = None if g.unrouted else g.version
        cached = "Cache-Control" in headers
        headers.extend(versions.signature(g.request_id, version, cached=cached))
        audited = request.method not in READS and not request.path.startswith(HEARTBEATS)
        if audited or log.debugging():
            _log_response(response, logger.info if audited else logger.debug)
        if g.span:
            tracing.end_request(g.span, *measuring.method_and_route(request), response.status_code)
        return response

    @app.teardown_request
    def forget(_error: BaseException | None) -> None:
        log.unbind("request_id")


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


def _limited(
    settings: ApiSettings, client_of: Callable[[Mapping[str, Any]], str], inner: Wsgi
) -> Wsgi:
    """
    Limit the requests that the application handles at once to the number of request slots.

    Clients have them by address; callers, once they are known, by project or user. Reads, writes,
    and agents, which need no credentials, have slots of their own: reads go on while all writes
    wait for a commit.
    """
    readers = RequestSlots(settings.blocking_threads, settings.waiting_threads, QUEUED)
    writers = RequestSlots(settings.blocking_threads, settings.waiting_threads, QUEUED)
    machines = RequestSlots(AGENTS_AT_ONCE, AGENTS_QUEUED, AGENTS_QUEUED)

    def slots_of(environ: Mapping[str, Any]) -> RequestSlots:
        if is_of_agents(environ["PATH_INFO"]):
            return machines
        return readers if environ["REQUEST_METHOD"] in READS else writers

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        slots = slots_of(environ)
        try:
            with slots.hold(client_of(environ)):
                return inner(environ, start_response)
        except Busy as busy:
            return errors.service_error(busy, environ)(environ, start_response)

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
