"""Operations: what was, is and will be done to a node, step by step. Additive to Ironic's API."""

from typing import Any

from flask import Response
from sqlalchemy import select

from app.api.answers import json, links, runtime
from app.api.masking import mask
from app.api.nodes import identified
from app.api.routes import Routes
from app.api.schemas.common import NoQuery
from app.errors import NotFound
from app.models import Node, Operation, OperationStep
from app.services import admission
from app.services import operations as service

operations = Routes("operations", "What is done to nodes, step by step")

View = dict[str, Any]

SHOWN = (
    "uuid", "kind", "state", "requested_by", "request_id", "created_at", "queue", "admitted_at",
    "started_at", "finished_at", "cursor", "fence", "claimed_by", "error", "deadline_at",
    "wake_at", "sends", "sent_at", "sent_to", "refused", "aborting",
)  # fmt: skip
STEP_SHOWN = (
    "position", "interface", "source", "flow", "priority", "in_band", "abortable", "resume",
    "state", "attempts", "deaths", "tries", "backoff", "faults", "timeout", "deadline_at",
    "abort_after", "child", "conductor", "started_at", "finished_at", "result", "error",
    "progress",
)  # fmt: skip


def _view(operation: Operation, node_uuid: str) -> View:
    view = {name: getattr(operation, name) for name in SHOWN}
    view["arguments"] = mask(operation.arguments)
    view["node_uuid"] = node_uuid
    view["links"] = links(f"operations/{operation.uuid}")
    return view


def _step(step: OperationStep) -> View:
    view = {name: getattr(step, name) for name in STEP_SHOWN}
    for name in ("result", "progress"):
        view[name] = mask(view[name])
    return view | {"step": step.name, "args": mask(step.args)}


@operations.at("GET", "/nodes/<ident>/operations", rule="baremetal:node:history:get")
@operations.arguments(NoQuery, location="query")
def list_operations(_query: Any, ident: str) -> Response:
    """List the operations of a node, the newest first"""
    with runtime().reading() as session:
        node = session.execute(select(Node.id, Node.uuid).where(identified(ident))).one_or_none()
        if node is None:
            raise NotFound("node", ident)
        found = service.of_node(session, node.id)
        return json({"operations": [_view(each, node.uuid) for each in found]})


@operations.at("GET", "/operations/<uuid>", rule="baremetal:node:history:get")
@operations.arguments(NoQuery, location="query")
def show_operation(_query: Any, uuid: str) -> Response:
    """Show an operation and its steps"""
    with runtime().reading() as session:
        row = session.execute(
            select(Operation, Node.uuid)
            .join(Node, Node.id == Operation.node_id)
            .where(Operation.uuid == uuid)
        ).one_or_none()
        if row is None:
            raise NotFound("operation", uuid)
        operation, node_uuid = row
        steps = service.steps_of(session, operation)
        return json(
            _view(operation, node_uuid)
            | {"admission": admission.document(session, operation)}
            | {"steps": [_step(each) for each in steps]}
        )
