"""Routes of the work of the whole fleet: an addition to Ironic's API."""

from collections.abc import Callable
from typing import Any

from flask import Response
from sqlalchemy import Select

from app.api.openapi.shapes import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    UUID,
    Component,
    array,
    exactly,
    map_of,
    one_of,
    or_null,
    subset_of,
)
from app.api.request.context import Query, RequestContext
from app.api.request.routes import Routes
from app.api.schemas.operations import FailuresQuery, LimitQuery
from app.api.transport.responses import json
from app.lifecycle.flows import QUEUES
from app.models import ACTIVE, Operation, OperationKind, OperationState
from app.reports import fleet_operations as service

fleet_operations = Routes("fleet_operations", "Operations of all nodes, summed up")

RULE = "baremetal:operation:list"
#: Items without `limit`.
LIMIT = 100
#: Values that distinguish groups of failures without `by`.
BY = ("code", "step")

_NODE = {"node_uuid": UUID, "node_name": or_null(TEXT)}
CURRENT_STEP = Component("CurrentStep", exactly({
    "uuid": UUID, "kind": one_of(OperationKind), "state": one_of(OperationState), **_NODE,
    "step": TEXT, "conductor": or_null(TEXT), "takeovers": INTEGER, "since": TIME,
    "wake_at": or_null(TIME), "deadline_at": or_null(TIME),
}))  # fmt: skip
FAULTY = Component("ConductorAtFault", exactly({
    "hostname": TEXT, "state": one_of(("lost", "impeded")), "reason": TEXT, "operations": INTEGER,
    "waiting": INTEGER, "successors": INTEGER,
}))  # fmt: skip
QUEUE = Component("AdmissionQueue", exactly({
    "class": one_of(sorted(QUEUES)), "conductor_group": or_null(TEXT), "limit": INTEGER,
    "queued": INTEGER, "oldest_at": TIME,
    "operations": array(exactly({
        "place": INTEGER, "uuid": UUID, "kind": one_of(OperationKind), **_NODE, "created_at": TIME,
    })),
}))  # fmt: skip
SLOW_STEP = Component("SlowStep", exactly({
    "step": TEXT, "runs": INTEGER, "failed": INTEGER, "mean_seconds": NUMBER,
    "longest_seconds": NUMBER,
}))  # fmt: skip
FAILURES = Component("FailureGroup", exactly({
    "values": subset_of({name: or_null(TEXT) for name in service.GROUPED}), "nodes": INTEGER,
    "example": exactly({
        "uuid": UUID, **_NODE, "finished_at": or_null(TIME), "message": or_null(TEXT),
        "cause": or_null(TEXT), "hint": or_null(TEXT),
    }),
    "filter": map_of(TEXT),
}))  # fmt: skip


def _narrow(context: RequestContext) -> Callable[[Select[Any]], Select[Any]]:
    """Return the function that limits a query for operations to the scope of the list."""
    return lambda query: context.scope.narrowed(query, Operation)


@fleet_operations.declare(
    "GET",
    "/operations/current",
    rule=RULE,
    returns=exactly({
        "counts": exactly(dict.fromkeys((*map(str, ACTIVE), "admission"), INTEGER)),
        "steps": array(CURRENT_STEP),
    }),
)  # fmt: skip
@fleet_operations.arguments(LimitQuery, location="query")
def list_current_steps(context: RequestContext, query: Query) -> Response:
    """List the current steps of operations that run, wait or are held, the longest first"""
    with context.runtime.reading() as session:
        return json({
            "counts": service.counts(session, _narrow(context)),
            "steps": service.current(session, _narrow(context), query.get("limit", LIMIT)),
        })  # fmt: skip


@fleet_operations.declare(
    "GET", "/operations/conductors", rule=RULE, returns=exactly({"conductors": array(FAULTY)})
)
def list_conductors_at_fault(context: RequestContext) -> Response:
    """
    List the conductors that are lost or impeded, with the number of operations that they hold

    operations: those whose step they have, or are to begin. waiting: those that wait, and go on at
    any conductor. successors: live conductors of the same group. A caller that sees the operations
    of a project only gets the conductors that hold some of them.
    """
    with context.runtime.reading() as session:
        conductors = service.conductors_at_fault(session, _narrow(context))
    if context.scope.is_narrow:
        conductors = [
            conductor for conductor in conductors if conductor["operations"] or conductor["waiting"]
        ]
    return json({"conductors": conductors})


@fleet_operations.declare(
    "GET", "/operations/queues", rule=RULE, returns=exactly({"queues": array(QUEUE)})
)
def list_admission_queues(context: RequestContext) -> Response:
    """List the admission queues, each with its first operations"""
    with context.runtime.reading() as session:
        return json({"queues": service.queues(session, _narrow(context))})


@fleet_operations.declare(
    "GET",
    "/operations/steps",
    rule=RULE,
    returns=exactly({"steps": array(SLOW_STEP), "operations": INTEGER}),
)
@fleet_operations.arguments(LimitQuery, location="query")
def list_slow_steps(context: RequestContext, query: Query) -> Response:
    """List the steps of the newest operations, the slowest first; `operations`: their most"""
    with context.runtime.reading() as session:
        steps = service.slow_steps(session, _narrow(context), query.get("limit", LIMIT))
    return json({"steps": steps, "operations": service.RECENT})


@fleet_operations.declare(
    "GET",
    "/operations/failures",
    rule=RULE,
    returns=exactly({"groups": array(FAILURES), "nodes": INTEGER, "complete": BOOLEAN}),
)
@fleet_operations.arguments(FailuresQuery, location="query")
def list_failures(context: RequestContext, query: Query) -> Response:
    """
    Count the nodes whose last operation failed, in groups, the largest first

    `filter` has the parameters of `GET /v1/nodes` that list the nodes of a group.
    """
    with context.runtime.reading() as session:
        grouping, limit = query.get("by", BY), query.get("limit", LIMIT)
        return json(service.failures(session, _narrow(context), grouping, limit))
