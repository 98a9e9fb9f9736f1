"""
Why: what a node waits for, who holds it, since when, and what happens next, in one answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.models import ACTIVE, Node, Operation, OperationState, OperationStep
from app.refused import Refusal
from app.runtime import of
from app.sentences import joined
from app.services import admission, conductors, operations, waits
from app.states import MACHINE, VERBS, Kind, State
from drivers.core.errors import FailureCode

#: Refused lookups that an answer lists, at most.
MOST_REFUSED = 3


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


def explain(
    session: Session, node: Node, called: str | None = None, refused: Sequence[Refusal] = ()
) -> Answer:
    """
    called: the name by which the node was asked for. refused: lookups of agents since the newest
    operation began, of this node or of machines that are unknown; the latest first.
    """
    called = called or node.uuid
    found = operations.of_node(session, node.id)
    active = [each for each in found if each.state in ACTIVE]
    if active:
        active.sort(key=lambda each: each.state in (OperationState.WAITING, OperationState.HELD))
        return _at_work(session, node, active[0], called, refused)
    state = State(node.provision_state)
    row = MACHINE[state]
    verbs = tuple(
        verb for verb, event in VERBS.items() if event in row.moves and verb != "undeploy"
    )
    failed = _last_failed(found)
    last = failed or (found[0] if found else None)
    error = failed.error if failed else None
    message = error["message"] if error else node.last_error
    summary = joined(
        f"Node {called} is {state}; nothing is under way",
        f"Its last operation, {last.kind}, {last.state}: {message}" if last and error else message,
        error.get("hint") if error else None,
        *(each.told() for each in refused[:MOST_REFUSED] if _timed_out(error)),
        _maintenance(node, message),
        f"it is retired: {node.retired_reason or 'no reason given'}" if node.retired else None,
        _service(session),
    )
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


def _last_failed(found: Sequence[Operation]) -> Operation | None:
    """
    What is still to be explained: the newest operation that has failed, unless another one that
    moves the node has begun since. found: operations that have ended, the newest first.
    """
    for operation in found:
        if operation.error:
            return operation
        if operation.moves_node:
            return None
    return None


def _timed_out(error: Mapping[str, Any] | None) -> bool:
    return error is not None and error.get("code") == FailureCode.TIMEOUT


def _maintenance(node: Node, message: str | None) -> str | None:
    if not node.maintenance:
        return None
    if message and node.maintenance_reason == message:
        return "it is in maintenance because of that"
    return f"it is in maintenance: {node.maintenance_reason or 'no reason given'}"


def _service(session: Session) -> str | None:
    """What is wrong with the service as a whole, if anything."""
    if conductors.alive(session, of(session).settings.conductor.heartbeat_timeout):
        return None
    return "no conductor is alive: nothing goes on until one is started"


def _at_work(
    session: Session,
    node: Node,
    operation: Operation,
    called: str,
    refused: Sequence[Refusal],
) -> Answer:
    step = operations.current_step(session, operation)
    rest = [row for row in operations.pending(session, operation) if row.position > step.position]
    after = f"step {rest[0].label}" if rest else _end_of(node, operation)
    whom, why, when = _cause(session, node, operation, step)
    state = State(node.provision_state)
    wanted = f" on its way to {node.target_provision_state}" if node.target_provision_state else ""
    about_agent: list[str] = []
    if whom == "agent":
        about_agent = [
            *waits.facts(session, node, operation),
            *(each.told() for each in refused[:MOST_REFUSED]),
        ]
    summary = joined(
        f"Node {called} is {state}{wanted}, in step {step.label} of {operation.kind}: {why}",
        *about_agent,
        f"it has failed: {operation.error['message']}" if operation.error else None,
        _service(session),
    )
    return Answer(
        summary,
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
        living = conductors.living(session, of(session).settings.conductor.heartbeat_timeout)
        if operation.claimed_by not in living:
            lost = f"conductor {step.conductor}, which ran it, gives no sign of life"
            return "conductor", f"{lost}; the next one that is alive runs it again", deadline
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
