"""Routes of holds: reasons for which a node is not used. An addition to Ironic's API."""

from typing import Any

from flask import Response
from sqlalchemy import Select
from sqlalchemy.orm import Session

from app.api.declarations import versions
from app.api.node.node_identifiers import locked
from app.api.openapi.returns import LOCATION, Returns
from app.api.openapi.shapes import one_of
from app.api.request.context import Fields, Query, RequestContext
from app.api.request.paging import equal_to
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.resource.resource_routes import ResourceRoutes
from app.api.resource.resources import Resource
from app.api.resource.subresources import node_parent
from app.api.schemas.holds import HoldChange, HoldCreate, HoldFilters, HoldOfNodeCreate
from app.errors import Invalid, NotFound
from app.inventory import holds as service
from app.inventory import nodes
from app.lifecycle.hold_kinds import HoldKind
from app.models import Hold, Node

holds = Routes("holds", "Holds: reasons for which nodes are not used")

HOLD = Resource(
    name="hold",
    path="holds",
    schema="Hold",
    model=Hold,
    short=("uuid", "node_uuid", "kind", "owner", "user_name", "reason", "created_at", "expires_at"),
    all_fields=(
        "uuid", "created_at", "updated_at", "node_uuid", "kind", "owner", "user_id", "user_name",
        "reason", "expires_at", "links",
    ),
    joined={"node_uuid": Node.__table__.c.uuid},
    source=Hold.__table__.join(Node.__table__),
    shapes={"kind": one_of(HoldKind)},
)  # fmt: skip
_HOLDS = Hold.__table__.c
#: Parameter of the lists -> the column that it compares.
EQUAL = {"kind": _HOLDS.kind, "owner": _HOLDS.owner, "user": _HOLDS.user_id}


def _narrow(_context: RequestContext, statement: Select[Any], query: Query) -> Select[Any]:
    statement = equal_to(statement, query, EQUAL)
    if "expired_before" in query:
        statement = statement.where(_HOLDS.expires_at < query["expired_before"])
    return statement


def _create(context: RequestContext, session: Session, fields: Fields) -> Hold:
    """Set a hold on the node of the body."""
    ident = fields["node_uuid"]
    try:
        node = nodes.lock(session, ident)
    except NotFound:
        raise Invalid(f"node_uuid: there is no node {ident}") from None
    values = {name: value for name, value in fields.items() if name != "node_uuid"}
    return service.create(session, node, values, context.caller)


ROUTES = ResourceRoutes(HOLD, holds, "hold", "holds", "baremetal:hold")
ROUTES.lists(HoldFilters, _narrow)
ROUTES.lists(HoldFilters, _narrow, parent=node_parent(Hold, versions.MIN), closed=False)
ROUTES.creates(HoldOfNodeCreate, _create)
ROUTES.shows()
ROUTES.changes(
    HoldChange(),
    lambda context, session, hold, values: service.change(session, hold, values, context.caller),
)
ROUTES.deletes(lambda context, session, hold: service.remove(session, hold, context.caller))


@holds.declare(
    "POST",
    "/nodes/<ident>/holds",
    rule="baremetal:hold:create",
    returns=Returns({201: HOLD.component}, LOCATION),
)
@holds.arguments(HoldCreate)
def create_hold_of_node(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Create a hold on a node"""

    def work(session: Session) -> Response:
        hold = service.create(session, locked(context, session, ident), fields, context.caller)
        return ROUTES.created(context, session, hold)

    return in_transaction(context, work)
