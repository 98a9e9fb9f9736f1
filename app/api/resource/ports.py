"""Routes of /v1/ports."""

from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.api.declarations import versions
from app.api.request.context import Fields, Query, RequestContext
from app.api.request.routes import Routes
from app.api.resource.portgroups import BELOW_NODES_SINCE, PORTGROUP
from app.api.resource.resource_routes import ResourceRoutes, without_context
from app.api.resource.resources import Parent, Resource
from app.api.resource.subresources import by_node, node_parent
from app.api.schemas.ports import VTEP_KEYS, PortChange, PortCreate, PortFilters
from app.errors import Forbidden, Invalid, NotAcceptable
from app.inventory.connectivity import ports as service
from app.models import Node, Port, Portgroup

ports = Routes("ports", "The network interfaces of nodes")

_PORTS = Port.__table__.c
_GROUPS = Portgroup.__table__.c
PORT = Resource(
    name="port",
    path="ports",
    schema="Port",
    model=Port,
    short=("uuid", "address"),
    all_fields=(
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
    source=Port.__table__.join(Node.__table__),
    names_since=versions.MIN,
)  # fmt: skip
#: Fields of a new port that identify its node; exactly one of them is required.
NODE = ("node_uuid", "node_ident")
#: The version from which a port in a group takes the physical network of the group.
GROUPED_SINCE = 102
#: Mutually exclusive filters. GROUPED: filters that exclude `conductor_groups`.
WHOSE = ({"node", "node_uuid"}, {"portgroup"}, {"shard"})
GROUPED = {"node", "node_uuid", "portgroup", "address"}
_BY_NODE = by_node(Port)


def _check_filters(query: Query) -> None:
    if sum(bool(names & query.keys()) for names in WHOSE) > 1:
        raise Forbidden("node, portgroup, shard: only one of them can be given")
    if "conductor_groups" in query and query.keys() & GROUPED:
        raise Invalid(
            "Filtering by conductor_groups cannot be combined with node_ident, portgroup_ident, or"
            " node_uuid: nor with address"
        )


def _narrow(context: RequestContext, statement: Select[Any], query: Query) -> Select[Any]:
    statement = _BY_NODE(context, statement, query)
    if "portgroup" in query:
        statement = statement.where(
            _PORTS.portgroup_id == PORTGROUP.id_of(context, query["portgroup"])
        )
    if "description_contains" in query:
        part = query["description_contains"]
        statement = statement.where(_PORTS.description.contains(part, autoescape=True))
    return statement


def _checked(context: RequestContext, fields: Fields) -> dict[str, Any]:
    context.version.check_fields("port", fields)
    _check_link_version(context, fields)
    if sum(name in fields for name in NODE) != 1:
        raise Invalid("node_uuid or node_ident: exactly one of them is required")
    return fields


def _create(_context: RequestContext, session: Session, fields: Query) -> Port:
    (node,) = (fields[name] for name in NODE if name in fields)
    columns = {name: value for name, value in fields.items() if name not in NODE}
    return service.create(session, node, columns)


def _change(context: RequestContext, session: Session, port: Port, values: dict[str, Any]) -> None:
    version = context.version
    _check_link_version(context, values)
    if "physical_network" in values and version >= GROUPED_SINCE and port.portgroup_id:
        raise Invalid("physical_network: change that of the port's group instead")
    service.change(session, port, values, inspecting_counts=version >= 39)


def _check_link_version(context: RequestContext, values: Query) -> None:
    link = values.get("local_link_connection") or {}
    if "network_type" in link:
        context.version.require(64, "network_type")
    if link.keys() & VTEP_KEYS and not 90 <= context.version < 105:
        raise NotAcceptable("local_link_connection: vtep keys are known from version 1.90 to 1.104")


PORTGROUP_PARENT = Parent(
    "/portgroups/<ident>",
    "portgroup",
    "port group",
    lambda context, ident: _PORTS.portgroup_id == PORTGROUP.id_of(context, ident),
    BELOW_NODES_SINCE,
)
ROUTES = ResourceRoutes(PORT, ports, "port", "ports", "baremetal:port")
for _parent in (None, node_parent(Port, versions.MIN), PORTGROUP_PARENT):
    ROUTES.lists(
        PortFilters, _narrow, parent=_parent, check=_check_filters, details=True, query="ports"
    )
ROUTES.creates(PortCreate, _create, prepare=_checked)
ROUTES.shows(query="ports")
ROUTES.changes(PortChange(), _change)
ROUTES.deletes(without_context(service.remove), by_name=False)
