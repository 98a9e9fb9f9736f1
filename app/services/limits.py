"""
Limits: how often a step is tried, and how long its machine may take.

Every function runs inside the caller's transaction.
"""

from dataclasses import replace

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app import flows
from app.db import after, age
from app.models import Node, Operation, OperationState, OperationStep
from app.runtime import of
from drivers.core.errors import FailureCode
from drivers.core.steps import Failed, Outcome, Wait


def tolerant(step: OperationStep, outcome: Outcome) -> Outcome:
    """
    What came of an attempt, but a transient fault is waited out while the step may be tried again.
    """
    if not isinstance(outcome, Failed) or not outcome.retryable or step.faults + 1 >= step.tries:
        return outcome
    step.faults, step.error = step.faults + 1, outcome.reason
    return Wait(step.progress, poll_after=step.backoff * 2 ** (step.faults - 1))


def in_time(
    session: Session, node: Node, step: OperationStep, outcome: Outcome, seconds: float
) -> Outcome:
    """
    What came of an attempt, but a machine that is looked at and has had its time has failed.

    Its time is what the looks at it take and the pauses between them, as they were planned: while
    nobody looks, as nobody lives or the database is away, none of it passes. The last look is at
    the end of it. seconds: what this look took.
    """
    if not isinstance(outcome, Wait) or outcome.poll_after is None:
        return outcome
    if step.remaining is None:
        limit = time_of(session, node, step, outcome)
        if not limit:
            return outcome
        step.remaining = limit
    elif step.remaining <= seconds:
        reason = f"Timeout reached in step {step.label}: the machine did not get there in time"
        return Failed(reason, FailureCode.TIMEOUT)
    else:
        step.remaining -= seconds
    pause = min(outcome.poll_after, step.remaining)
    step.remaining -= pause
    return replace(outcome, poll_after=pause)


def time_of(session: Session, node: Node, step: OperationStep, outcome: Wait) -> float:
    """Seconds that a machine may take; 0: as long as it likes."""
    return outcome.timeout or step.timeout or callback_timeout(session, node)


def callback_timeout(session: Session, node: Node) -> float:
    """
    Seconds for which this node may be silent in its state; 0: for ever.

    From when it is waited for: Ironic counts inspections from their start, but here that may have
    been in a queue for long before the machine was switched on.
    """
    # the cleanup after an abort runs in a state in which no flow is under way
    flow = flows.under_way_in(node.provision_state) or flows.DEPLOY
    return float(getattr(of(session).settings.conductor, flow.callback_timeout))


def allow_for(session: Session, seconds: float) -> None:
    """Nobody was there to hear agents for so long: all that are waited for get that time again."""
    waits = (Operation.state == OperationState.WAITING, Operation.wake_at.is_(None))
    for model, condition in (
        (Operation, waits),
        (OperationStep, (OperationStep.operation_id.in_(select(Operation.id).where(*waits)),)),
    ):
        session.execute(
            update(model)
            .where(*condition, model.deadline_at.is_not(None))
            .values(deadline_at=after(seconds - age(model.deadline_at))),
            execution_options={"synchronize_session": False},
        )
