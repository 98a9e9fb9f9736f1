"""
Endings: the end of an operation, and the event that it fires on its node.

Every function runs in the caller's transaction, with the node's row locked.
"""

from collections.abc import Callable, Sequence

from sqlalchemy.orm import Session

from app.db.clock import moment
from app.db.transactions import call_after_commit
from app.engine import aborts, provision_state, wake
from app.engine.dispatch import free_slot
from app.engine.operations import steps_of
from app.engine.records import sanitation
from app.inventory import history
from app.lifecycle import flows
from app.lifecycle.operation_states import OperationEvent, transition
from app.lifecycle.provision_states import MACHINE, Event, State
from app.metrics.kinds import one_of
from app.metrics.table import OPERATION_FAILURES, OPERATIONS
from app.models import READING, Node, Operation, OperationState, OperationStep
from app.observe import log
from app.process import tracing
from drivers.core.errors import FailureCode

logger = log.get(__name__)


def end_of_steps(session: Session, node: Node, operation: Operation) -> None:
    """End an operation without further steps, and fire the event of its end on the node."""
    failed = operation.error is not None
    if operation.aborting:
        end(session, node, operation, OperationEvent.ABORT)
        aborts.finish(session, node, operation)
        release(node)
        return
    end(session, node, operation, OperationEvent.FAIL if failed else OperationEvent.SUCCEED)
    if operation.moves_node:
        fire(session, node, operation, Event.FAIL if failed else Event.DONE)
        release(node)
        return
    node.target_power_state = None
    if failed:
        record_error(session, node, operation)
    release(node)
    session.flush()
    wake.resume_after_power_change(session, node)


def end(session: Session, node: Node, operation: Operation, event: OperationEvent) -> None:
    """End an operation by an event that leads to a final state."""
    transition(session, operation, event)
    operation.finished_at = moment(session)
    operation.deadline_at = operation.wake_at = None
    free_slot(session, operation)
    report_end(session, node, operation)


def report_end(session: Session, node: Node, operation: Operation) -> None:
    """
    Log the end of an operation, insert its sanitation report if it is to have one, and measure it
    once it is committed.

    A failure is logged as a warning with its cause and its requester.
    """
    sanitation.record(session, node, operation)
    call_after_commit(session, _measurement(node, operation))
    facts = {
        "operation": operation.uuid,
        "node": node.uuid,
        "kind": str(operation.kind),
        "request_id": operation.request_id,
    }
    if operation.state != OperationState.FAILED:
        logger.info("operation.ended", **facts, state=str(operation.state))
        return
    error = operation.error or {}
    logger.warning(
        "operation.failed",
        **facts,
        name=node.name,
        code=error.get("code"),
        reason=error.get("message"),
        failed_in=error.get("step"),
        user=operation.requested_by,
    )


def _measurement(node: Node, operation: Operation) -> Callable[[], None]:
    """Return a function that counts and traces the end of an operation, without another read."""
    began, end = operation.created_at, operation.finished_at
    assert end is not None
    seconds = max((end - began).total_seconds(), 0.0)
    request, facts = operation.request_id, {"node": node.uuid, "operation": operation.uuid}
    kind, state = str(operation.kind), str(operation.state)
    code = one_of(str((operation.error or {}).get("code")), _CODES)

    def count() -> None:
        OPERATIONS.observe(seconds, kind, state)
        if state == OperationState.FAILED:
            OPERATION_FAILURES.add(kind, code)
            facts["code"] = code
        name, failed = f"operation {kind}", state == OperationState.FAILED
        tracing.ended(request, name, began, end, failed=failed, outcome=state, **facts)

    return count


_CODES = frozenset(map(str, FailureCode))


def fire(session: Session, node: Node, operation: Operation, event: Event) -> None:
    """Apply an event of an operation to its node, with effects and history entries."""
    state = State(node.provision_state)
    stays = node.retired or node.target_provision_state == State.MANAGEABLE
    if event is Event.DONE and state is State.CLEANING and stays:
        event = Event.MANAGE
    milestone = MACHINE[state].passed
    user = operation.requested_by
    if event is Event.FAIL:
        failed_in = (operation.error or {}).get("step")
        history.record_end(session, node, _steps_of_flow(session, operation), failed_in, user)
    else:
        if milestone:
            history.add(session, node, "transition", f"The node was {milestone}.", user=user)
        history.record_end(session, node, _steps_of_flow(session, operation), user=user)
    provision_state.move(session, node, event)
    if event is Event.FAIL:
        record_error(session, node, operation)
    else:
        history.record_start(session, node, _steps_of_flow(session, operation), user)
    provision_state.apply_effects(session, node, state, event, operation)


def _steps_of_flow(session: Session, operation: Operation) -> Sequence[OperationStep]:
    """
    Return the steps of the current flow: all after the last step that fired an event.

    Empty for an operation that was never dispatched.
    """
    if not operation.fence:  # never dispatched
        return ()
    rows = steps_of(session, operation)
    return rows[next((index + 1 for index, row in enumerate(rows) if row.event), 0) :]


def record_error(session: Session, node: Node, operation: Operation) -> None:
    """Record the operation's error on the node, unless it only read, and in its history."""
    message = (operation.error or {}).get("message")
    if operation.kind not in READING:
        node.last_error = message
    history.add(
        session,
        node,
        flows.event_type(operation.kind),
        message or "",
        "ERROR",
        user=operation.requested_by,
    )


def release(node: Node) -> None:
    """Release a node from its operation, which has ended or waits."""
    node.reservation = node.operation_id = None
