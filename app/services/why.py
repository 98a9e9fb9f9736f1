"""
Why: what a node waits for, who holds it, since when, and what happens next, in one answer.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.models import ACTIVE, Node, Operation, OperationState, OperationStep
from app.services import admission, operations
from app.states import MACHINE, VERBS, Kind, State


@dataclass(frozen=True, slots=True)
class Answer:
    """
    waiting_for: turn, conductor, machine, agent, child, timer, operator, or None for nothing.
    held_by: the conductor that the node is reserved for. since: when the state was entered, or the
    step begun.
    next: what happens when that is over; next_at: at the latest, or when it is tried again.
    admission: where it queues, its place there; see `admission.document`.
    """

    summary: str
    waiting_for: str | None
    held_by: str | None
    since: datetime | None
    next: str | None
    next_at: datetime | None
    step: str | None = None
    operation: str | None = None
    error: dict[str, Any] | None = None
    verbs: tuple[str, ...] = ()
    admission: dict[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        return asdict(self)


def explain(session: Session, node: Node) -> Answer:
    found = operations.of_node(session, node.id)
    active = [each for each in found if each.state in ACTIVE]
    if active:
        active.sort(key=lambda each: each.state in (OperationState.WAITING, OperationState.HELD))
        return _at_work(session, node, active[0])
    state = State(node.provision_state)
    row = MACHINE[state]
    verbs = tuple(
        verb for verb, event in VERBS.items() if event in row.moves and verb != "undeploy"
    )
    last = found[0] if found else None
    error = last.error if last and row.kind is Kind.FAILED else None
    summary = f"Node {node.uuid} is {state}; nothing is under way."
    if error:
        summary += f" {error['message']} {error.get('hint', '')}".rstrip()
    if node.maintenance:
        summary += f" It is in maintenance: {node.maintenance_reason or 'no reason given'}."
    if node.retired:
        summary += f" It is retired: {node.retired_reason or 'no reason given'}."
    return Answer(
        summary,
        "operator" if row.kind is Kind.FAILED else None,
        node.reservation,
        node.provision_updated_at,
        f"one of {', '.join(verbs)}, when somebody asks for it",
        None,
        operation=last.uuid if last else None,
        error=error,
        verbs=verbs,
    )


def _at_work(session: Session, node: Node, operation: Operation) -> Answer:
    step = operations.current_step(session, operation)
    rest = [row for row in operations.pending(session, operation) if row.position > step.position]
    after = f"step {rest[0].label}" if rest else _end_of(node, operation)
    whom, why, when = _cause(session, node, operation, step)
    state = State(node.provision_state)
    wanted = f" on its way to {node.target_provision_state}" if node.target_provision_state else ""
    return Answer(
        f"Node {node.uuid} is {state}{wanted}, in step {step.label} of {operation.kind}: {why}.",
        whom,
        node.reservation,
        step.started_at or operation.created_at,
        after,
        when,
        step.label,
        operation.uuid,
        operation.error,
        admission=admission.document(session, operation),
    )


def _cause(
    session: Session, node: Node, operation: Operation, step: OperationStep
) -> tuple[str, str, datetime | None]:
    """Whom it waits for, in words, and until when at most."""
    state, deadline = operation.state, operation.deadline_at
    if state == OperationState.HELD:
        return "operator", "it is held until somebody asks for unhold or abort", None
    if state == OperationState.QUEUED:
        queued = admission.document(session, operation)
        if queued is not None:
            return "turn", _of_queue(queued), None
        if operation.sent_to is None:
            return "conductor", "no live conductor serves it", None
        return "conductor", "a message to its conductor is on its way", None
    if state == OperationState.RUNNING:
        return "conductor", f"conductor {step.conductor} is at it", deadline
    if operation.wake_at is None:
        at_end = "it fails at the deadline" if deadline else "no deadline is set"
        if node.maintenance:
            at_end = "no deadline ends that while the node is in maintenance"
        return "agent", f"its agent works, or is being booted; {at_end}", deadline
    whom, why = _cause_of_look(session, operation, step)
    return whom, why, operation.wake_at


def _of_queue(queued: Mapping[str, Any]) -> str:
    held = ", ".join(
        f"{each['operations']} {each['kind']} ({each['state']})" for each in queued["held_by"]
    )
    group = queued["conductor_group"]
    return (
        f"it is number {queued['place']} of {queued['queued']} in the queue for one of"
        f" {queued['limit']} slots ([conductor]max_concurrent_{queued['class']})"
        f"{f' of conductor group {group}' if group else ''}, held by {held or 'nobody'}"
    )


def _cause_of_look(session: Session, operation: Operation, step: OperationStep) -> tuple[str, str]:
    """Whom a step waits for that is called again at a certain time, and why."""
    if step.faults and step.faults < step.tries:
        tried = f"try {step.faults} of {step.tries} failed ({step.error}); it is tried again"
        return "timer", tried
    if step.child:
        child = session.scalar(select(Node).where(Node.uuid == step.child))
        if child is not None and child.reservation and child.operation_id != operation.id:
            return "child", f"child node {child.uuid} is reserved by {child.reservation}"
    if step.flow and step.name == "wait":
        return "timer", "it waits for as long as it was asked to"
    if step.in_band or step.collects:
        return "agent", "its agent is busy or out of reach; it is asked again soon"
    return "machine", "the machine works; it is looked at again soon"


def _end_of(node: Node, operation: Operation) -> str:
    if not operation.moves_node:
        return "the operation ends"
    row = MACHINE[State(node.provision_state)]
    if operation.error or row.kind is Kind.FAILED:
        return "the operation ends"
    return f"the node becomes {node.target_provision_state}"
