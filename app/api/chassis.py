"""Chassis."""

from collections.abc import Mapping
from typing import Any

from flask import Response

from app.api import nodes
from app.api.resources import Resource
from app.api.routes import Routes
from app.api.schemas.chassis import ChassisChange, ChassisCreate
from app.api.schemas.common import FieldsQuery, ListQuery, NoQuery
from app.api.schemas.nodes import NodeFilters
from app.errors import Invalid
from app.models import Chassis
from app.services import chassis as service
from app.services import rows
from app.services.idents import is_uuid

chassis = Routes("chassis", "Cases that hold several nodes")

Query = Mapping[str, Any]

CHASSIS = Resource(
    name="chassis",
    path="chassis",
    model=Chassis,
    short=("uuid", "description"),
    shown=("uuid", "created_at", "updated_at", "description", "extra", "links", "nodes"),
    links=("nodes",),
)
CHANGE = ChassisChange()


@chassis.at("GET", "/chassis", query="chassis", rule="baremetal:chassis:get")
@chassis.arguments(ListQuery, location="query")
def list_chassis(query: Query) -> Response:
    """List chassis"""
    return CHASSIS.listing(query)


@chassis.at("GET", "/chassis/detail", query="chassis", rule="baremetal:chassis:get")
@chassis.arguments(ListQuery, location="query")
def list_chassis_details(query: Query) -> Response:
    """List chassis with all their fields"""
    return CHASSIS.listing(query, detail=True)


@chassis.at("POST", "/chassis", rule="baremetal:chassis:create")
@chassis.arguments(ChassisCreate)
def create_chassis(fields: dict[str, Any]) -> Response:
    """Create a chassis"""
    return CHASSIS.create(lambda session: service.create(session, fields))


@chassis.at("GET", "/chassis/<uuid>", query="chassis", rule="baremetal:chassis:get")
@chassis.arguments(FieldsQuery, location="query")
def show_chassis(query: Query, uuid: str) -> Response:
    """Show a chassis"""
    return CHASSIS.show(query, uuid)


@chassis.at("PATCH", "/chassis/<uuid>", rule="baremetal:chassis:update")
@chassis.arguments(NoQuery, location="query")
def change_chassis(_query: Query, uuid: str) -> Response:
    """Change a chassis by a JSON patch"""
    return CHASSIS.change(uuid, CHANGE, rows.change)


@chassis.at("DELETE", "/chassis/<uuid>", rule="baremetal:chassis:delete")
@chassis.arguments(NoQuery, location="query")
def delete_chassis(_query: Query, uuid: str) -> Response:
    """Forget a chassis"""
    return CHASSIS.delete(uuid, service.remove)


def _list_nodes(query: Query, uuid: str, *, detail: bool = False) -> Response:
    if not is_uuid(uuid):
        raise Invalid(f"Expected UUID for chassis_uuid: {uuid}")
    return nodes.listing({**query, "chassis_uuid": uuid}, detail=detail)


@chassis.at("GET", "/chassis/<uuid>/nodes", query="nodes", rule="baremetal:node:list")
@chassis.arguments(NodeFilters, location="query")
def list_nodes_of_chassis(query: Query, uuid: str) -> Response:
    """List the nodes of a chassis"""
    return _list_nodes(query, uuid)


@chassis.at("GET", "/chassis/<uuid>/nodes/detail", query="nodes", rule="baremetal:node:list")
@chassis.arguments(NodeFilters, location="query")
def list_node_details_of_chassis(query: Query, uuid: str) -> Response:
    """List the nodes of a chassis with all their fields"""
    return _list_nodes(query, uuid, detail=True)


chassis.closed("/chassis/<uuid>/nodes")
