"""Routes of /v1/portgroups."""

from typing import Any

from sqlalchemy.orm import Session

from app.api.request.context import Query, RequestContext
from app.api.request.routes import Routes
from app.api.resource.resource_routes import ResourceRoutes, without_context
from app.api.resource.resources import Resource
from app.api.resource.subresources import by_node, node_parent
from app.api.schemas.portgroups import PortgroupChange, PortgroupCreate, PortgroupFilters
from app.errors import Invalid
from app.inventory.connectivity import portgroups as service
from app.models import Node, Portgroup

SINCE = 23
BELOW_NODES_SINCE = 24

portgroups = Routes("portgroups", "Port groups: bonded ports of a node", since=SINCE)
PORTGROUP = Resource(
    name="portgroup",
    path="portgroups",
    schema="PortGroup",
    model=Portgroup,
    short=("uuid", "name", "address"),
    all_fields=(
        "uuid", "created_at", "updated_at", "address", "extra", "internal_info", "mode", "name",
        "properties", "standalone_ports_supported", "node_uuid", "physical_network", "category",
        "dynamic_portgroup", "links", "ports",
    ),
    joined={"node_uuid": Node.__table__.c.uuid},
    source=Portgroup.__table__.join(Node.__table__),
    links=("ports",),
    names_since=SINCE,
)  # fmt: skip
FILTERS = ("node", "address", "shard", "conductor_groups")


def _check_filters(query: Query) -> None:
    names = [name for name in FILTERS if name in query]
    if len(names) > 1:
        raise Invalid(f"{', '.join(names)}: only one of them can be given")


def _change(
    context: RequestContext, session: Session, group: Portgroup, values: dict[str, Any]
) -> None:
    service.change(session, group, values, inspecting_counts=context.version >= 39)


ROUTES = ResourceRoutes(
    PORTGROUP,
    portgroups,
    "portgroup",
    "portgroups",
    "baremetal:portgroup",
    label="port group",
)
ROUTES.lists(
    PortgroupFilters, by_node(Portgroup), check=_check_filters, details=True, query="portgroups"
)
ROUTES.lists(
    PortgroupFilters,
    by_node(Portgroup),
    parent=node_parent(Portgroup, BELOW_NODES_SINCE),
    details=True,
    query="portgroups",
)
ROUTES.creates(PortgroupCreate, without_context(service.create))
ROUTES.shows()
ROUTES.changes(PortgroupChange(), _change)
ROUTES.deletes(without_context(service.remove))
