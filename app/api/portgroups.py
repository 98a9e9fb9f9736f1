"""Port groups."""

from collections.abc import Mapping
from typing import Any

from flask import Response
from sqlalchemy import Select
from sqlalchemy.orm import Session

from app.api import versions
from app.api.node_identifiers import id_of
from app.api.parts import filtered
from app.api.resources import Resource
from app.api.routes import Routes
from app.api.schemas.common import FieldsQuery, NoQuery
from app.api.schemas.portgroups import PortgroupChange, PortgroupCreate, PortgroupFilters
from app.errors import Invalid
from app.models import Node, Portgroup
from app.services import portgroups as service

portgroups = Routes("portgroups", "Ports of a node that are used as one")

Query = Mapping[str, Any]

SINCE = 23
BELOW_NODES_SINCE = 24
PORTGROUP = Resource(
    name="portgroup",
    path="portgroups",
    model=Portgroup,
    short=("uuid", "name", "address"),
    shown=(
        "uuid", "created_at", "updated_at", "address", "extra", "internal_info", "mode", "name",
        "properties", "standalone_ports_supported", "node_uuid", "physical_network", "category",
        "dynamic_portgroup", "links", "ports",
    ),
    joined={"node_uuid": Node.__table__.c.uuid},
    source=lambda: Portgroup.__table__.join(Node.__table__),
    links=("ports",),
    named=SINCE,
)  # fmt: skip
CHANGE = PortgroupChange()
FILTERS = ("node", "address", "shard", "conductor_groups")


def _list(query: Query, *, detail: bool = False) -> Response:
    given = [name for name in FILTERS if name in query]
    if len(given) > 1:
        raise Invalid(f"{', '.join(given)}: only one of them can be given")
    return PORTGROUP.listing(
        query, lambda selected: filtered(selected, query, Portgroup), detail=detail
    )


def _list_of_node(query: Query, ident: str, *, detail: bool = False) -> Response:
    node_id = id_of(ident)

    def narrow(selected: Select[Any]) -> Select[Any]:
        selected = filtered(selected, query, Portgroup)
        return selected.where(Portgroup.__table__.c.node_id == node_id)

    return PORTGROUP.listing(query, narrow, detail=detail)


@portgroups.at(
    "GET", "/portgroups", since=SINCE, query="portgroups", rule="baremetal:portgroup:list"
)
@portgroups.arguments(PortgroupFilters, location="query")
def list_portgroups(query: Query) -> Response:
    """List port groups"""
    return _list(query)


@portgroups.at(
    "GET", "/portgroups/detail", since=SINCE, query="portgroups", rule="baremetal:portgroup:list"
)
@portgroups.arguments(PortgroupFilters, location="query")
def list_portgroup_details(query: Query) -> Response:
    """List port groups with all their fields"""
    return _list(query, detail=True)


@portgroups.at(
    "GET",
    "/nodes/<ident>/portgroups",
    since=BELOW_NODES_SINCE,
    query="portgroups",
    rule="baremetal:portgroup:list",
)
@portgroups.arguments(PortgroupFilters, location="query")
def list_portgroups_of_node(query: Query, ident: str) -> Response:
    """List the port groups of a node"""
    return _list_of_node(query, ident)


@portgroups.at(
    "GET",
    "/nodes/<ident>/portgroups/detail",
    since=BELOW_NODES_SINCE,
    query="portgroups",
    rule="baremetal:portgroup:list",
)
@portgroups.arguments(PortgroupFilters, location="query")
def list_portgroup_details_of_node(query: Query, ident: str) -> Response:
    """List the port groups of a node with all their fields"""
    return _list_of_node(query, ident, detail=True)


portgroups.closed("/nodes/<ident>/portgroups", BELOW_NODES_SINCE)


@portgroups.at("POST", "/portgroups", since=SINCE, rule="baremetal:portgroup:create")
@portgroups.arguments(PortgroupCreate)
def create_portgroup(fields: dict[str, Any]) -> Response:
    """Create a port group"""
    versions.check_body("portgroup", fields)
    return PORTGROUP.create(lambda session: service.create(session, fields))


@portgroups.at("GET", "/portgroups/<ident>", since=SINCE, rule="baremetal:portgroup:get")
@portgroups.arguments(FieldsQuery, location="query")
def show_portgroup(query: Query, ident: str) -> Response:
    """Show a port group"""
    return PORTGROUP.show(query, ident)


@portgroups.at("PATCH", "/portgroups/<ident>", since=SINCE, rule="baremetal:portgroup:update")
@portgroups.arguments(NoQuery, location="query")
def change_portgroup(_query: Query, ident: str) -> Response:
    """Change a port group by a JSON patch"""
    inspecting_counts = versions.current() >= 39

    def apply(session: Session, group: Portgroup, values: dict[str, Any]) -> None:
        service.change(session, group, values, inspecting_counts=inspecting_counts)

    return PORTGROUP.change(ident, CHANGE, apply)


@portgroups.at("DELETE", "/portgroups/<ident>", since=SINCE, rule="baremetal:portgroup:delete")
@portgroups.arguments(NoQuery, location="query")
def delete_portgroup(_query: Query, ident: str) -> Response:
    """Forget a port group"""
    return PORTGROUP.delete(ident, service.remove)
