"""Routes of chassis."""

from flask import Response

from app.api.node import nodes
from app.api.node.node_shapes import NODES
from app.api.request.context import Query, RequestContext
from app.api.request.routes import Routes
from app.api.resource.resource_routes import ResourceRoutes, without_context
from app.api.resource.resources import Resource
from app.api.schemas.chassis import ChassisChange, ChassisCreate
from app.api.schemas.nodes import NodeFilters
from app.api.values.value_types import ListQuery
from app.errors import Invalid
from app.inventory import chassis as service
from app.models import Chassis
from app.rows import row_changes
from app.rows.uuid_or_name import is_uuid

chassis = Routes("chassis", "Enclosures of several nodes")

CHASSIS = Resource(
    name="chassis",
    path="chassis",
    schema="Chassis",
    model=Chassis,
    short=("uuid", "description"),
    all_fields=("uuid", "created_at", "updated_at", "description", "extra", "links", "nodes"),
    links=("nodes",),
)

ROUTES = ResourceRoutes(CHASSIS, chassis, "chassis", "chassis", "baremetal:chassis")
ROUTES.lists(ListQuery, details=True, rule="get", query="chassis")
ROUTES.creates(ChassisCreate, without_context(service.create))
ROUTES.shows(query="chassis")
ROUTES.changes(ChassisChange(), without_context(row_changes.change))
ROUTES.deletes(without_context(service.remove))


def _list_nodes(
    context: RequestContext, query: Query, uuid: str, *, detail: bool = False
) -> Response:
    if not is_uuid(uuid):
        raise Invalid(f"Expected UUID for chassis_uuid: {uuid}")
    return nodes.listing(context, {**query, "chassis_uuid": uuid}, detail=detail)


@chassis.declare(
    "GET", "/chassis/<uuid>/nodes", query="nodes", rule="baremetal:node:list", returns=NODES
)
@chassis.arguments(NodeFilters, location="query")
def list_nodes_of_chassis(context: RequestContext, query: Query, uuid: str) -> Response:
    """List the nodes of a chassis"""
    return _list_nodes(context, query, uuid)


@chassis.declare(
    "GET", "/chassis/<uuid>/nodes/detail", query="nodes", rule="baremetal:node:list", returns=NODES
)
@chassis.arguments(NodeFilters, location="query")
def list_node_details_of_chassis(context: RequestContext, query: Query, uuid: str) -> Response:
    """List the nodes of a chassis with all their fields"""
    return _list_nodes(context, query, uuid, detail=True)


chassis.closed("/chassis/<uuid>/nodes")
