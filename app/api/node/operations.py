"""Routes of operations and their steps: an addition to Ironic's API."""

from typing import Any

from flask import Response
from sqlalchemy import not_, select

from app.api.node.node_identifiers import node_of
from app.api.openapi.returns import listed
from app.api.openapi.shapes import (
    DOCUMENT,
    INTEGER,
    LINKS,
    TEXT,
    TIME,
    UUID,
    Component,
    array,
    column_shapes,
    exactly,
    one_of,
    or_null,
)
from app.api.request.context import RequestContext, View
from app.api.request.paging import equal_to, page_answer, page_of, rows_of
from app.api.request.routes import Routes
from app.api.schemas.operations import OperationFilters
from app.api.transport.responses import json
from app.engine import admission
from app.engine import operations as service
from app.errors import NotFound
from app.lifecycle.flows import QUEUES
from app.models import (
    ACTIVE,
    Node,
    Operation,
    OperationKind,
    OperationState,
    OperationStep,
    StepSource,
    StepState,
)
from app.text.masking import mask

operations = Routes("operations", "Operations of nodes and their steps")

SHOWN = (
    "uuid", "kind", "state", "requested_by", "request_id", "created_at", "queue", "admitted_at",
    "started_at", "finished_at", "cursor", "fence", "claimed_by", "error", "deadline_at",
    "wake_at", "sends", "sent_at", "sent_to", "refused", "aborting",
)  # fmt: skip
SORTABLE = frozenset({
    "uuid", "kind", "state", "requested_by", "created_at", "started_at", "finished_at",
    "deadline_at",
})  # fmt: skip
STEP_SHOWN = (
    "position", "interface", "source", "flow", "priority", "in_band", "abortable", "resume",
    "state", "attempts", "deaths", "tries", "backoff", "faults", "timeout", "deadline_at",
    "abort_after", "child", "conductor", "started_at", "finished_at", "result", "error",
    "progress",
)  # fmt: skip

OPERATION = Component("Operation", exactly({
    **column_shapes(Operation, SHOWN),
    "kind": one_of(OperationKind), "state": one_of(OperationState),
    "arguments": DOCUMENT, "node_uuid": UUID, "node_name": or_null(TEXT), "links": LINKS,
}))  # fmt: skip
OPERATION_STEP = Component("OperationStep", exactly({
    **column_shapes(OperationStep, STEP_SHOWN),
    "source": one_of(StepSource), "state": one_of(StepState),
    "step": TEXT, "args": DOCUMENT, "executions": INTEGER,
}))  # fmt: skip
ADMISSION = Component("Admission", exactly({
    "class": one_of(sorted(QUEUES)), "conductor_group": or_null(TEXT),
    "limit": INTEGER, "place": INTEGER, "queued": INTEGER,
    "held_by": array(exactly({
        "kind": one_of(OperationKind), "state": one_of(OperationState),
        "operations": INTEGER, "since": TIME,
    })),
}))  # fmt: skip
WHOLE_OPERATION = exactly({
    **OPERATION.schema["properties"],
    "admission": or_null(ADMISSION), "steps": array(OPERATION_STEP),
})  # fmt: skip


def _view(
    context: RequestContext, operation: Operation, node_uuid: str, node_name: str | None
) -> View:
    view = {name: getattr(operation, name) for name in SHOWN}
    view["arguments"] = mask(operation.arguments)
    view["node_uuid"], view["node_name"] = node_uuid, node_name
    view["links"] = context.links(f"operations/{operation.uuid}")
    return view


def _step(step: OperationStep) -> View:
    view = {name: getattr(step, name) for name in STEP_SHOWN}
    for name in ("result", "progress"):
        view[name] = mask(view[name])
    counts = {"attempts": step.attempt, "executions": step.attempts}
    return view | counts | {"step": step.name, "args": mask(step.args), "error": step.error or None}


@operations.declare(
    "GET",
    "/nodes/<ident>/operations",
    rule="baremetal:node:history:get",
    returns=exactly({"operations": array(OPERATION)}),
)
def list_operations(context: RequestContext, ident: str) -> Response:
    """List the operations of a node, the newest first"""
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        items = [
            _view(context, operation, node.uuid, node.name)
            for operation in service.of_node(session, node.id)
        ]
        return json({"operations": items})


@operations.declare(
    "GET",
    "/operations",
    rule="baremetal:operation:list",
    returns=listed("operations", OPERATION, sortable=SORTABLE),
)
@operations.arguments(OperationFilters, location="query")
def list_operations_of_all(context: RequestContext, query: Any) -> Response:
    """List the operations of all nodes, the newest first"""
    page = page_of(context, {"sort_dir": "desc", **query}, "operation", sortable=SORTABLE)
    columns: list[Any] = [Operation, Node.uuid, Node.name]
    statement = select(*columns).join(Node, Node.id == Operation.node_id)
    statement = equal_to(statement, query, {"kind": Operation.kind, "state": Operation.state})
    if "active" in query:
        active = Operation.state.in_(ACTIVE)
        statement = statement.where(active if query["active"] else not_(active))
    with context.runtime.reading() as session:
        rows = rows_of(session, context.scope, statement, Operation, page)
        items = [_view(context, operation, uuid, name) for operation, uuid, name in rows]
        page_operations = [row[0] for row in rows]
    return page_answer(context, "operations", items, page, page_operations)


@operations.declare(
    "GET", "/operations/<uuid>", rule="baremetal:node:history:get", returns=WHOLE_OPERATION
)
def show_operation(context: RequestContext, uuid: str) -> Response:
    """Show an operation and its steps"""
    with context.runtime.reading() as session:
        row = session.execute(
            select(Operation, Node.uuid, Node.name)
            .join(Node, Node.id == Operation.node_id)
            .where(Operation.uuid == uuid)
        ).one_or_none()
        if row is None:
            raise NotFound("operation", uuid)
        operation, node_uuid, node_name = row
        steps = service.steps_of(session, operation)
        return json(
            _view(context, operation, node_uuid, node_name)
            | {"admission": admission.document(session, operation)}
            | {"steps": [_step(step) for step in steps]}
        )
