"""Route that explains the current state of a node. An addition to Ironic's API."""

from flask import Response
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.api.node.node_identifiers import node_of
from app.api.node.operations import ADMISSION
from app.api.openapi.shapes import (
    DOCUMENT,
    LINKS,
    TEXT,
    TIME,
    UUID,
    Component,
    array,
    column_shapes,
    exactly,
    map_of,
    one_of,
    or_null,
)
from app.api.policy import by_body
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.transport.responses import json
from app.broker.refused_lookups import Refusal
from app.lifecycle.hold_kinds import Effect, HoldKind
from app.lifecycle.provision_states import State
from app.models import Hold, Node, Operation
from app.reports.why import HOLD_FIELDS, explain
from app.requests.request_slots import yielding_slot
from app.rollouts import rollout_progress

why = Routes("why", "Explanations of the states of nodes")

HELD = exactly({
    **column_shapes(Hold, HOLD_FIELDS), "kind": one_of(HoldKind), "effects": array(one_of(Effect)),
})  # fmt: skip
WHY = Component("Why", exactly(
    {
        "node_uuid": UUID, "provision_state": one_of(State),
        "target_provision_state": or_null(one_of(State)), "summary": TEXT,
        "waiting_for": or_null(TEXT), "held_by": or_null(TEXT), "since": or_null(TIME),
        "next": or_null(TEXT), "next_at": or_null(TIME), "step": or_null(TEXT),
        "operation": or_null(UUID), "error": or_null(DOCUMENT), "verbs": array(TEXT),
        "refused_verbs": map_of(TEXT),
        "admission": or_null(ADMISSION), "holds": array(HELD), "agent_log": or_null(TEXT),
        "console_history": or_null(TEXT),
        "links": LINKS,
    },
    optional=["links"],
))  # fmt: skip


def _refused(context: RequestContext, session: Session, node: Node) -> list[Refusal]:
    """
    Refused lookups since the creation of the node's newest operation.

    Lookups of machines without a port are included for callers without a project.
    """
    refusals = context.runtime.refusals
    newest = session.scalar(
        select(func.max(Operation.created_at)).where(Operation.node_id == node.id)
    )
    if refusals is None or newest is None:
        return []
    node_uuids = {node.uuid} if context.caller.project_id else {node.uuid, None}
    with yielding_slot():  # it may wait for Redis
        newest_refusals = refusals.since(newest)
    return [refusal for refusal in newest_refusals if refusal.node in node_uuids]


@why.declare("GET", "/nodes/<ident>/why", rule="baremetal:node:history:get", returns=WHY)
def show_why(context: RequestContext, ident: str) -> Response:
    """Explain a node's state: the awaited event, the holder of its reservation, the next action"""
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        reason = context.access.denial(by_body.PROVISIONING, {})(node.owner, node.lessee)
        due_rollouts = rollout_progress.pending_on(session, node.uuid)
        answer = explain(session, node, _refused(context, session, node), reason, due_rollouts)
        document = {
            "node_uuid": node.uuid,
            "provision_state": node.provision_state,
            "target_provision_state": node.target_provision_state,
            **answer.document(),
        }
    if answer.operation:
        document["links"] = context.links(f"operations/{answer.operation}")
    return json(document)
