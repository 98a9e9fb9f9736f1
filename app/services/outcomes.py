"""
Outcomes: what comes of a step, and what becomes of its operation and its node.

Every function runs inside the caller's transaction, with the node's row locked, and is all there is
between two states of an operation: it goes on, waits, is held, fails or ends here.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app import flows, log
from app.db import after, age, now, utcnow
from app.errors import Invalid
from app.models import (
    BESIDE,
    AgentRecord,
    Node,
    Operation,
    OperationKind,
    OperationState,
    OperationStep,
    StepSource,
    StepState,
)
from app.runtime import of
from app.services import (
    aborts,
    children,
    faults,
    history,
    limits,
    moves,
    planning,
    steps,
    targets,
    waits,
    waking,
)
from app.services.operations import (
    append,
    current_step,
    go_back,
    hand_out,
    leave_queue,
    pending,
    steps_of,
)
from app.states import MACHINE, Event, Kind, State
from drivers.core.errors import FailureCode
from drivers.core.steps import Failed, Flow, Hold, Wait

logger = log.get(__name__)

#: How often an automated clean begins again because the agent has changed.
RESTARTS = 3


def done(
    session: Session, node: Node, operation: Operation, step: OperationStep, result: Any
) -> bool:
    """A step is finished: go on with the next, or end. Returns whether there is a next one."""
    step.state, step.finished_at, step.progress = StepState.DONE, utcnow(), {}
    step.result = dict(result) or None
    if step.child:
        children.release(session, operation)
    if step.abort_after:
        abort(session, node, operation, step)
        return False
    if step.collects:
        wrong = _replan(session, node, operation, step)
        if wrong:
            return fail(
                session, node, operation, step, Failed("; ".join(wrong), FailureCode.INVALID_STEPS)
            )
    if step.event:
        fire(session, node, operation, Event(step.event))
    return _go_on(session, node, operation, step)


def wait(
    session: Session, node: Node, operation: Operation, step: OperationStep, outcome: Wait
) -> None:
    """
    The machine works: free the node where its state has a wait state, and set the deadline.

    outcome: as `limits.in_time` has left it.
    """
    step.state, step.progress = StepState.WAITING, dict(outcome.progress)
    operation.state = OperationState.WAITING
    operation.wake_at = operation.deadline_at = None
    limit = limits.time_of(session, node, step, outcome)
    if outcome.poll_after is not None:
        operation.wake_at = after(outcome.poll_after)
        if step.remaining is not None:
            step.deadline_at = session.scalar(select(after(outcome.poll_after + step.remaining)))
            operation.deadline_at = step.deadline_at
    elif limit and not (outcome.timeout or step.timeout):  # each heartbeat begins it anew
        operation.deadline_at, step.deadline_at = after(limit), None
    elif limit:
        step.deadline_at = step.deadline_at or session.scalar(select(after(limit)))
        operation.deadline_at = step.deadline_at
    if operation.moves_node and Event.WAIT in MACHINE[State(node.provision_state)].moves:
        moves.move(node, Event.WAIT)
        _release(node)
    waking.wake_if_called(session, node, operation)


def hold(
    session: Session, node: Node, operation: Operation, step: OperationStep, outcome: Hold
) -> bool:
    """An operator goes on; no deadline runs. Returns whether there is a next step to run now."""
    if Event.HOLD not in MACHINE[State(node.provision_state)].moves:
        reason = f"{step.label}: a node cannot be held while it is {node.provision_state}"
        return fail(session, node, operation, step, Failed(reason, FailureCode.NOT_SUPPORTED))
    step.state, step.progress = StepState.WAITING, dict(outcome.progress)
    operation.state = OperationState.HELD
    operation.wake_at = operation.deadline_at = step.deadline_at = None
    moves.move(node, Event.HOLD)
    _release(node)
    return False


def unhold(session: Session, node: Node) -> None:
    """The operator says: go on, at once."""
    operation = session.scalar(_suspended(node))
    moves.move(node, Event.UNHOLD)
    if operation is None:  # it was ended behind our back: the deadline of the wait tells
        return
    operation.state = OperationState.WAITING
    waking.wake(session, node, operation)


def fail(
    session: Session, node: Node, operation: Operation, step: OperationStep, failure: Failed
) -> bool:
    """
    A step has failed: tidy up, then enter the failed state. Returns whether there is a next step.

    A failure while tidying up is noted and does not stop the tidying. An automated clean begins
    again when the agent has come back as another one.
    """
    if step.child:
        children.release(session, operation)
    if failure.code == FailureCode.VERSION_MISMATCH and _begins_again(session, operation, step):
        hand_out(session, node, operation)
        return False
    step.state, step.finished_at, step.error = StepState.FAILED, utcnow(), failure.reason
    if step.source != StepSource.TIDY:
        operation.error = faults.document(step, failure)
        rest = [row for row in pending(session, operation) if row.position > step.position]
        for row in rest:
            row.state = StepState.SKIPPED
        tidy = _tidy_rows(session, node, operation)
        if operation.moves_node and tidy:
            last = max([step.position, *(row.position for row in rest)])
            append(session, operation, tidy, last + 1)
    return _go_on(session, node, operation, step)


def _go_on(session: Session, node: Node, operation: Operation, step: OperationStep) -> bool:
    """Point at the step after this one; the caller sends, or runs it itself."""
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


def _tidy_rows(session: Session, node: Node, operation: Operation) -> list[OperationStep]:
    flow = flows.busy_in(node.provision_state)
    rows = steps_of(session, operation)
    prepared = any(row.source == StepSource.FRAME for row in rows)
    if flow is None or not (flow.cleanup and prepared):
        return []
    begun = any(row.flow and row.attempts for row in rows)
    setting = None if begun else flow.power_off_on_failure
    off = bool(setting and getattr(of(session).settings.conductor, setting))
    return planning.tidy(targets.of_node(session, node), flow.name, power_off=off)


def _replan(
    session: Session, node: Node, operation: Operation, step: OperationStep
) -> Sequence[str]:
    """
    The agent has reported its steps: put them between those that are still to be run.

    Returns what is wrong with the steps that were asked for, now that all are known.
    """
    under_way = flows.busy_in(node.provision_state)
    flow = under_way.step_flow if under_way else None
    assert flow is not None  # only frames of step flows have a step that collects
    rest = [row for row in pending(session, operation) if row.position > step.position]
    before = [row for row in steps_of(session, operation) if row.position <= step.position]
    session.flush()
    target, asked = targets.of_node(session, node), operation.asked_steps
    try:
        wrong = steps.problems(asked, flow, steps.offered(target, flow), agent=False)
    except Invalid as error:
        return [str(error)]
    if wrong:
        return wrong
    rows = planning.with_agent_steps(of(session), target, flow, rest, asked, before)
    for row in rest:
        session.delete(row)
        steps_of(session, operation).remove(row)
    session.flush()  # their positions are free before the new rows take them
    append(session, operation, rows, step.position + 1)
    return ()


def _begins_again(session: Session, operation: Operation, step: OperationStep) -> bool:
    """
    Go back to where the agent lists its steps, if this is an automated clean (spec
    implement-cleaning-states); a few times only, as the agent may change at each boot.
    """
    rows = steps_of(session, operation)
    lists = next((row for row in rows if row.collects), None)
    if step.flow != Flow.CLEAN or operation.kind == OperationKind.CLEAN or lists is None:
        return False
    lists.faults += 1
    if lists.faults > RESTARTS:
        return False
    go_back(session, operation, lists.position)
    return True


def abort(session: Session, node: Node, operation: Operation, step: OperationStep) -> None:
    """Stop an operation at a step of it; the machine is tidied up at once."""
    flow = flows.under_way_in(node.provision_state)
    children.release(session, operation)
    tidies = aborts.begin(session, node, operation, step, flow)
    record_error(session, node, operation)
    if tidies:
        hand_out(session, node, operation)
    else:
        _end_of_steps(session, node, operation)


def request_abort(session: Session, node: Node) -> None:
    """
    Abort what is under way at a node, also while a conductor runs a step of it; where that step
    must not be interrupted, then when it has ended.

    The operation is locked, so that no claim or outcome is recorded meanwhile. A conductor that
    runs the step loses its claim to the new fence: what it still records is refused.
    """
    query = select(Operation).where(*aborts.of_node(node)).with_for_update()
    operation = session.scalar(query.execution_options(populate_existing=True))
    if operation is None:  # nothing is under way: only the state has to be left
        moves.move(node, Event.ABORT)
        return
    step = current_step(session, operation)
    if operation.is_queued or aborts.may_interrupt(step):
        abort(session, node, operation, step)
    else:
        step.abort_after = True


def _suspended(node: Node) -> Select[Operation]:
    """What waits, is held, or has not yet begun."""
    return select(Operation).where(
        Operation.node_id == node.id,
        Operation.state.in_((OperationState.WAITING, OperationState.HELD)) | Operation.is_queued,
        Operation.kind.not_in(BESIDE),
    )


def _end_of_steps(session: Session, node: Node, operation: Operation) -> None:
    """Nothing is left to do: the operation and its node arrive where they should."""
    failed = operation.error is not None
    if operation.aborting:
        end(session, node, operation, OperationState.ABORTED)
        aborts.arrive(session, node, operation)
        _release(node)
        return
    end(session, node, operation, OperationState.FAILED if failed else OperationState.SUCCEEDED)
    if operation.moves_node:
        fire(session, node, operation, Event.FAIL if failed else Event.DONE)
        _release(node)
        return
    node.target_power_state = None
    if failed:
        record_error(session, node, operation)
    _release(node)
    session.flush()
    waking.wake_what_waited(session, node)


def end(session: Session, node: Node, operation: Operation, state: OperationState) -> None:
    operation.state = state
    operation.finished_at = utcnow()
    operation.deadline_at = operation.wake_at = None
    leave_queue(session, operation)
    log_end(node, operation)


def log_end(node: Node, operation: Operation) -> None:
    """Log that an operation has ended: a failure as a warning that says of what and for whom."""
    facts = {"operation": operation.uuid, "node": node.uuid, "kind": str(operation.kind)}
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
        request_id=operation.request_id,
        user=operation.requested_by,
    )


def fire(session: Session, node: Node, operation: Operation, event: Event) -> None:
    """Let an event of an operation happen to its node, with what belongs to it."""
    state = State(node.provision_state)
    stays = node.retired or node.target_provision_state == State.MANAGEABLE
    if event is Event.DONE and state is State.CLEANING and stays:
        event = Event.MANAGE
    passed = MACHINE[state].passed
    user = operation.requested_by
    if event is Event.FAIL:
        failed_in = (operation.error or {}).get("step")
        history.ends(session, node, _steps_of_flow(session, operation), failed_in, user)
    elif passed:
        history.add(session, node, "transition", f"The node was {passed}.", user=user)
        history.ends(session, node, _steps_of_flow(session, operation), user=user)
    moves.move(node, event)
    if event is Event.FAIL:
        record_error(session, node, operation)
    else:
        history.begins(session, node, _steps_of_flow(session, operation), user)
    moves.settle(session, node, state, event, operation)


def _steps_of_flow(session: Session, operation: Operation) -> Sequence[OperationStep]:
    """The steps since an event of one of them has moved the node; none of what never began."""
    if not operation.fence:  # never handed out
        return ()
    rows = steps_of(session, operation)
    return rows[next((at + 1 for at, row in enumerate(rows) if row.event), 0) :]


def record_error(session: Session, node: Node, operation: Operation) -> None:
    """Say on the node what went wrong."""
    error = operation.error or {}
    node.last_error = error.get("message")
    history.add(
        session,
        node,
        flows.event_type(operation.kind),
        node.last_error or "",
        "ERROR",
        user=operation.requested_by,
    )


def _release(node: Node) -> None:
    node.reservation = node.operation_id = None


def expire(session: Session, node: Node, operation: Operation) -> None:
    """
    The deadline of an operation that waits for its agent has passed: it fails, unless that has
    called since.
    """
    step = current_step(session, operation)
    if step.deadline_at is None:
        limit = limits.callback_timeout(session, node)
        silence = session.scalar(
            select(age(AgentRecord.last_heartbeat_at)).where(AgentRecord.node_id == node.id)
        )
        if silence is not None and silence < limit:
            operation.deadline_at = after(limit - silence)
            return
    waited = f"Timeout reached while waiting for the agent of node {node.uuid} in step {step.label}"
    reason = "; ".join([waited, *waits.facts(session, node, operation)])
    fail_waiting(session, node, operation, step, Failed(reason, FailureCode.TIMEOUT))


def fail_waiting(
    session: Session, node: Node, operation: Operation, step: OperationStep, failure: Failed
) -> None:
    """Fail an operation that waits; its tidying is handed out like any other work."""
    if MACHINE[State(node.provision_state)].kind is Kind.WAIT and operation.moves_node:
        moves.move(node, Event.RESUME)
    if fail(session, node, operation, step, failure):
        hand_out(session, node, operation)


def supersede(session: Session, node: Node) -> None:
    """End the waiting or queued operation of a node: another verb takes its place."""
    for operation in session.scalars(_suspended(node)):
        children.release(session, operation)
        for row in pending(session, operation):
            row.state = StepState.SKIPPED
        end(session, node, operation, OperationState.ABORTED)
    session.flush()  # what queued leaves the node before another comes
