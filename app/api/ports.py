"""Ports."""

from collections.abc import Mapping
from typing import Any

from flask import Response, request
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.api import versions
from app.api.answers import empty, runtime
from app.api.nodes import identified, patched
from app.api.resources import Resource
from app.api.routes import Routes, body
from app.api.schemas.common import FieldsQuery, NoQuery
from app.api.schemas.ports import VTEP_KEYS, PortChange, PortCreate, PortFilters
from app.errors import Forbidden, Invalid, NotFound
from app.models import Node, Port
from app.services import nodes as node_service
from app.services import patch
from app.services import ports as service

ports = Routes("ports", "The network interfaces of nodes")

Query = Mapping[str, Any]

PORT = Resource(
    name="port",
    path="ports",
    model=Port,
    short=("uuid", "address"),
    plain=(
        "uuid", "address", "name", "extra", "internal_info", "local_link_connection",
        "pxe_enabled", "physical_network", "is_smartnic", "description", "vendor", "category",
        "available_for_dynamic_portgroup", "created_at", "updated_at",
    ),
    joined={"node_uuid": Node.__table__.c.uuid},
    source=lambda: Port.__table__.join(Node.__table__),
    computed={"portgroup_uuid": lambda _row, _base: None},
    named=88,
)  # fmt: skip
CHANGE = PortChange()
CHANGEABLE = frozenset(CHANGE.fields)


@ports.at("GET", "/ports", query="ports")
@ports.arguments(PortFilters, location="query")
def list_ports(query: Query) -> Response:
    """List ports"""
    return PORT.listing(query, lambda selected: _filtered(selected, query))


@ports.at("GET", "/ports/detail", query="ports")
@ports.arguments(PortFilters, location="query")
def list_port_details(query: Query) -> Response:
    """List ports with all their fields"""
    return PORT.details(query, lambda selected: _filtered(selected, query))


@ports.at("GET", "/nodes/<ident>/ports", query="ports")
@ports.arguments(PortFilters, location="query")
def list_ports_of_node(query: Query, ident: str) -> Response:
    """List the ports of a node"""
    with runtime().reading() as session:
        node_id = session.scalar(select(Node.id).where(identified(ident)))
    if node_id is None:
        raise NotFound("node", ident)
    return PORT.listing(
        query, lambda selected: _filtered(selected, query).where(Port.node_id == node_id)
    )


def _filtered(selected: Select[Any], query: Query) -> Select[Any]:
    if ("node" in query or "node_uuid" in query) and "shard" in query:
        raise Forbidden("Ask for the ports of a node or of a shard, not of both.")
    if "conductor_groups" in query and query.keys() & {"node", "node_uuid", "address"}:
        raise Invalid("conductor_groups: cannot be combined with node or address")
    for name in ("node", "node_uuid"):
        if name in query:
            selected = selected.where(node_service.identified(query[name]))
    if "address" in query:
        selected = selected.where(Port.address == query["address"])
    if "shard" in query:
        selected = selected.where(Node.shard.in_(query["shard"].split(",")))
    if "conductor_groups" in query:
        groups = [group.lower() for group in query["conductor_groups"]] or [""]
        selected = selected.where(Node.conductor_group.in_(groups))
    if "description_contains" in query:
        part = query["description_contains"]
        selected = selected.where(Port.description.contains(part, autoescape=True))
    return selected


@ports.at("POST", "/ports")
@ports.arguments(PortCreate)
def create_port(fields: dict[str, Any]) -> Response:
    """Create a port"""
    versions.check_body("port", fields)
    _check_link_version(fields)
    idents = [fields.pop(name) for name in ("node_uuid", "node_ident") if name in fields]
    if len(idents) != 1:
        raise Invalid("node_uuid or node_ident: exactly one of them is required")
    uuid = node_service.when_free(
        runtime(), lambda session: service.create(session, idents[0], fields).uuid
    )
    return PORT.created(uuid)


def _check_link_version(values: Query) -> None:
    link = values.get("local_link_connection") or {}
    if "network_type" in link:
        versions.require(64, "network_type")
    if link.keys() & VTEP_KEYS and not 90 <= versions.current() < 105:
        raise Invalid("local_link_connection: vtep keys are known from version 1.90 to 1.104")


@ports.at("GET", "/ports/<ident>", query="ports")
@ports.arguments(FieldsQuery, location="query")
def show_port(query: Query, ident: str) -> Response:
    """Show a port"""
    return PORT.show(query, ident)


@ports.at("PATCH", "/ports/<ident>")
@ports.arguments(NoQuery, location="query")
def change_port(_query: Query, ident: str) -> Response:
    """Change a port by a JSON patch"""
    version = versions.current()
    changes = patch.parse(body(request), CHANGEABLE, escapes=version >= 98)
    for each in changes:
        versions.require(versions.since("port", each.field), f"field {each.field}")

    def work(session: Session) -> str:
        port = PORT.find(session, ident)
        if changes:
            values = patched(CHANGE, port, changes)
            _check_link_version(values)
            service.change(session, port, values, inspecting_counts=version >= 39)
        return port.uuid

    return PORT.changed(node_service.when_free(runtime(), work))


@ports.at("DELETE", "/ports/<ident>")
@ports.arguments(NoQuery, location="query")
def delete_port(_query: Query, ident: str) -> Response:
    """Forget a port"""
    if not node_service.is_uuid(ident):
        raise Invalid(f"Expected a UUID but received {ident!r}.")
    node_service.when_free(
        runtime(),
        lambda session: service.remove(session, service.find(session, ident, by_name=False)),
    )
    return empty(204)
