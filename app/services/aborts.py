"""
Aborts: an operation that somebody has stopped, from the request to the end of its tidying up.

The node enters its failed state at once, and stays reserved there until the machine is tidied up.
"""

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from app import flows
from app.flows import ProvisionFlow
from app.models import ACTIVE, BESIDE, Node, Operation, OperationStep, StepSource, StepState
from app.services import faults, moves, planning, targets
from app.services.operations import append, pending, steps_of
from app.states import MACHINE, Event, Kind, State
from drivers.core.errors import FailureCode


def may_interrupt(step: OperationStep) -> bool:
    """
    Whether a step may end before it is done: one that has not begun, one that surrounds the steps
    of a flow, and one that is declared abortable.
    """
    return step.state == StepState.PENDING or step.flow is None or step.abortable


def is_possible(session: Session, node: Node) -> bool:
    """Whether the node is reserved for an operation that an abort would end."""
    query = select(Operation).where(Operation.id == node.operation_id, *of_node(node))
    operation = session.scalar(query)
    return operation is not None and not operation.error  # else it only tidies up


def of_node(node: Node) -> tuple[ColumnElement[bool], ...]:
    """The operation that an abort of the node is about."""
    return (
        Operation.node_id == node.id,
        Operation.state.in_(ACTIVE),
        Operation.kind.not_in(BESIDE),
        Operation.aborting.is_(False),
    )


def begin(
    session: Session,
    node: Node,
    operation: Operation,
    step: OperationStep,
    flow: ProvisionFlow | None,
) -> bool:
    """
    Stop an operation at a step, and plan what tidies up. Returns whether there is anything to do.

    step: the current one, finished or interrupted.
    """
    if step.state != StepState.DONE:
        step.state = StepState.ABORTED
    rest = [row for row in pending(session, operation) if row.position > step.position]
    for row in rest:
        row.state = StepState.SKIPPED
    operation.aborting = True
    where = "before it began" if operation.is_queued else f"in step {step.label}"
    operation.error = faults.described(
        FailureCode.ABORTED, f"By request, the {operation.kind} operation was aborted {where}."
    ) | {"step": step.label, "attempt": step.attempts, "retryable": False}
    state = State(node.provision_state)
    moves.move(node, Event.FAIL if MACHINE[state].kind is Kind.BUSY else Event.ABORT)
    moves.settle(session, node, state, Event.ABORT, operation)
    rows = steps_of(session, operation)
    prepared = any(row.source == StepSource.FRAME for row in rows)
    if flow is None or not (flow.cleanup and prepared) or operation.is_queued:
        return False
    tidy = planning.tidy_abort(targets.of_node(session, node), flow.name)
    last = rows[-1].position
    append(session, operation, tidy, last + 1)
    if tidy:
        operation.cursor = last + 1
    return bool(tidy)


def arrive(session: Session, node: Node, operation: Operation) -> None:
    """The machine is tidied up, or could not be: a service that was aborted ends as it began."""
    state = State(node.provision_state)
    bad = [
        row
        for row in steps_of(session, operation)
        if row.source == StepSource.TIDY and row.state == StepState.FAILED
    ]
    if bad:
        node.last_error = (
            f"{node.last_error or ''} Tidying up failed in {bad[0].label}: {bad[0].error}".strip()
        )
        flow = flows.failed_in(state)
        if flow and flow.fault:
            moves.leave_to_operator(node, flow.fault)
    elif state is State.SERVICE_FAIL:
        moves.move(node, Event.ABORT)
        moves.settle(session, node, state, Event.ABORT, operation)
