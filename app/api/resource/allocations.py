"""Routes of allocations: requests for a node."""

from typing import Any

from flask import Response
from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.orm import Session

from app.api.node import etags
from app.api.node.node_identifiers import id_of, identified
from app.api.openapi.returns import NO_CONTENT
from app.api.openapi.shapes import one_of
from app.api.request.context import Fields, Query, RequestContext
from app.api.request.paging import equal_to
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.resource.resource_routes import ResourceRoutes, without_context
from app.api.resource.resources import Resource
from app.api.schemas.allocations import AllocationChange, AllocationCreate, AllocationFilters
from app.api.transport.responses import empty
from app.api.values.value_types import FieldsQuery
from app.errors import Invalid, NotFound
from app.inventory import allocations as service
from app.models import Allocation, AllocationState, Node
from app.rows import row_changes

SINCE = 52
CHANGE_SINCE = 57
BACKFILL_SINCE = 58

allocations = Routes("allocations", "Requests for nodes", since=SINCE)

_SHOWN = (
    "uuid", "created_at", "updated_at", "candidate_nodes", "extra", "last_error", "name", "owner",
    "resource_class", "state", "traits", "links", "node_uuid",
)  # fmt: skip
ALLOCATION = Resource(
    name="allocation",
    path="allocations",
    schema="Allocation",
    model=Allocation,
    short=tuple(name for name in _SHOWN if name != "links"),
    all_fields=_SHOWN,
    joined={"node_uuid": Node.__table__.c.uuid},
    source=Allocation.__table__.outerjoin(Node.__table__),
    names_since=SINCE,
    shapes={"state": one_of(AllocationState)},
)
_ALLOCATIONS = Allocation.__table__.c
#: Parameter of the list -> the column that it compares.
EQUAL = {name: _ALLOCATIONS[name] for name in ("resource_class", "state", "owner")}


def _filtered(context: RequestContext, statement: Select[Any], query: Query) -> Select[Any]:
    statement = equal_to(statement, query, EQUAL)
    if "node" in query:
        statement = statement.where(_ALLOCATIONS.node_id == _node_id(context, query["node"]))
    return statement


def _node_id(context: RequestContext, ident: str) -> int:
    with context.runtime.reading() as session:
        node_id = session.scalar(
            select(Node.id).where(identified(context, ident), context.scope.listable(Node))
        )
    if node_id is None:
        raise Invalid(f"Node {ident} could not be found (node)")
    return node_id


def _checked(context: RequestContext, fields: Fields) -> dict[str, Any]:
    context.version.check_body("allocation", fields)
    if fields.get("node") is not None and context.version < BACKFILL_SINCE:
        raise Invalid(f"node: needs API version 1.{BACKFILL_SINCE}")
    return context.access.with_owner("allocation", fields)


def _create(_context: RequestContext, session: Session, fields: Query) -> Allocation:
    columns = {name: value for name, value in fields.items() if name != "node"}
    if fields.get("node") is not None:
        return service.backfill(session, fields["node"], columns)
    return service.create(session, columns)


ROUTES = ResourceRoutes(
    ALLOCATION, allocations, "allocation", "allocations", "baremetal:allocation", gone=405
)
ROUTES.lists(AllocationFilters, _filtered, query="allocations")
ROUTES.creates(AllocationCreate, _create, prepare=_checked, summary="Create an allocation")
ROUTES.shows()
ROUTES.changes(AllocationChange(), without_context(row_changes.change), since=CHANGE_SINCE)


@allocations.declare(
    "DELETE",
    "/allocations/<ident>",
    gone=405,
    rule="baremetal:allocation:delete",
    returns=NO_CONTENT,
)
def delete_allocation(context: RequestContext, ident: str) -> Response:
    """Delete an allocation, and release its node"""
    return _remove(context, ALLOCATION.identified(context.version, ident), ident)


@allocations.declare(
    "GET",
    "/nodes/<ident>/allocation",
    rule="baremetal:allocation:get",
    returns=ALLOCATION.component,
)
@allocations.arguments(FieldsQuery, location="query")
def show_allocation_of_node(context: RequestContext, query: Query, ident: str) -> Response:
    """Show the allocation of a node"""
    node_id = _node_id(context, ident)
    with context.runtime.reading() as session:
        uuid = session.scalar(select(Allocation.uuid).where(Allocation.node_id == node_id))
    if uuid is None:
        raise NotFound("allocation for node", ident, "{kind} {ident} was not found")
    return ALLOCATION.show(context, query, uuid)


@allocations.declare(
    "DELETE", "/nodes/<ident>/allocation", rule="baremetal:allocation:delete", returns=NO_CONTENT
)
def delete_allocation_of_node(context: RequestContext, ident: str) -> Response:
    """Delete the allocation of a node, and release the node"""
    return _remove(context, _ALLOCATIONS.node_id == id_of(context, ident), f"of node {ident}")


def _remove(context: RequestContext, condition: ColumnElement[bool], label: str) -> Response:
    """
    Delete an allocation; answer 204. label: its name in messages.

    Raises NotFound, PreconditionFailed.
    """

    def work(session: Session) -> None:
        locked_allocation = service.lock(session, condition)
        if locked_allocation is None:
            raise NotFound("allocation", label)
        if locked_allocation[1]:
            etags.check(session, locked_allocation[1])
        service.remove(session, *locked_allocation)

    return in_transaction(context, work, empty(204))
