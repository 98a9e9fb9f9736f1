"""
Aborts of operations: from the request to the end of the cleanup.

The node enters its failed state at once, and stays reserved until the machine is cleaned up.
"""

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from app.engine import pending_power, provision_state
from app.engine.operations import append, has_frame, pending
from app.hardware import targets
from app.lifecycle import failures, flows
from app.lifecycle.operation_states import StepEvent, step_transition
from app.lifecycle.provision_states import MACHINE, Event, Kind, State
from app.models import ACTIVE, BESIDE, Node, Operation, OperationStep, StepState
from app.planning import planning
from drivers.core.errors import FailureCode


def may_interrupt(step: OperationStep) -> bool:
    """
    Return whether a step may be interrupted.

    True for a pending step, a step of the frame, and a step that is declared abortable.
    """
    return step.state == StepState.PENDING or step.flow is None or step.abortable


def is_possible(session: Session, node: Node) -> bool:
    """
    Return whether an abort would end the operation that holds the node's reservation.

    False for an operation with an error: only its cleanup is left.
    """
    query = select(Operation).where(Operation.id == node.operation_id, *abortable_operation(node))
    operation = session.scalar(query)
    return operation is not None and not operation.error


def abortable_operation(node: Node) -> tuple[ColumnElement[bool], ...]:
    """Conditions that select the operation of the node that an abort ends."""
    return (
        Operation.node_id == node.id,
        Operation.state.in_(ACTIVE),
        Operation.kind.not_in(BESIDE),
        Operation.aborting.is_(False),
    )


def begin(session: Session, node: Node, operation: Operation, step: OperationStep) -> bool:
    """
    Stop an operation at a step and append its cleanup steps.

    step: the current one, finished or interrupted. Returns whether there are cleanup steps.
    """
    if step.state != StepState.DONE:
        pending_power.note(session, node, operation, step)
        step_transition(step, StepEvent.ABORT)
    remaining = [row for row in pending(session, operation) if row.position > step.position]
    for row in remaining:
        step_transition(row, StepEvent.SKIP)
    operation.aborting = True
    point = (
        f"before {node.provision_state} began" if operation.is_queued else f"in step {step.label}"
    )
    operation.error = failures.describe(
        FailureCode.ABORTED, f"By request, the {operation.kind} operation was aborted {point}."
    ) | {"step": step.label, "attempt": step.attempt, "retryable": False}
    state, flow = State(node.provision_state), flows.under_way_in(node.provision_state)
    provision_state.move(
        session, node, Event.FAIL if MACHINE[state].kind is Kind.BUSY else Event.ABORT
    )
    provision_state.apply_effects(session, node, state, Event.ABORT, operation)
    prepared = has_frame(session, operation)
    if flow is None or not (flow.cleanup and prepared) or operation.is_queued:
        return False
    cleanup = planning.abort_cleanup(targets.of_node(session, node), flow.name)
    append(session, operation, cleanup)
    if cleanup:
        operation.cursor = cleanup[0].position
    return bool(cleanup)


def finish(session: Session, node: Node, operation: Operation) -> None:
    """
    Record the end of the cleanup on the node.

    After a failed cleanup the error is added to `last_error` and the fault of the flow is set.
    After a successful one, a node whose service was aborted leaves `service failed`.
    """
    state = State(node.provision_state)
    error = operation.error or {}
    if "cleanup" in error:
        node.last_error = error["message"]
        flow = flows.failed_in(state)
        if flow and flow.fault:
            provision_state.set_fault(node, flow.fault)
    elif state is State.SERVICE_FAIL:
        provision_state.move(session, node, Event.ABORT)
        provision_state.apply_effects(session, node, state, Event.ABORT, operation)
