"""
Outcomes: what comes of a step, and what becomes of its operation and its node.

Every function runs inside the caller's transaction, with the node's row locked, and is all there is
between two states of an operation: it goes on, waits, wakes, fails or ends here.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app import log
from app.db import after, age, now, utcnow
from app.models import (
    AgentRecord,
    Node,
    Operation,
    OperationState,
    OperationStep,
    StepState,
)
from app.runtime import of
from app.services import history, moves, planning, targets
from app.services.operations import (
    append,
    current_step,
    hand_out,
    lock,
    pending,
    steps_of,
)
from app.states import MACHINE, Event, Kind, State
from drivers.steps import Failed, Flow, Wait

logger = log.get(__name__)

#: The flow whose frame and steps are at work in a state.
FLOW_OF: Mapping[State, str] = {
    State.CLEANING: "clean",
    State.DEPLOYING: "deploy",
    State.DELETING: "delete",
    State.RESCUING: "rescue",
    State.UNRESCUING: "unrescue",
    State.SERVICING: "service",
}
#: How long a machine may take to call back in a state: the option of [conductor].
CALLBACK_TIMEOUT: Mapping[State, str] = {
    State.CLEANING: "clean_callback_timeout",
    State.DEPLOYING: "deploy_callback_timeout",
    State.INSPECTING: "inspect_wait_timeout",
    State.RESCUING: "rescue_callback_timeout",
    State.SERVICING: "service_callback_timeout",
}


def done(
    session: Session, node: Node, operation: Operation, step: OperationStep, result: Any
) -> bool:
    """A step is finished: go on with the next, or end. Returns whether there is a next one."""
    step.state, step.finished_at, step.progress = StepState.DONE, utcnow(), {}
    step.result = dict(result) or None
    if step.collects:
        _replan(session, node, operation, step)
    if step.event:
        fire(session, node, operation, Event(step.event))
    return _go_on(session, node, operation, step)


def wait(
    session: Session, node: Node, operation: Operation, step: OperationStep, outcome: Wait
) -> None:
    """The machine works: free the node where its state has a wait state, and set the deadline."""
    step.state, step.progress = StepState.WAITING, dict(outcome.progress)
    operation.state = OperationState.WAITING
    operation.wake_at = None
    if outcome.poll_after is not None:
        operation.wake_at = after(outcome.poll_after)
    limit = outcome.timeout or callback_timeout(session, node)
    if not limit:
        operation.deadline_at = step.deadline_at = None
    elif outcome.poll_after is None and outcome.timeout is None:  # each heartbeat begins it anew
        operation.deadline_at, step.deadline_at = after(limit), None
    else:
        step.deadline_at = step.deadline_at or session.scalar(select(after(limit)))
        operation.deadline_at = step.deadline_at
    if operation.kind != "power" and Event.WAIT in MACHINE[State(node.provision_state)].moves:
        moves.move(node, Event.WAIT)
        _release(node)
    _wake_if_called(session, node, operation)


def fail(
    session: Session, node: Node, operation: Operation, step: OperationStep, failure: Failed
) -> bool:
    """
    A step has failed: tidy up, then enter the failed state. Returns whether there is a next step.

    A failure while tidying up is noted and does not stop the tidying.
    """
    step.state, step.finished_at, step.error = StepState.FAILED, utcnow(), failure.reason
    if step.source != "tidy":
        operation.error = {
            "code": failure.code,
            "message": failure.reason,
            "step": step.label,
            "attempt": step.attempts,
            "retryable": failure.retryable,
        }
        rest = [row for row in pending(session, operation) if row.position > step.position]
        for row in rest:
            row.state = StepState.SKIPPED
        tidy = _tidy_rows(session, node)
        if operation.kind != "power" and tidy:
            last = max([step.position, *(row.position for row in rest)])
            append(session, operation, tidy, last + 1)
    return _go_on(session, node, operation, step)


def _go_on(session: Session, node: Node, operation: Operation, step: OperationStep) -> bool:
    """Point at the step after this one; the caller sends, or lets its chain do so."""
    rest = [row for row in pending(session, operation) if row.position > step.position]
    if not rest:
        _end_of_steps(session, node, operation)
        return False
    operation.cursor = rest[0].position
    operation.state = OperationState.QUEUED
    operation.claimed_by = operation.deadline_at = None
    operation.sent_at = now()
    operation.sends = 1
    return True


def _tidy_rows(session: Session, node: Node) -> list[OperationStep]:
    flow = FLOW_OF.get(State(node.provision_state))
    if flow is None:
        return []
    return planning.tidy(targets.of_node(session, node), flow)


def _replan(session: Session, node: Node, operation: Operation, step: OperationStep) -> None:
    """The agent has reported its steps: put them between those that are still to be run."""
    flow = Flow(FLOW_OF[State(node.provision_state)])
    rest = [row for row in pending(session, operation) if row.position > step.position]
    session.flush()
    rows = planning.with_agent_steps(of(session), targets.of_node(session, node), flow, rest)
    for row in rest:
        session.delete(row)
        steps_of(session, operation).remove(row)
    session.flush()  # their positions are free before the new rows take them
    append(session, operation, rows, step.position + 1)


def _end_of_steps(session: Session, node: Node, operation: Operation) -> None:
    """Nothing is left to do: the operation and its node arrive where they should."""
    failed = operation.error is not None
    end(node, operation, OperationState.FAILED if failed else OperationState.SUCCEEDED)
    if operation.kind != "power":
        fire(session, node, operation, Event.FAIL if failed else Event.DONE)
        _release(node)
        return
    node.target_power_state = None
    if failed:
        record_error(session, node, operation)
    _release(node)
    session.flush()
    _wake_what_waited(session, node)


def end(node: Node, operation: Operation, state: OperationState) -> None:
    operation.state = state
    operation.finished_at = utcnow()
    operation.deadline_at = operation.wake_at = None
    logger.info(
        "operation.ended",
        operation=operation.uuid,
        node=node.uuid,
        kind=operation.kind,
        state=str(state),
    )


def fire(session: Session, node: Node, operation: Operation, event: Event) -> None:
    """Let an event of an operation happen to its node, with what belongs to it."""
    state = State(node.provision_state)
    stays = node.retired or node.target_provision_state == State.MANAGEABLE
    if event is Event.DONE and state is State.CLEANING and stays:
        event = Event.MANAGE
    passed = MACHINE[state].passed
    moves.move(node, event)
    if event is Event.FAIL:
        record_error(session, node, operation)
    elif passed:
        history.add(session, node, "transition", f"The node was {passed}.")
    moves.settle(session, node, state, event, operation)


def record_error(session: Session, node: Node, operation: Operation) -> None:
    """Say on the node what went wrong."""
    error = operation.error or {}
    node.last_error = error.get("message")
    history.add(
        session,
        node,
        moves.HISTORY_TYPE.get(operation.kind, operation.kind),
        node.last_error or "",
        "ERROR",
    )


# Waking


def wake(session: Session, node: Node, operation: Operation) -> bool:
    """
    Hand a waiting operation out again; False when another operation has the node just now.

    It wakes when that one ends, if the agent has called meanwhile.
    """
    if operation.state != OperationState.WAITING:
        return False
    if node.reservation is not None and node.operation_id != operation.id:
        return False
    if operation.kind != "power" and MACHINE[State(node.provision_state)].kind is Kind.WAIT:
        moves.move(node, Event.RESUME)
    hand_out(session, node, operation)
    return True


def agent_called(session: Session, node_id: int) -> None:
    """The agent has given a sign of life: wake the operation that waits for it, if any."""
    node = lock(session, node_id)
    operation = session.scalar(
        select(Operation).where(
            Operation.node_id == node_id,
            Operation.state == OperationState.WAITING,
            Operation.wake_at.is_(None),
        )
    )
    if operation is not None:
        wake(session, node, operation)


def _release(node: Node) -> None:
    node.reservation = node.operation_id = None


def _wake_if_called(session: Session, node: Node, operation: Operation) -> None:
    """
    A heartbeat that came since the step was claimed is not lost.

    The agent's row is locked: one that comes just now is recorded, and looks, after our commit.
    """
    if operation.wake_at is not None:
        return
    heartbeats = session.scalar(
        select(AgentRecord.heartbeats).where(AgentRecord.node_id == node.id).with_for_update()
    )
    if heartbeats is not None and heartbeats > operation.heartbeats:
        wake(session, node, operation)


def _wake_what_waited(session: Session, node: Node) -> None:
    """A change of power is over: go on with what its agent has called for meanwhile."""
    waiting = session.scalar(
        select(Operation).where(
            Operation.node_id == node.id,
            Operation.state == OperationState.WAITING,
            Operation.kind != "power",
        )
    )
    if waiting is not None:
        _wake_if_called(session, node, waiting)


def expire(session: Session, node: Node, operation: Operation) -> None:
    """
    The deadline of a waiting operation has passed: it fails, unless its agent has called since.
    """
    step = current_step(session, operation)
    if operation.wake_at is None:
        limit = callback_timeout(session, node)
        silence = session.scalar(
            select(age(AgentRecord.last_heartbeat_at)).where(AgentRecord.node_id == node.id)
        )
        if silence is not None and silence < limit:
            operation.deadline_at = after(limit - silence)
            return
    reason = (
        f"Timeout reached while waiting for the agent of node {node.uuid} in step {step.label}"
        if operation.wake_at is None
        else f"Timeout reached in step {step.label}: the machine did not get there in time"
    )
    fail_waiting(session, node, operation, step, Failed(reason, "timeout"))


def fail_waiting(
    session: Session, node: Node, operation: Operation, step: OperationStep, failure: Failed
) -> None:
    """Fail an operation that waits; its tidying is handed out like any other work."""
    if MACHINE[State(node.provision_state)].kind is Kind.WAIT and operation.kind != "power":
        moves.move(node, Event.RESUME)
    if fail(session, node, operation, step, failure):
        hand_out(session, node, operation)


def callback_timeout(session: Session, node: Node) -> float:
    """Seconds for which this node may be silent in its state; 0: for ever."""
    row = MACHINE[State(node.provision_state)]
    busy = row.moves.get(Event.RESUME, State(node.provision_state))
    option = CALLBACK_TIMEOUT.get(busy, "deploy_callback_timeout")
    return float(getattr(of(session).settings.conductor, option))


def supersede(session: Session, node: Node) -> None:
    """End the waiting operation of a node: another verb takes its place."""
    for operation in session.scalars(
        select(Operation).where(
            Operation.node_id == node.id,
            Operation.state.in_((OperationState.WAITING, OperationState.HELD)),
            Operation.kind != "power",
        )
    ):
        for row in pending(session, operation):
            row.state = StepState.SKIPPED
        end(node, operation, OperationState.ABORTED)
