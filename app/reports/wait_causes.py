"""
Causes of an operation's wait: the awaited party, the reason, and the latest end.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.cluster import conductors
from app.engine import admission, agent_waits, timeouts
from app.models import Conductor, Node, Operation, OperationState, OperationStep
from app.runtime import runtime_of
from drivers.core.steps import AWAITED


class AwaitedParty(StrEnum):
    """Party whose action ends a wait: the values of `waiting_for`."""

    ADMISSION = "turn"  # a slot of the admission queue; clients know it by this value
    CONDUCTOR = "conductor"
    MACHINE = "machine"
    AGENT = "agent"
    CHILD = "child"  # another operation, which holds a child node
    TIMER = "timer"
    OPERATOR = "operator"


class Cause(NamedTuple):
    """Reason of a wait, and the party that ends it."""

    party: AwaitedParty
    reason: str
    until: datetime | None = None  # latest end of the wait, if it has one


def _unserved(session: Session, node: Node) -> str:
    """Describe why no conductor serves a node: those of its group may be drained."""
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    of_group = [
        conductor
        for conductor in conductors.drained(session, timeout)
        if conductor.group == node.conductor_group
    ]
    reasons = "".join(f"; {conductor.summary()}" for conductor in of_group)
    return f"no live conductor serves it{reasons}"


def _of_message(session: Session, operation: Operation) -> str:
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    impediments = dict(conductors.impeded(session, timeout))
    name = session.scalar(
        select(Conductor.hostname).where(Conductor.incarnation == operation.sent_to)
    )
    if name and conductors.is_drained(session, name):
        return f"conductor {name}, to which it was sent, is drained; another one gets it"
    if name in impediments:
        reason = impediments[name]
        return (
            f"conductor {name}, to which it was sent, cannot begin it: {reason}; it is sent again"
        )
    return "a message to its conductor is on its way"


def cause_of(session: Session, node: Node, operation: Operation, step: OperationStep) -> Cause:
    """Return the cause of an operation's wait."""
    state, deadline = operation.state, operation.deadline_at
    if state == OperationState.HELD:
        return Cause(AwaitedParty.OPERATOR, "it is held until unhold or abort is requested")
    if state == OperationState.QUEUED:
        admission_document = admission.document(session, operation)
        if admission_document is not None:
            return Cause(AwaitedParty.ADMISSION, _of_queue(admission_document))
        if operation.sent_to is None:
            return Cause(AwaitedParty.CONDUCTOR, _unserved(session, node))
        return Cause(AwaitedParty.CONDUCTOR, _of_message(session, operation))
    if state == OperationState.RUNNING:
        live_incarnations = conductors.living_incarnations(
            session, runtime_of(session).settings.conductor.heartbeat_timeout
        )
        if operation.claimed_by not in live_incarnations:
            reason = (
                f"conductor {step.conductor}, which ran it, sends no heartbeats; another live"
                " conductor takes it over"
            )
            return Cause(AwaitedParty.CONDUCTOR, reason, deadline)
        reason = f"conductor {step.conductor} runs it"
        if conductors.is_drained(session, step.conductor or ""):
            reason += "; it is drained, and other conductors run the next steps"
        return Cause(AwaitedParty.CONDUCTOR, reason, deadline)
    if operation.wake_at is None:
        at_end = "it fails at the deadline" if deadline else "no deadline is set"
        if node.maintenance:
            at_end = "no deadline ends that while the node is in maintenance"
        reason = f"its agent works, or is being booted; {at_end}"
        return Cause(AwaitedParty.AGENT, reason, deadline)
    party, reason = _cause_of_poll(session, operation, step)
    return Cause(party, reason, operation.wake_at)


def _of_queue(admission_document: Mapping[str, Any]) -> str:
    holders = ", ".join(
        f"{holder['operations']} {holder['kind']} ({holder['state']})"
        for holder in admission_document["held_by"]
    )
    group = admission_document["conductor_group"]
    slots = f"{admission_document['limit']} slots ([conductor]max_concurrent_"
    slots += f"{admission_document['class']})"
    return (
        f"it is number {admission_document['place']} of {admission_document['queued']} in the queue"
        f" for one of {slots}{f' of conductor group {group}' if group else ''}, held by"
        f" {holders or 'no operation'}"
    )


def _cause_of_poll(
    session: Session, operation: Operation, step: OperationStep
) -> tuple[AwaitedParty, str]:
    """Return the awaited party and the reason for a step with a due time."""
    if step.error and step.faults and step.faults < step.tries:
        reason = f"try {step.faults} of {step.tries} failed ({step.error}); it is retried"
        return AwaitedParty.TIMER, reason
    if step.child:
        child = session.scalar(select(Node).where(Node.uuid == step.child))
        if child is not None and child.reservation and child.operation_id != operation.id:
            return AwaitedParty.CHILD, f"child node {child.uuid} is reserved by {child.reservation}"
    if step.flow and step.name == "wait":
        return AwaitedParty.TIMER, "it waits for the requested time"
    if agent_waits.is_polled(step):
        return AwaitedParty.AGENT, "its agent is busy or unreachable; it is polled again soon"
    subject = _awaited(step.progress)
    activity = f"it waits for {subject}" if subject else "the machine works"
    reason = "; ".join((f"{activity}; it is polled again soon", *timeouts.last_error(step)))
    return AwaitedParty.MACHINE, reason


def _awaited(progress: Mapping[str, object]) -> str | None:
    """Return `AWAITED` of a driver's progress, or of a part of the step, if there is one."""
    text = progress.get(AWAITED)
    if isinstance(text, str):
        return text
    parts = (part for part in progress.values() if isinstance(part, Mapping))
    return next(filter(None, map(_awaited, parts)), None)
