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
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import flask_smorest
from flask import Flask, Request, Response, request
from flask.globals import request_ctx
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.exceptions import NotFound as NoSuchRoute
from werkzeug.http import HTTP_STATUS_CODES

from app import ui
from app.api.agent import heartbeat_fast_path
from app.api.agent.agents import agents, note_unrouted
from app.api.agent.bmc_events import bmc_events
from app.api.authentication import strategies
from app.api.authentication.passwords import PasswordChecks, password_checks
from app.api.declarations import versions
from app.api.declarations.public_paths import (
    BMC_EVENTS,
    is_of_agents,
    is_of_bmcs,
    without_secret,
)
from app.api.feed.followers import Followers
from app.api.fleet.audit import audit
from app.api.fleet.change_events import change_events
from app.api.fleet.conductors import conductors
from app.api.fleet.drivers import drivers
from app.api.fleet.events import events
from app.api.fleet.fleet_operations import fleet_operations
from app.api.fleet.permissions import permissions
from app.api.fleet.provision_states import provision_states
from app.api.fleet.rollouts import rollouts
from app.api.fleet.service import service
from app.api.fleet.shards import shards
from app.api.node.console.consoles import consoles
from app.api.node.event_subscription import event_subscription
from app.api.node.hardware import hardware
from app.api.node.machine_states import machine_states
from app.api.node.management import management
from app.api.node.node_states import node_states
from app.api.node.nodes import nodes
from app.api.node.operations import operations
from app.api.node.records.agent_logs import agent_logs
from app.api.node.records.benchmarks import benchmarks
from app.api.node.records.bmc_documents import bmc_documents
from app.api.node.records.bmc_recordings import bmc_recordings
from app.api.node.records.history import history
from app.api.node.records.sanitation import sanitation
from app.api.node.refreshes import refreshes
from app.api.node.steps import steps
from app.api.node.switch_ports import switch_ports
from app.api.node.traits import traits
from app.api.node.vendor import vendor
from app.api.node.vifs import vifs
from app.api.node.why import why
from app.api.policy import file as policy
from app.api.request import auditing, error_handlers, routes
from app.api.request.context import RequestContext, Services, begin, current
from app.api.request.parsing import Json
from app.api.request.routes import Route
from app.api.resource.allocations import allocations
from app.api.resource.baselines import baselines
from app.api.resource.chassis import chassis
from app.api.resource.holds import holds
from app.api.resource.inspection_rules import inspection_rules
from app.api.resource.networks import networks
from app.api.resource.portgroups import portgroups
from app.api.resource.ports import ports
from app.api.resource.quotas import quotas
from app.api.resource.runbooks import runbooks
from app.api.resource.templates import templates
from app.api.resource.volumes import volumes
from app.api.resource.webhooks import webhooks
from app.api.transport import errors, host_check, measuring, request_body
from app.api.transport.host_check import Sites
from app.api.transport.limits import Limits
from app.api.transport.responses import JSON, json
from app.api.web import document, page_facts, page_files, root
from app.api.web.login import login
from app.config.settings import Api as ApiSettings
from app.errors import Invalid, NotAcceptable
from app.inventory.bmc_events import Receiver
from app.observe import log
from app.process import tracing
from app.requests.request_slots import Busy, RequestSlots, take_turn
from app.runtime import Runtime

logger = log.get(__name__)

BLUEPRINTS = (
    root.root, nodes, node_states, ports, drivers, conductors, operations, history, agents,
    traits, templates, runbooks, allocations, shards, events, steps, why,
    management, machine_states, consoles, vendor, hardware, portgroups, chassis, volumes, vifs,
    inspection_rules, change_events, webhooks, holds, audit, rollouts, provision_states,
    fleet_operations, service, login, bmc_documents, bmc_recordings,
    agent_logs, refreshes, sanitation, networks, switch_ports, baselines, quotas, permissions,
    bmc_events, event_subscription, benchmarks,
)  # fmt: skip
#: Requests of agents, and of BMCs, that a process handles at once, and those that may wait.
AGENTS_AT_ONCE, AGENTS_QUEUED = 2, 64
#: Requests of users that may wait for a request slot in a process.
QUEUED = 256
#: Excluded from the audit log: read-only methods, and the frequent requests of machines.
READS, FREQUENT = ("GET", "HEAD", "OPTIONS"), ("/v1/heartbeat", BMC_EVENTS)
#: Most characters of a header in the log.
LONGEST_HEADER = 200
#: Path -> view of the pages: the documentation, and the page of operators.
PAGES = {
    **page_files.views("/docs", Path(document.__file__).parent, "page.html"),
    **page_files.views(
        "/ui",
        Path(ui.__file__).parent,
        "index.html",
        "main.js",
        "vnc.js",
        facts=page_facts.encoded(),
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
    checks = password_checks(runtime.settings.api)
    request_limits = Limits(runtime.settings.api)
    services = Services(
        runtime,
        policy.make(runtime.settings),
        strategies.make(runtime, checks),
        request_limits,
        Followers(runtime, request_limits),
        auditing.refused_requests(runtime),
        Receiver(runtime),
    )
    services.install(app)
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
    error_handlers.register(app)
    _register_hooks(app, Sites(runtime.settings))
    app.wsgi_app = _middleware(services, app.wsgi_app, checks)  # type: ignore[method-assign, assignment]
    return app


def _middleware(
    services: Services, wsgi: WSGIApplication, checks: PasswordChecks
) -> WSGIApplication:
    """Return the application within its middleware; the last one sees a request first."""
    settings, client_of = services.runtime.settings.api, services.limits.clients.key_of
    wsgi = _limited(settings, client_of, wsgi)
    wsgi = heartbeat_fast_path.middleware(services.runtime, wsgi)
    wsgi = request_body.middleware(settings.body_timeout, client_of, wsgi)
    wsgi = checks.middleware(services.limits.middleware(wsgi))
    wsgi = _under_v1(wsgi)
    return measuring.middleware(host_check.with_headers(wsgi))


class Application(Flask):
    """
    Flask with two changes.

    No handler is a coroutine, so `ensure_sync`, which Flask calls five times per request, is the
    identity. A route that is newer than the request's API version is not found with any method.
    """

    def raise_routing_exception(self, request: Request) -> NoReturn:
        is_refused = isinstance(request.routing_exception, MethodNotAllowed)
        if is_refused and routes.hidden(current().version):
            raise NoSuchRoute
        super().raise_routing_exception(request)

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func


class Api(flask_smorest.Api):  # type: ignore[misc]
    """OpenAPI document of the routes; errors keep Ironic's shape instead of flask-smorest's."""

    outside: Sequence[Route] = ()  # routes outside of the blueprints

    @cached_property
    def document(self) -> dict[str, Any]:
        documents = (blueprint.declared for blueprint in BLUEPRINTS)
        return document.document(self.spec, chain(self.outside, *documents))

    @cached_property
    def _encoded(self) -> bytes:
        return json(self.document).get_data()

    def _openapi_json(self) -> Response:
        return Response(self._encoded, content_type=JSON)

    def _register_error_handlers(self) -> None:
        pass


def _register_hooks(app: Flask, allowed_sites: Sites) -> None:
    """Register the hooks before and after every request."""

    @app.before_request
    def identify() -> Response | None:
        request = request_ctx.request
        context = begin(request)
        log.bind(request_id=context.request_id)
        measuring.note_route(request)
        try:
            context.version = versions.negotiate(request.headers)
        except NotAcceptable as error:
            if request.path == "/":
                return errors.answer(406, str(error))
            return errors.unrouted(406, HTTP_STATUS_CODES[406], str(error))
        context.unrouted = False
        _check_address(request)
        allowed_sites.check(request)
        context.authenticate()
        take_turn(context.caller.tenant)
        return None

    @app.after_request
    def sign(response: Response) -> Response:
        context = current()
        note_unrouted(context, response)
        response = auditing.finish(context, response)
        headers = response.headers
        if request.method == "OPTIONS":
            del headers["Content-Type"]  # the answer has no content
        version = None if context.unrouted else context.version
        cached = "Cache-Control" in headers
        headers.extend(versions.signature(context.request_id, version, cached=cached))
        audited = request.method not in READS and not request.path.startswith(FREQUENT)
        if audited or log.debugging():
            _log_response(context, response, logger.info if audited else logger.debug)
        if context.span:
            tracing.end_request(
                context.span, *measuring.method_and_route(request), response.status_code
            )
        return response

    @app.teardown_request
    def forget(_error: BaseException | None) -> None:
        log.unbind("request_id")


def _log_response(context: RequestContext, response: Response, write: Callable[..., Any]) -> None:
    """Log the caller, the request and the status of its answer."""
    forwarded = request.headers.get("X-Forwarded-For")
    write(
        "request.answered",
        user=context.caller.user_id,
        address=request.remote_addr,
        **({"forwarded_for": forwarded[:LONGEST_HEADER]} if forwarded else {}),
        method=request.method,
        path=without_secret(request.path),
        status=response.status_code,
        ms=round((time.perf_counter() - context.started) * 1000, 1),
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
    settings: ApiSettings, client_of: Callable[[Mapping[str, Any]], str], inner: WSGIApplication
) -> WSGIApplication:
    """
    Limit the requests that the application handles at once to the number of request slots.

    Clients have them by address; callers, once they are known, by project or user. Reads, writes,
    agents and BMCs, which need no credentials, have slots of their own: reads go on while all
    writes wait for a commit.
    """
    readers = RequestSlots(
        settings.blocking_threads,
        settings.waiting_threads,
        QUEUED,
        # long lists take processor time, and threads share one processor: leave some to others
        per_caller=max(1, settings.blocking_threads - 1),
    )
    writers = RequestSlots(settings.blocking_threads, settings.waiting_threads, QUEUED)
    of_agents = RequestSlots(AGENTS_AT_ONCE, AGENTS_QUEUED, AGENTS_QUEUED)
    of_bmcs = RequestSlots(AGENTS_AT_ONCE, AGENTS_QUEUED, AGENTS_QUEUED)

    def slots_of(environ: Mapping[str, Any]) -> RequestSlots:
        if is_of_agents(environ["PATH_INFO"]):
            return of_agents
        if is_of_bmcs(environ["PATH_INFO"]):
            return of_bmcs
        return readers if environ["REQUEST_METHOD"] in READS else writers

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        slots = slots_of(environ)
        try:
            with slots.hold(client_of(environ)):
                return inner(environ, start_response)
        except Busy as busy:
            return errors.service_error(busy, environ)(environ, start_response)

    return serve


def _under_v1(inner: WSGIApplication) -> WSGIApplication:
    """
    Rewrite a path to its canonical form below /v1, as `/nodes/` to `/v1/nodes`.

    The version may be missing; one trailing slash is removed; older clients name the node last.
    Below API version 1.91, a `.json` suffix is removed where Ironic's own header selects the
    version.
    """

    def canonical(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ[errors.ORIGINAL_PATH] = environ.get("PATH_INFO") or "/"
        if len(path) > 1 and path.endswith("/"):
            path = path[:-1]
        if path.endswith(".json") and path not in UNVERSIONED and versions.drops_suffix(environ):
            path = path.removesuffix(".json")
            environ[versions.DROPPED] = True
        if path not in UNVERSIONED and path != "/v1" and not path.startswith("/v1/"):
            path = f"/v1{path}"
        if match := NODE_LAST.fullmatch(path):
            resource, ident, subpath = match.groups(default="")
            path = f"/v1/nodes/{ident}/{resource}{subpath}"
        environ["PATH_INFO"] = path
        return inner(environ, start_response)

    return canonical
