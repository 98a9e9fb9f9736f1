"""
What ramdisk agents call: lookup, heartbeat, and what they found. Anybody may, without
authentication.
"""

from collections.abc import Mapping
from typing import Any

from flask import Response, request
from marshmallow import INCLUDE

from app import log
from app.agents import heartbeats, inspection_report
from app.agents import lookup as service
from app.api import node_view, versions
from app.api.answers import empty, json, runtime
from app.api.node_identifiers import key_of
from app.api.node_shapes import NODE
from app.api.openapi.returns import ACCEPTED, Returns
from app.api.openapi.shapes import DOCUMENT, UUID, Component, exactly
from app.api.routes import Routes
from app.api.schemas.agents import Heartbeat, LookupQuery, NamedHeartbeat
from app.api.schemas.inspection import Report, ReportQuery
from app.config.settings import Settings
from app.db.transactions import retrying
from app.errors import Invalid, NotFound
from app.kit.refused_lookups import MOST_MACS

seldom = log.Seldom(log.get(__name__))
agents = Routes("agents", "What the ramdisk agents of machines call")

#: Agents post what they found without a version: the oldest one does, and those that know of it.
INSPECTION_SINCE = 84
HEARTBEAT_SINCE = 22
#: key of a heartbeat -> minor version that it appeared in
SINCE = {
    "agent_version": 36, "agent_token": 62, "agent_verify_ca": 68, "agent_status": 72,
    "agent_status_message": 72,
}  # fmt: skip
SHOWN = ("uuid", "properties", "instance_info", "driver_internal_info")

AGENT_SETTINGS = Component("AgentSettings", exactly({"node": NODE, "config": DOCUMENT}))


@agents.at("GET", "/lookup", since=22, returns=AGENT_SETTINGS)
@agents.arguments(LookupQuery, location="query")
def look_up(query: Mapping[str, Any]) -> Response:
    """
    Tell a machine which node it is, and give its agent a token

    In each version: an agent that could not ask which ones there are speaks 1.31, and would never
    be heard without its token.
    """
    settings = runtime().settings
    if not settings.api.enable_ramdisk_endpoints:
        raise NotFound("node", "lookup")
    macs = [mac for each in query.get("addresses", ()) if (mac := service.normal_mac(each))]
    if not macs and "node_uuid" not in query:
        raise Invalid("At least one of 'addresses' and 'node_uuid' parameters is required")

    def work() -> tuple[str, str | None, str | None]:
        with runtime().transaction() as session:
            node, token = service.lookup(session, macs, query.get("node_uuid"), _caller())
            return node.uuid, token, node.management_interface

    try:
        return json(_told(*retrying(work)))
    except service.LookupRefused as refused:
        _note(refused, macs)
        raise


def _note(refused: service.LookupRefused, macs: list[str]) -> None:
    """A refused lookup is logged, now and then, and kept for those who ask why a node waits."""
    address, refusals = _caller(), runtime().refusals
    seldom.warning(
        "lookup.refused", macs=macs[:MOST_MACS], address=address, node=refused.node, why=refused.why
    )
    if refusals is not None and (macs or refused.node):
        refusals.note(macs, address, refused.why, refused.node)


def _caller() -> str:
    """
    Where a request comes from. Behind proxies all come from one address, so what those say of it
    counts as well; the end of it is what the last of them has seen, and nobody else can say.
    """
    seen = [*request.headers.getlist("X-Forwarded-For"), request.remote_addr or ""]
    return ",".join(seen)[-64:]


def _told(uuid: str, token: str | None, management: str | None) -> dict[str, Any]:
    """What a machine is told about itself, and its agent about how to behave."""
    node = node_view.one(("uuid", uuid), SHOWN)
    return {"node": node, "config": config(runtime().settings, token, management)}


def config(settings: Settings, token: str | None, management: str | None) -> dict[str, Any]:
    """What an agent is told about how to behave."""
    return {
        "heartbeat_timeout": settings.api.ramdisk_heartbeat_timeout,
        "agent_token": token,
        "agent_token_required": True,
        "agent_md5_checksum_enable": settings.agent.allow_md5_checksum,
        "agent_skip_bmc_detect": (management or "").startswith("redfish"),
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


@agents.at("POST", "/heartbeat/<ident>", since=HEARTBEAT_SINCE, returns=ACCEPTED)
@agents.arguments(Heartbeat, location="json_or_query")
def heartbeat(sign: dict[str, Any], ident: str) -> Response:
    """Record that the agent of a node is alive, and wake what waits for it"""
    return heartbeat_of(ident, sign)


@agents.at("POST", "/heartbeat", since=HEARTBEAT_SINCE, returns=ACCEPTED)
@agents.arguments(NamedHeartbeat, location="json_or_query")
def heartbeat_of_named_node(sign: dict[str, Any]) -> Response:
    """Record the heartbeat of the node that the body names; only with authentication"""
    return heartbeat_of(sign.pop("node_ident"), sign)


def heartbeat_of(ident: str, sign: Mapping[str, Any]) -> Response:
    """What the agent of a node is answered. Raises Invalid, Misaddressed, NodeLocked, NotFound."""
    key_of(ident)
    check(runtime().settings, ident, sign, versions.current())
    heartbeats.heartbeat(runtime(), ident, sign)
    return empty(202)


def check(settings: Settings, ident: str, sign: Mapping[str, Any], minor: int) -> None:
    """Whether this is a sign of life in the request's version. Raises Invalid, NotFound."""
    if minor < HEARTBEAT_SINCE or not settings.api.enable_ramdisk_endpoints:
        raise NotFound("node", ident)
    for name, since in SINCE.items():
        if minor < since and sign.get(name) is not None:
            raise Invalid(f'Field "{name}" not recognised: it needs API version 1.{since}')


@agents.at(
    "POST",
    "/continue_inspection",
    returns=Returns({202: {"anyOf": [exactly({"uuid": UUID}), AGENT_SETTINGS]}}),
)
@agents.arguments(Report, unknown=INCLUDE)
@agents.arguments(ReportQuery, location="query")
def continue_inspection(report: dict[str, Any], query: Mapping[str, Any]) -> Response:
    """Take what the agent of a node that is being inspected has found"""
    knows = versions.current() >= INSPECTION_SINCE
    if not knows and (versions.current() != versions.MIN or "node_uuid" in query):
        raise NotFound("route", "", f"API version 1.{INSPECTION_SINCE} or newer is required")
    if not runtime().settings.api.enable_ramdisk_endpoints:
        raise NotFound("route", "POST /v1/continue_inspection")
    found = report["inventory"]["interfaces"]
    macs = [mac for each in found if (mac := service.normal_mac(each["mac_address"]))]

    def work() -> tuple[str, str | None, str | None]:
        with runtime().transaction() as session:
            node, token = inspection_report.receive(
                session,
                report,
                macs,
                query.get("node_uuid"),
                with_token=knows,
                caller=_caller(),
            )
            return node.uuid, token, node.management_interface

    uuid, token, management = retrying(work)
    return json(_told(uuid, token, management) if knows else {"uuid": uuid}, 202)
