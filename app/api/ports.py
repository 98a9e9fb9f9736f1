"""Ports."""

from collections.abc import Mapping
from typing import Any

from flask import Response
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.api import versions
from app.api.errors import Misaddressed
from app.api.node_identifiers import id_of
from app.api.parts import filtered
from app.api.portgroups import BELOW_NODES_SINCE, PORTGROUP
from app.api.resources import Resource
from app.api.routes import Routes
from app.api.schemas.common import FieldsQuery, NoQuery
from app.api.schemas.ports import VTEP_KEYS, PortChange, PortCreate, PortFilters
from app.errors import Forbidden, Invalid, NotAcceptable
from app.models import Node, Port, Portgroup
from app.services import ports as service
from app.services.idents import is_uuid

ports = Routes("ports", "The network interfaces of nodes")

Query = Mapping[str, Any]

_PORTS = Port.__table__.c
_GROUPS = Portgroup.__table__.c
PORT = Resource(
    name="port",
    path="ports",
    model=Port,
    short=("uuid", "address"),
    shown=(
        "uuid", "created_at", "updated_at", "address", "extra", "internal_info", "is_smartnic",
        "local_link_connection", "physical_network", "pxe_enabled", "node_uuid", "name",
        "description", "vendor", "category", "available_for_dynamic_portgroup", "links",
        "portgroup_uuid",
    ),
    joined={
        "node_uuid": Node.__table__.c.uuid,
        "portgroup_uuid":
            select(_GROUPS.uuid).where(_GROUPS.id == _PORTS.portgroup_id).scalar_subquery(),
    },
    source=lambda: Port.__table__.join(Node.__table__),
    named=versions.MIN,
)  # fmt: skip
CHANGE = PortChange()
#: The version from which the physical network of a port is that of its group.
GROUPED_SINCE = 102
#: Of these filters at most one can be given, and none of GROUPED along with `conductor_groups`.
WHOSE = ({"node", "node_uuid"}, {"portgroup"}, {"shard"})
GROUPED = {"node", "node_uuid", "portgroup", "address"}


def _list(query: Query, condition: Any = None, *, detail: bool = False) -> Response:
    """The ports that a query leaves, of those that meet a condition."""
    if sum(bool(names & query.keys()) for names in WHOSE) > 1:
        raise Forbidden("node, portgroup, shard: only one of them can be given")
    if "conductor_groups" in query and query.keys() & GROUPED:
        raise Invalid(
            "Filtering by conductor_groups cannot be combined with node_ident, portgroup_ident, or"
            " node_uuid: nor with address"
        )

    def narrow(selected: Select[Any]) -> Select[Any]:
        selected = filtered(selected, query, Port)
        if condition is not None:
            selected = selected.where(condition)
        if "portgroup" in query:
            selected = selected.where(_PORTS.portgroup_id == PORTGROUP.id_of(query["portgroup"]))
        if "description_contains" in query:
            part = query["description_contains"]
            selected = selected.where(_PORTS.description.contains(part, autoescape=True))
        return selected

    return PORT.listing(query, narrow, detail=detail)


@ports.at("GET", "/ports", query="ports", rule="baremetal:port:list")
@ports.arguments(PortFilters, location="query")
def list_ports(query: Query) -> Response:
    """List ports"""
    return _list(query)


@ports.at("GET", "/ports/detail", query="ports", rule="baremetal:port:list")
@ports.arguments(PortFilters, location="query")
def list_port_details(query: Query) -> Response:
    """List ports with all their fields"""
    return _list(query, detail=True)


@ports.at("GET", "/nodes/<ident>/ports", query="ports", rule="baremetal:port:list")
@ports.arguments(PortFilters, location="query")
def list_ports_of_node(query: Query, ident: str) -> Response:
    """List the ports of a node"""
    return _list(query, _PORTS.node_id == id_of(ident))


@ports.at("GET", "/nodes/<ident>/ports/detail", query="ports", rule="baremetal:port:list")
@ports.arguments(PortFilters, location="query")
def list_port_details_of_node(query: Query, ident: str) -> Response:
    """List the ports of a node with all their fields"""
    return _list(query, _PORTS.node_id == id_of(ident), detail=True)


@ports.at(
    "GET",
    "/portgroups/<ident>/ports",
    since=BELOW_NODES_SINCE,
    query="ports",
    rule="baremetal:port:list",
)
@ports.arguments(PortFilters, location="query")
def list_ports_of_portgroup(query: Query, ident: str) -> Response:
    """List the ports of a port group"""
    return _list(query, _PORTS.portgroup_id == PORTGROUP.id_of(ident))


@ports.at(
    "GET",
    "/portgroups/<ident>/ports/detail",
    since=BELOW_NODES_SINCE,
    query="ports",
    rule="baremetal:port:list",
)
@ports.arguments(PortFilters, location="query")
def list_port_details_of_portgroup(query: Query, ident: str) -> Response:
    """List the ports of a port group with all their fields"""
    return _list(query, _PORTS.portgroup_id == PORTGROUP.id_of(ident), detail=True)


ports.closed("/nodes/<ident>/ports")
ports.closed("/portgroups/<ident>/ports", BELOW_NODES_SINCE)


@ports.at("POST", "/ports", rule="baremetal:port:create")
@ports.arguments(PortCreate)
def create_port(fields: dict[str, Any]) -> Response:
    """Create a port"""
    versions.check_fields("port", fields)
    _check_link_version(fields)
    idents = [fields.pop(name) for name in ("node_uuid", "node_ident") if name in fields]
    if len(idents) != 1:
        raise Invalid("node_uuid or node_ident: exactly one of them is required")
    return PORT.create(lambda session: service.create(session, idents[0], fields))


def _check_link_version(values: Query) -> None:
    link = values.get("local_link_connection") or {}
    if "network_type" in link:
        versions.require(64, "network_type")
    if link.keys() & VTEP_KEYS and not 90 <= versions.current() < 105:
        raise NotAcceptable("local_link_connection: vtep keys are known from version 1.90 to 1.104")


@ports.at("GET", "/ports/<ident>", query="ports", rule="baremetal:port:get")
@ports.arguments(FieldsQuery, location="query")
def show_port(query: Query, ident: str) -> Response:
    """Show a port"""
    return PORT.show(query, ident)


@ports.at("PATCH", "/ports/<ident>", rule="baremetal:port:update")
@ports.arguments(NoQuery, location="query")
def change_port(_query: Query, ident: str) -> Response:
    """Change a port by a JSON patch"""
    version = versions.current()

    def apply(session: Session, port: Port, values: dict[str, Any]) -> None:
        _check_link_version(values)
        if "physical_network" in values and version >= GROUPED_SINCE and port.portgroup_id:
            raise Invalid("physical_network: change that of the port's group instead")
        service.change(session, port, values, inspecting_counts=version >= 39)

    return PORT.change(ident, CHANGE, apply)


@ports.at("DELETE", "/ports/<ident>", rule="baremetal:port:delete")
@ports.arguments(NoQuery, location="query")
def delete_port(_query: Query, ident: str) -> Response:
    """Forget a port"""
    if not is_uuid(ident):
        raise Misaddressed(f"Expected UUID for port_uuid: {ident}")
    return PORT.delete(ident, service.remove)
