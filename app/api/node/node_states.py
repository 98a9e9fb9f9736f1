"""Routes below /v1/nodes/{node}/states: power and provision state."""

from collections.abc import Sequence

from flask import Response
from sqlalchemy.orm import Session
from werkzeug.exceptions import MethodNotAllowed

from app.api.declarations import versions
from app.api.node import node_query, node_view, verb_checks
from app.api.node.node_identifiers import change_locked, identified, key_of, node_of, uuid_of
from app.api.node.node_shapes import NODE_STATES, STEP
from app.api.openapi.returns import PROGRESS, STARTED, Returns
from app.api.openapi.shapes import (
    BOOLEAN,
    INTEGER,
    TEXT,
    TIME,
    UUID,
    Component,
    array,
    exactly,
    one_of,
    or_null,
)
from app.api.request import repeats
from app.api.request.context import Fields, RequestContext
from app.api.request.long_polls import long_polling
from app.api.request.redaction import concealer
from app.api.request.routes import Routes
from app.api.schemas.nodes import PowerTarget, ProvisionTarget, StatesQuery
from app.api.transport.responses import empty, json
from app.engine import power, provisioning
from app.errors import NotFound, ServiceError
from app.inventory.idle import is_idle
from app.lifecycle.provision_states import VERBS, State
from app.models import Node, OperationStep, StepSource
from app.planning.step_views import step_view
from app.reports import rehearsal

node_states = Routes("states", "Power and provision states of a node")

REHEARSED_STEP = Component("RehearsedStep", exactly(
    {**STEP, "source": one_of(StepSource), "in_band": BOOLEAN, "child_node": or_null(UUID)}
))  # fmt: skip
REHEARSAL = Component("Rehearsal", exactly(
    {
        "node_uuid": UUID, "target": TEXT, "from": one_of(State), "to": TEXT, "accepted": BOOLEAN,
        "refused": array(exactly({"status": or_null(INTEGER), "reason": TEXT})),
        "steps": array(REHEARSED_STEP),
        "destroys": array(TEXT),
        "agent": or_null(exactly({
            "after": TEXT, "reported_at": or_null(TIME), "steps": array(REHEARSED_STEP),
            "problems": array(TEXT), "summary": TEXT,
        })),
    },
    optional=["to", "destroys", "agent"],
))  # fmt: skip


@node_states.declare(
    "GET", "/nodes/<ident>/states", rule="baremetal:node:get_states", returns=NODE_STATES
)
@node_states.arguments(StatesQuery, location="query")
def show_states(context: RequestContext, query: Fields, ident: str) -> Response:
    """
    Show the states of a node; with `wait`, once no operation is in progress

    With `wait`, status 429: too many requests of the caller wait already; 503: of all callers
    """
    fields = context.version.visible("node", node_query.STATES)
    if seconds := query.get("wait", 0):
        with long_polling(context, seconds) as poll:
            condition, uuid = identified(context, ident), uuid_of(context, ident)
            poll.wait_until(
                lambda: is_idle(context.runtime, condition), lambda event: event.node_uuid == uuid
            )
    document = node_view.one(context, key_of(context, ident), fields, linked=False)
    if document is None:
        raise NotFound("node", ident)
    return json(document)


@node_states.declare(
    "PUT", "/nodes/<ident>/states/power", rule="baremetal:node:set_power_state", returns=STARTED
)
@node_states.arguments(PowerTarget, location="json_or_query")
def change_power(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Change the power of a node"""
    target, timeout = fields["target"], fields.get("timeout")
    verb_checks.check_power(context, target, timeout)
    context.audit.specify(target)
    answer = _accepted(context, ident)
    return change_locked(context, ident, answer, power.request, target, timeout, context.caller)


@node_states.declare(
    "PUT",
    "/nodes/<ident>/states/provision",
    rule="baremetal:node:set_provision_state",
    returns=Returns({202: None, 200: REHEARSAL}, PROGRESS),
)
@node_states.arguments(ProvisionTarget, location="json_or_query")
def change_provision_state(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Request a change of the provision state; with `dry_run`, return its steps only"""
    verb, dry_run = fields.pop("target"), fields.pop("dry_run", False)
    if verb not in versions.LATE_VERBS:
        context.version.require(versions.VERBS.get(verb, versions.MIN), f"target {verb}")
    arguments = {
        name: value
        for name, value in fields.items()
        if value is not None and (value or not name.endswith("_steps"))
    }
    if verb in VERBS:
        context.audit.specify(verb)
    if dry_run:
        repeats.refuse(context.request, repeats.DRY_RUN)
        return json(_rehearsed(context, ident, verb, arguments))
    verb_checks.check_arguments(context, verb, arguments)

    def work(session: Session, node: Node) -> None:
        verb_checks.check_state(context, verb, node.provision_state)
        provisioning.request(session, node, verb, arguments, context.caller)

    return change_locked(context, ident, _accepted(context, ident), work)


# Writes to unknown paths below the states are answered with 405, not with 404.
node_states.refused("/nodes/<ident>/states/<other>", lambda: MethodNotAllowed(["GET"]))


def _rehearsed(context: RequestContext, ident: str, verb: str, arguments: Fields) -> Fields:
    """Document of a dry run: the steps of the verb, or the reasons of its refusal."""
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        document: Fields = {"node_uuid": node.uuid, "target": verb, "from": node.provision_state}
        try:
            verb_checks.check_arguments(context, verb, arguments)
            verb_checks.check_state(context, verb, node.provision_state)
            intent = provisioning.decide(session, node, verb, arguments, context.caller)
        except ServiceError as error:
            refusal = {"status": error.status, "reason": concealer(context, node)(str(error))}
            return document | {"accepted": False, "refused": [refusal], "steps": []}
        return document | {
            "accepted": True,
            "to": provisioning.leads_to(intent),
            "refused": [
                {"status": None, "reason": concealer(context, node)(error)}
                for error in intent.step_errors
            ],
            "steps": _steps(intent.rows),
            **_foreseen(context, session, node, intent),
        }


def _steps(rows: Sequence[OperationStep]) -> list[Fields]:
    return [
        step_view(row) | {"source": row.source, "in_band": row.in_band, "child_node": row.child}
        for row in rows
    ]


def _foreseen(
    context: RequestContext, session: Session, node: Node, intent: provisioning.Intent
) -> Fields:
    """Tell what the agent would do, and what the steps destroy."""
    part = rehearsal.agent_part(session, node, intent)
    later = part.steps if part else ()
    later_labels = {row.label for row in later}
    document = None
    if part is not None:
        document = {
            "after": part.report_step,
            "reported_at": part.reported_at,
            "steps": _steps(part.steps),
            "problems": [concealer(context, node)(problem) for problem in part.problems],
            "summary": concealer(context, node)(part.summary),
        }
    rows = [*(row for row in intent.rows if row.label not in later_labels), *later]
    return {"destroys": rehearsal.destroyed(rows), "agent": document}


def _accepted(context: RequestContext, ident: str) -> Response:
    return empty(202, location=f"{context.base_url}/v1/nodes/{ident}/states")
