"""
Transitions: from the outcome of a step to the next state of its operation and node.

Every function runs in the caller's transaction, with the node's row locked, and makes one complete
change: the operation advances, waits, is held, fails or ends.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.clock import after, age, now
from app.engine import (
    aborts,
    agent_waits,
    child_nodes,
    operation_end,
    provision_state,
    timeouts,
    wake,
)
from app.engine.dispatch import admit, dispatch
from app.engine.operations import append, current_step, has_frame, pending, rewind, steps_of
from app.errors import NodeLocked
from app.hardware import targets
from app.inventory import history
from app.lifecycle import failures, flows
from app.lifecycle.operation_states import OperationEvent, StepEvent, step_transition, transition
from app.lifecycle.provision_states import MACHINE, Event, Kind, State
from app.models import (
    AgentRecord,
    Node,
    Operation,
    OperationKind,
    OperationState,
    OperationStep,
    StepSource,
)
from app.observe import log
from app.planning import planning
from app.runtime import runtime_of
from drivers.core.errors import FailureCode
from drivers.core.steps import Failed, Flow, Hold, Wait

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Most restarts of an automated clean after changes of the agent.
RESTARTS = 3


def done(
    session: Session, node: Node, operation: Operation, step: OperationStep, result: Any
) -> bool:
    """Record a finished step; advance or end the operation. Returns whether a step follows."""
    step.progress, step.result = {}, dict(result) or None
    if step.child:
        child_nodes.release(session, operation)
    if step.collects and not step.abort_after:
        errors = _replan(session, node, operation, step)
        if errors:
            return fail(
                session, node, operation, step, Failed("; ".join(errors), FailureCode.INVALID_STEPS)
            )
    step_transition(step, StepEvent.FINISH)
    step.finished_at = now()
    if step.abort_after:
        abort(session, node, operation, step)
        return False
    if step.event:
        operation_end.fire(session, node, operation, Event(step.event))
    follows = _advance(session, node, operation, step, OperationEvent.ADVANCE)
    if follows and step.event and not admit(session, node, operation):
        dispatch(session, node, operation, OperationEvent.DISPATCH)
        return False
    return follows


def wait(
    session: Session, node: Node, operation: Operation, step: OperationStep, outcome: Wait
) -> None:
    """
    Record that a step waits: set its deadline, and release the node if its flow has a wait state.

    outcome: as returned by `timeouts.charge_budget`.
    """
    step_transition(step, StepEvent.WAIT)
    transition(session, operation, OperationEvent.WAIT)
    step.progress = dict(outcome.progress)
    if outcome.reason:
        _record_reason(session, node, operation, step, outcome.reason)
    elif step.error:
        step.error = ""
    operation.wake_at = operation.deadline_at = None
    limit = timeouts.budget_of(session, node, step, outcome)
    if outcome.poll_after is not None:
        operation.wake_at = after(outcome.poll_after)
        if step.remaining is not None:
            step.deadline_at = session.scalar(select(after(outcome.poll_after + step.remaining)))
            operation.deadline_at = step.deadline_at
    elif limit and not (outcome.timeout or step.timeout):  # each heartbeat restarts it
        operation.deadline_at, step.deadline_at = after(limit), None
    elif limit:
        step.deadline_at = step.deadline_at or session.scalar(select(after(limit)))
        operation.deadline_at = step.deadline_at
    if operation.moves_node and _leads_to(node, Event.WAIT):
        provision_state.move(session, node, Event.WAIT)
        operation_end.release(node)
    wake.resume_if_heartbeat(session, node, operation)


def _leads_to(node: Node, event: Event) -> bool:
    """
    Return whether a step that waits, or is held, moves its node.

    False in a failed state: the cleanup of an aborted operation waits there, and the node stays
    reserved.
    """
    state = MACHINE[State(node.provision_state)]
    return state.kind is Kind.BUSY and event in state.moves


def _record_reason(
    session: Session, node: Node, operation: Operation, step: OperationStep, reason: str
) -> None:
    """
    Record the error for which a step waits.

    The step has the last one, until it waits without any. The log has each new one, at a limited
    rate, and the node's history the first one of the step: a machine may answer with another error
    each time, or every other time.
    """
    if step.error is None:
        event = f"Step {step.label} waits after an error: {reason}"
        kind = flows.event_type(operation.kind)
        history.add(session, node, kind, event, "WARNING", user=operation.requested_by)
    if step.error != reason:
        facts = {"node": node.uuid, "operation": operation.uuid, "step": step.label}
        seldom.warning("step.waits_after_error", **facts, reason=reason)
    step.error = reason


def hold(
    session: Session, node: Node, operation: Operation, step: OperationStep, outcome: Hold
) -> bool:
    """
    Hold the operation until an operator resumes it; no deadline runs.

    Where the node cannot be held, the step fails. Returns whether a cleanup step follows.
    """
    if not _leads_to(node, Event.HOLD):
        reason = f"{step.label}: a node cannot be held while it is {node.provision_state}"
        return fail(session, node, operation, step, Failed(reason, FailureCode.NOT_SUPPORTED))
    step_transition(step, StepEvent.WAIT)
    transition(session, operation, OperationEvent.HOLD)
    step.progress = dict(outcome.progress)
    operation.wake_at = operation.deadline_at = step.deadline_at = None
    provision_state.move(session, node, Event.HOLD)
    operation_end.release(node)
    return False


def unhold(session: Session, node: Node) -> None:
    """Resume a held operation at once."""
    operation = _lock_active(session, node)
    provision_state.move(session, node, Event.UNHOLD)
    if operation is None:  # it has ended meanwhile: the deadline of the wait applies
        return
    transition(session, operation, OperationEvent.UNHOLD)
    wake.resume_operation(session, node, operation)


def fail(
    session: Session, node: Node, operation: Operation, step: OperationStep, failure: Failed
) -> bool:
    """
    Fail a step: append the cleanup steps, then enter the failed state. Returns whether a step
    follows.

    A failed cleanup step is recorded and does not stop the cleanup. An automated clean restarts if
    the agent's hardware managers have changed.
    """
    if step.child:
        child_nodes.release(session, operation)
    if failure.code == FailureCode.VERSION_MISMATCH and _rewind_clean(session, operation, step):
        history.record_restart(session, node, failure.reason, operation.requested_by)
        dispatch(session, node, operation, OperationEvent.RESTART)
        return False
    step_transition(step, StepEvent.FAIL)
    step.finished_at, step.error = now(), failure.reason
    if step.source == StepSource.TIDY:
        assert operation.error is not None  # cleanup follows a failure or an abort
        operation.error = failures.with_cleanup(operation.error, step, failure)
    else:
        operation.error = failures.document(step, failure)
        later_rows = [row for row in pending(session, operation) if row.position > step.position]
        for row in later_rows:
            step_transition(row, StepEvent.SKIP)
        cleanup = _cleanup_rows(session, node, operation)
        if operation.moves_node:
            append(session, operation, cleanup)
    return _advance(session, node, operation, step, OperationEvent.CLEAN_UP)


def _advance(
    session: Session,
    node: Node,
    operation: Operation,
    step: OperationStep,
    event: OperationEvent,
) -> bool:
    """Move the cursor to the next step with an event; the caller sends or runs it."""
    later_rows = [row for row in pending(session, operation) if row.position > step.position]
    if not later_rows:
        operation_end.end_of_steps(session, node, operation)
        return False
    operation.cursor = later_rows[0].position
    transition(session, operation, event)
    operation.claimed_by = operation.deadline_at = None
    operation.sent_at = operation.first_sent_at = now()
    operation.sends = 1
    return True


def _cleanup_rows(session: Session, node: Node, operation: Operation) -> list[OperationStep]:
    flow = flows.busy_in(node.provision_state)
    if flow is None or not (flow.cleanup and has_frame(session, operation)):
        return []
    started = any(row.flow and row.attempts for row in steps_of(session, operation))
    setting = None if started else flow.power_off_on_failure
    power_off = bool(setting and getattr(runtime_of(session).settings.conductor, setting))
    return planning.cleanup(targets.of_node(session, node), flow.name, power_off=power_off)


def _replan(
    session: Session, node: Node, operation: Operation, step: OperationStep
) -> Sequence[str]:
    """
    Insert the steps that the agent has reported between those that have not run.

    Returns the errors in the requested steps, now that all offered steps are known.
    """
    under_way = flows.busy_in(node.provision_state)
    assert under_way is not None  # only frames of flows collect the agent's steps
    pending_rows = [row for row in pending(session, operation) if row.position > step.position]
    finished_rows = [row for row in steps_of(session, operation) if row.position <= step.position]
    session.flush()
    target, requested_steps = targets.of_node(session, node), operation.requested_steps
    rows, errors = planning.continued(
        runtime_of(session), target, under_way, finished_rows, pending_rows, requested_steps
    )
    if errors:
        extension = (step.result or {}).get("lacks")
        return [*errors, f"the ramdisk has no {extension} extension"] if extension else errors
    for row in pending_rows:
        session.delete(row)
        steps_of(session, operation).remove(row)
    session.flush()  # their positions are free before the new rows take them
    append(session, operation, rows)
    return ()


def _rewind_clean(session: Session, operation: Operation, step: OperationStep) -> bool:
    """
    Rewind an automated clean to the step that collects the agent's steps.

    Limited, as the agent may change at each boot (spec implement-cleaning-states).
    """
    rows = steps_of(session, operation)
    collecting_row = next((row for row in rows if row.collects), None)
    if step.flow != Flow.CLEAN or operation.kind == OperationKind.CLEAN or collecting_row is None:
        return False
    collecting_row.faults += 1
    if collecting_row.faults > RESTARTS:
        return False
    rewind(session, operation, collecting_row.position)
    return True


def abort(session: Session, node: Node, operation: Operation, step: OperationStep) -> None:
    """Abort an operation at a step of it and start the cleanup."""
    child_nodes.release(session, operation)
    cleans_up = aborts.begin(session, node, operation, step)
    operation_end.record_error(session, node, operation)
    if cleans_up:
        transition(session, operation, OperationEvent.CLEAN_UP)
        dispatch(session, node, operation, OperationEvent.DISPATCH)
    else:
        operation_end.end_of_steps(session, node, operation)


def request_abort(session: Session, node: Node) -> None:
    """
    Abort the node's active operation, also while a conductor runs a step of it.

    A step that must not be interrupted is finished first. The operation is locked, so that no claim
    or outcome is recorded concurrently. A conductor that runs the step loses its claim by the new
    fence: its later writes are refused.
    """
    operation = _lock_active(session, node)
    if operation is None:  # no operation is active: only the state changes
        provision_state.move(session, node, Event.ABORT)
        return
    step = current_step(session, operation)
    if operation.is_queued or aborts.may_interrupt(step):
        abort(session, node, operation, step)
    else:
        step.abort_after = True


def _lock_active(session: Session, node: Node) -> Operation | None:
    """Lock and return the node's operation that has not ended, if any."""
    query = select(Operation).where(*aborts.abortable_operation(node)).with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def expire(session: Session, node: Node, operation: Operation) -> None:
    """
    Fail an operation whose wait for its agent has passed the deadline.

    A heartbeat since then extends the deadline instead.
    """
    step = current_step(session, operation)
    if step.deadline_at is None:
        limit = timeouts.callback_timeout(session, node)
        silence = session.scalar(
            select(age(AgentRecord.last_heartbeat_at)).where(AgentRecord.node_id == node.id)
        )
        if silence is not None and silence < limit:
            operation.deadline_at = after(limit - silence)
            return
    waited = f"Timeout reached while waiting for the agent of node {node.uuid} in step {step.label}"
    facts = (*agent_waits.facts(session, node, operation), *timeouts.last_error(step))
    reason = "; ".join((waited, *facts))
    fail_waiting(session, node, operation, step, Failed(reason, FailureCode.TIMEOUT))


def fail_waiting(
    session: Session, node: Node, operation: Operation, step: OperationStep, failure: Failed
) -> None:
    """Fail a waiting operation, and dispatch its cleanup."""
    if MACHINE[State(node.provision_state)].kind is Kind.WAIT and operation.moves_node:
        provision_state.move(session, node, Event.RESUME)
    if fail(session, node, operation, step, failure):
        dispatch(session, node, operation, OperationEvent.DISPATCH)


def supersede(session: Session, node: Node) -> None:
    """
    End the waiting, held or queued operation of a node in favour of another verb.

    Raises NodeLocked: the operation was admitted since the verb was accepted.
    """
    operation = _lock_active(session, node)
    if operation is None:
        return
    if operation.state == OperationState.QUEUED and not operation.is_queued:
        raise NodeLocked(node.uuid, node.reservation or "")
    child_nodes.release(session, operation)
    for row in pending(session, operation):
        step_transition(row, StepEvent.SKIP)
    operation_end.end(session, node, operation, OperationEvent.SUPERSEDE)
    session.flush()  # the old operation releases the node before the new one starts
