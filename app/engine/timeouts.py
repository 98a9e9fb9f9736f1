"""
Timeouts and retries of steps.

Every function runs in the caller's transaction.
"""

from dataclasses import replace

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.db.clock import after, age
from app.engine import agent_waits
from app.lifecycle import flows
from app.models import Node, Operation, OperationState, OperationStep
from app.runtime import runtime_of
from drivers.core.errors import FailureCode
from drivers.core.steps import Failed, Outcome, Wait


def retry_transient(step: OperationStep, outcome: Outcome) -> Outcome:
    """
    Replace a retryable failure by a wait with exponential backoff while tries are left.

    A machine or BMC that is busy for now (`FailureCode.BUSY`) ends that by itself: the step is
    tried again until its deadline.
    """
    if not isinstance(outcome, Failed) or not outcome.retryable:
        return outcome
    if outcome.code == FailureCode.BUSY:
        return Wait(step.progress, poll_after=step.backoff, reason=outcome.reason)
    if step.faults + 1 >= step.tries:
        return outcome
    step.faults += 1
    pause = step.backoff * 2 ** (step.faults - 1)
    return Wait(step.progress, poll_after=pause, reason=outcome.reason)


def charge_budget(
    session: Session, node: Node, step: OperationStep, outcome: Outcome, seconds: float | None
) -> Outcome:
    """
    Fail a polling step once its time budget is used up.

    Polls and planned pauses are charged; times without a live conductor or database are not. The
    last poll takes place at the end of the budget. seconds: duration of this poll; None: the step
    was not called, and nothing is charged.
    """
    if seconds is None or not isinstance(outcome, Wait) or outcome.poll_after is None:
        return outcome
    if step.remaining is None:
        limit = budget_of(session, node, step, outcome)
        if not limit:
            return outcome
        step.remaining = limit
    elif step.remaining <= seconds:
        cause = "the machine did not get there in time"
        if agent_waits.is_polled(step):
            cause = "its agent was busy, or did not answer"
        facts = "; ".join((cause, *last_error(step, outcome)))
        return Failed(f"Timeout reached in step {step.label}: {facts}", FailureCode.TIMEOUT)
    else:
        step.remaining -= seconds
    pause = min(outcome.poll_after, step.remaining)
    step.remaining -= pause
    return replace(outcome, poll_after=pause)


def last_error(step: OperationStep, outcome: Wait | None = None) -> list[str]:
    """List the last error that made a step wait, that of its newest outcome first, if any did."""
    error = (outcome and outcome.reason) or step.error
    return [f"the last error: {error}"] if error else []


def budget_of(session: Session, node: Node, step: OperationStep, outcome: Wait) -> float:
    """Return the time budget of a step in seconds, or 0 without a limit."""
    return outcome.timeout or step.timeout or callback_timeout(session, node)


def callback_timeout(session: Session, node: Node) -> float:
    """
    Return the time in seconds that the node's agent may be silent in its state, or 0 without a
    limit.

    It counts from the start of the wait. Ironic counts inspections from their start, but here that
    includes the time in the admission queue.
    """
    # no flow is under way in the state of the cleanup after an abort
    flow = flows.under_way_in(node.provision_state) or flows.DEPLOY
    return float(getattr(runtime_of(session).settings.conductor, flow.callback_timeout))


def extend_deadlines(session: Session, seconds: float) -> None:
    """Extend the deadlines of all waits for agents after `seconds` without any live conductor."""
    is_waiting = (Operation.state == OperationState.WAITING, Operation.wake_at.is_(None))
    for model, condition in (
        (Operation, is_waiting),
        (OperationStep, (OperationStep.operation_id.in_(select(Operation.id).where(*is_waiting)),)),
    ):
        session.execute(
            update(model)
            .where(*condition, model.deadline_at.is_not(None))
            .values(deadline_at=after(seconds - age(model.deadline_at))),
            execution_options={"synchronize_session": False},
        )
