"""Routes of the ramdisk agents: lookup, heartbeat, inspection data. They need no authentication."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import orjson
from flask import Response, request
from marshmallow import INCLUDE
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

from app.agents import heartbeats, inspection_report
from app.agents import lookup as service
from app.api.declarations import versions
from app.api.declarations.public_paths import HEARTBEAT, LOOKUP, REPORT, is_of_agents
from app.api.node import node_view
from app.api.node.node_identifiers import key_of
from app.api.node.node_shapes import NODE
from app.api.openapi.returns import ACCEPTED, Returns
from app.api.openapi.shapes import DOCUMENT, UUID, Component, exactly
from app.api.request import repeats
from app.api.request.context import Fields, Query, RequestContext
from app.api.request.routes import Routes, View
from app.api.schemas.agents import Heartbeat, LookupQuery, NamedHeartbeat
from app.api.schemas.inspection import Report, ReportQuery
from app.api.transport.request_body import DEFAULT_LIMIT
from app.api.transport.responses import empty, json
from app.broker.refused_lookups import MOST_MACS
from app.config.settings import Settings
from app.db.clock import moment
from app.db.transactions import retrying
from app.engine.records import agent_refusals
from app.errors import AgentRefused, Invalid, NodeLocked, NotFound, ServiceError
from app.observe import log

seldom = log.RateLimited(log.get(__name__))
agents = Routes("agents", "Requests of the ramdisk agents")

#: Path -> kind of its requests; all others are heartbeats.
_KINDS = {LOOKUP: agent_refusals.LOOKUP, REPORT: agent_refusals.REPORT}
#: Minor version of `continue_inspection`; requests without a version are accepted as well.
INSPECTION_SINCE = 84
HEARTBEAT_SINCE = 22
#: Field of a heartbeat -> minor version that introduced it.
SINCE = {
    "agent_version": 36, "agent_token": 62, "agent_verify_ca": 68, "agent_status": 72,
    "agent_status_message": 72,
}  # fmt: skip
#: Characters of the column for the address of a lookup.
LONGEST_ADDRESS = 64
#: Management interfaces of nodes whose BMC has its address in `driver_info`.
_WITH_BMC_ADDRESS = ("redfish", "idrac-redfish")
SHOWN = ("uuid", "properties", "instance_info", "driver_internal_info")

AGENT_SETTINGS = Component("AgentSettings", exactly({"node": NODE, "config": DOCUMENT}))


def _noted(kind: str) -> Callable[[View], View]:
    """Note the requests of a kind that are refused after routing, for any cause."""

    def decorate(view: View) -> View:
        @wraps(view)
        def noting(context: RequestContext, *args: object, **kwargs: Any) -> Response:
            try:
                answer: Response = view(context, *args, **kwargs)
            except NodeLocked:  # the agent tries again
                context.audit.explain("locked", kwargs.get("ident"))
                raise
            except (ServiceError, HTTPException) as error:
                context.refusal_noted = True
                ident = getattr(error, "node", None) or kwargs.get("ident")
                context.audit.explain(
                    _cause_of(error), None if isinstance(error, NotFound) else ident
                )
                _note(context, kind, _cause_of(error), _words_of(error), ident)
                raise
            return answer

        return noting

    return decorate


def note_unrouted(context: RequestContext, response: Response) -> None:
    """Note a request of an agent that was refused before its route, such as for its API version."""
    path, status = request.path, response.status_code
    is_refused = 400 <= status < 500 and status != NodeLocked.status  # then the agent tries again
    if context.refusal_noted or not is_refused or not is_of_agents(path):
        return
    kind = _KINDS.get(path, agent_refusals.HEARTBEAT)
    node = path.removeprefix(HEARTBEAT) if kind == agent_refusals.HEARTBEAT else None
    words = f"{status} {HTTP_STATUS_CODES.get(status, '')}: {response.get_data(as_text=True)}"
    _note(context, kind, "malformed", words, node)


def _note(context: RequestContext, kind: str, cause: str, words: str, node: str | None) -> None:
    refusal = agent_refusals.Refusal(kind, cause, words, _address(context), node)
    agent_refusals.note(context.runtime, refusal)


def _cause_of(error: Exception) -> str:
    if isinstance(error, AgentRefused):
        return error.cause
    if isinstance(error, service.LookupRefused) and error.node:
        return "state"
    return "node" if isinstance(error, NotFound) else "malformed"


def _words_of(error: Exception) -> str:
    """Return the words for operators; those for callers do not tell why a lookup is refused."""
    if isinstance(error, HTTPException):  # of the parser of arguments
        return str(getattr(error, "data", {}).get("messages") or error.description)
    return error.reason if isinstance(error, service.LookupRefused) else str(error)


@agents.declare("GET", "/lookup", since=22, returns=AGENT_SETTINGS)
@_noted(agent_refusals.LOOKUP)
@agents.arguments(LookupQuery, location="query")
def look_up(context: RequestContext, query: Query) -> Response:
    """
    Look up the node of a machine; return it, the agent's settings and its token

    The token is part of every version: an agent that could not read the API's versions uses 1.31,
    and its heartbeats are refused without the token.
    """
    settings = context.runtime.settings
    if not settings.api.enable_ramdisk_endpoints:
        raise NotFound("node", "lookup")
    macs = [
        mac for address in query.get("addresses", ()) if (mac := service.normalize_mac(address))
    ]
    if not macs and "node_uuid" not in query:
        raise Invalid("At least one of 'addresses' and 'node_uuid' parameters is required")

    def work() -> tuple[str, str | None, str | None]:
        with context.runtime.transaction() as session:
            node, token = service.lookup(session, macs, query.get("node_uuid"), _sender(context))
            return node.uuid, token, node.management_interface

    try:
        uuid, token, management = retrying(work)
        if token == service.WITHHELD:
            words = "its token was given to an earlier lookup"
            _note(context, agent_refusals.LOOKUP, "repeated", words, uuid)
        return json(_lookup_document(context, uuid, token, management))
    except service.LookupRefused as refused:
        _record_refusal(context, refused, macs)
        raise


def _record_refusal(
    context: RequestContext, refusal: service.LookupRefused, macs: list[str]
) -> None:
    """Log a refused lookup, at a limited rate, and store it for `/why`."""
    address, refusals = _address(context)[-LONGEST_ADDRESS:], context.runtime.refusals
    seldom.warning(
        "lookup.refused",
        macs=macs[:MOST_MACS],
        address=address,
        node=refusal.node,
        why=refusal.reason,
    )
    if refusals is not None and (macs or refusal.node):
        with context.runtime.reading() as session:
            refusals.note(macs, address, refusal.reason, refusal.node, moment(session))


def _address(context: RequestContext) -> str:
    """Return the address of the sender; headers count only if a trusted proxy has set them."""
    return context.services.limits.clients.address_of(request.environ)


def _sender(context: RequestContext) -> str | None:
    """Return the address to which a repeated lookup may give the token again, if there is one."""
    return context.services.limits.clients.sender_of(request.environ)


def _lookup_document(
    context: RequestContext, uuid: str, token: str | None, management: str | None
) -> dict[str, object]:
    """
    Return a machine's node and the settings of its agent.

    The image is left out: callers are unauthenticated, and an agent gets it with the command.
    """
    node = orjson.loads(orjson.dumps(node_view.one(context, ("uuid", uuid), SHOWN)))
    node["driver_internal_info"].pop("image", None)
    return {"node": node, "config": config(context.runtime.settings, token, management)}


def config(settings: Settings, token: str | None, management: str | None) -> dict[str, object]:
    """Return the agent's settings. management: the node's management interface, None if unset."""
    return {
        "heartbeat_timeout": settings.api.ramdisk_heartbeat_timeout,
        "agent_token": token,
        "agent_token_required": True,
        "agent_md5_checksum_enable": settings.agent.allow_md5_checksum,
        "agent_skip_bmc_detect": management in _WITH_BMC_ADDRESS,
        "disable_deep_image_inspection": settings.conductor.disable_deep_image_inspection,
        "permitted_image_formats": settings.conductor.permitted_image_formats,
        "enable_bios_bootloader_install": settings.agent.enable_bios_bootloader_install,
        "tls_min_version": settings.agent.tls_minimum_version,
        "tls_cipher_suites": settings.agent.tls_ciphers,
        "agent_containers": {
            "allow_arbitrary_containers": False,
            "allowed_containers": [],
            "container_steps_file": "/etc/ironic-python-agent.d/mysteps.yaml",
            "runner": "podman",
            "pull_options": [],
            "run_options": ["--rm", "--network=host"],
        },
        "metrics": {
            "backend": "noop",
            "prepend_host": False,
            "prepend_uuid": False,
            "prepend_host_reverse": True,
            "global_prefix": None,
        },
        "metrics_statsd": {"statsd_host": "localhost", "statsd_port": 8125},
    }


@agents.declare(
    "POST",
    "/heartbeat/<ident>",
    since=HEARTBEAT_SINCE,
    returns=ACCEPTED,
    no_key=repeats.OF_AGENTS,
)
@_noted(agent_refusals.HEARTBEAT)
@agents.arguments(Heartbeat, location="json_or_query")
def heartbeat(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Record the heartbeat of a node's agent, and resume the operation that waits for it"""
    return heartbeat_of(context, ident, fields)


@agents.declare(
    "POST", "/heartbeat", since=HEARTBEAT_SINCE, returns=ACCEPTED, no_key=repeats.OF_AGENTS
)
@_noted(agent_refusals.HEARTBEAT)
@agents.arguments(NamedHeartbeat, location="json_or_query")
def heartbeat_of_named_node(context: RequestContext, fields: Fields) -> Response:
    """Record the heartbeat of the node that the body names; only with authentication"""
    return heartbeat_of(context, fields.pop("node_ident"), fields)


def heartbeat_of(context: RequestContext, ident: str, fields: Mapping[str, Any]) -> Response:
    """
    Record a heartbeat.

    Raises Invalid, Misaddressed, NodeLocked, NotFound.
    """
    key_of(context, ident)
    check(context.runtime.settings, ident, fields, context.version)
    heartbeats.heartbeat(context.runtime, ident, fields)
    return empty(202)


def check(settings: Settings, ident: str, fields: Mapping[str, object], minor: int) -> None:
    """
    Check that heartbeats are enabled, and that the API version has the fields of this one.

    Raises Invalid, NotFound.
    """
    if minor < HEARTBEAT_SINCE or not settings.api.enable_ramdisk_endpoints:
        raise NotFound("node", ident)
    for name, since in SINCE.items():
        if minor < since and fields.get(name) is not None:
            raise Invalid(f'Field "{name}" not recognised: it needs API version 1.{since}')


def _expected_if_large(view: View) -> View:
    """Refuse a large report before it is parsed, unless a node is inspected."""

    @wraps(view)
    def checked(context: RequestContext, *args: object, **kwargs: object) -> Response:
        if (request.content_length or 0) > DEFAULT_LIMIT:
            inspection_report.check_expected(context.runtime)
        answer: Response = view(context, *args, **kwargs)
        return answer

    return checked


@agents.declare(
    "POST",
    "/continue_inspection",
    returns=Returns({202: {"anyOf": [exactly({"uuid": UUID}), AGENT_SETTINGS]}}),
    no_key=repeats.OF_AGENTS,
)
@_noted(agent_refusals.REPORT)
@_expected_if_large
@agents.arguments(ReportQuery, location="query")
@agents.arguments(Report, unknown=INCLUDE)
def continue_inspection(context: RequestContext, query: Query, report: dict[str, Any]) -> Response:
    """Record inspection data from the agent of a node"""
    is_current = context.version >= INSPECTION_SINCE
    if not is_current and (context.version != versions.MIN or "node_uuid" in query):
        raise NotFound("route", "", f"API version 1.{INSPECTION_SINCE} or newer is required")
    if not context.runtime.settings.api.enable_ramdisk_endpoints:
        raise NotFound("route", "POST /v1/continue_inspection")
    interfaces = report["inventory"]["interfaces"]
    macs = [
        mac for interface in interfaces if (mac := service.normalize_mac(interface["mac_address"]))
    ]

    def work() -> tuple[str, str | None, str | None]:
        with context.runtime.transaction() as session:
            node, token = inspection_report.receive(
                session,
                report,
                macs,
                query.get("node_uuid"),
                with_token=is_current,
                caller=_sender(context),
            )
            return node.uuid, token, node.management_interface

    uuid, token, management = retrying(work)
    return json(
        _lookup_document(context, uuid, token, management) if is_current else {"uuid": uuid}, 202
    )
