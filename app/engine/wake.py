"""
Resume: dispatch waiting operations again.

Every function runs in the caller's transaction, with the node's row locked, unless it takes a
runtime.
"""

from collections.abc import Sequence

from sqlalchemy import BindParameter, ColumnElement, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from app.db.clock import after, age, now
from app.engine import provision_state
from app.engine.dispatch import dispatch
from app.engine.operations import lock
from app.lifecycle.operation_states import OperationEvent
from app.lifecycle.provision_states import MACHINE, Event, Kind, State
from app.models import (
    BESIDE,
    AgentRecord,
    Conductor,
    Node,
    Operation,
    OperationState,
    OperationStep,
)
from app.runtime import Runtime

#: Seconds for which polling replaces the heartbeats of an agent.
POLLING_PERIOD = 600.0
#: Most operations per transaction.
BATCH = 200


def resume_operation(session: Session, node: Node, operation: Operation) -> bool:
    """
    Dispatch a waiting operation again.

    Returns False if it does not wait, or another operation holds the node; in that case it is
    resumed at the end of that operation, if its agent has sent a heartbeat.
    """
    if operation.state != OperationState.WAITING:
        return False
    if node.reservation is not None and node.operation_id != operation.id:
        return False
    if operation.moves_node and MACHINE[State(node.provision_state)].kind is Kind.WAIT:
        provision_state.move(session, node, Event.RESUME)
    dispatch(session, node, operation, OperationEvent.RESUME)
    return True


def resume_on_heartbeat(session: Session, node_id: int) -> None:
    """Resume the operation that waits for the agent's heartbeat, if there is one."""
    node = lock(session, node_id)
    operation = session.scalar(
        select(Operation).where(
            Operation.node_id == node_id,
            Operation.state == OperationState.WAITING,
            Operation.wake_at.is_(None),
        )
    )
    if operation is not None:
        resume_operation(session, node, operation)


def not_polled(timeout: float | BindParameter[float]) -> ColumnElement[bool]:
    """
    Condition on an operation that waits for its agent: no live conductor polls the agent.

    Only then do heartbeats resume the operation. timeout: seconds after which a conductor without
    heartbeat counts as dead.
    """
    live_conductors = select(Conductor.incarnation).where(
        Conductor.online, age(Conductor.heartbeat_at) < timeout
    )
    without_poller = func.coalesce(Operation.claimed_by, "").not_in(live_conductors)
    return or_(Operation.watched_until.is_(None), Operation.watched_until < now(), without_poller)


def extend_polling(runtime: Runtime, polled_operations: Sequence[tuple[int, int]]) -> None:
    """
    Extend the polling of agents for these operations, given as (id, fence).

    Until it expires, their heartbeats resume nothing.
    """
    for start in range(0, len(polled_operations), BATCH):
        condition = tuple_(Operation.id, Operation.fence).in_(
            polled_operations[start : start + BATCH]
        )
        with runtime.transaction() as session:
            session.execute(
                update(Operation)
                .where(condition, Operation.watched_until.is_not(None))
                .values(watched_until=after(POLLING_PERIOD))
                .execution_options(synchronize_session=False)
            )


def leave_to_agent(
    runtime: Runtime, operation_id: int, fence: int, reason: str | None = None
) -> None:
    """
    End the polling of an agent: its next heartbeat resumes the operation.

    reason: the last error of the polls, which its step keeps.
    """
    conditions = (Operation.id == operation_id, Operation.fence == fence)
    with runtime.transaction() as session:
        session.execute(update(Operation).where(*conditions).values(watched_until=None))
        if reason:
            cursor = select(Operation.cursor).where(*conditions).scalar_subquery()
            session.execute(
                update(OperationStep)
                .where(OperationStep.operation_id == operation_id, OperationStep.position == cursor)
                .values(error=reason)
            )


def resume_if_heartbeat(session: Session, node: Node, operation: Operation) -> None:
    """
    Resume the operation if a heartbeat has arrived since its step was claimed.

    Locks the agent's row: a concurrent heartbeat is recorded after this commit, and finds the
    operation waiting.
    """
    if operation.wake_at is not None:
        return
    heartbeats = session.scalar(
        select(AgentRecord.heartbeats).where(AgentRecord.node_id == node.id).with_for_update()
    )
    if heartbeats is not None and heartbeats > operation.heartbeats:
        resume_operation(session, node, operation)


def resume_after_power_change(session: Session, node: Node) -> None:
    """After a power change, resume the waiting operation if its agent has sent a heartbeat."""
    waiting = session.scalar(
        select(Operation).where(
            Operation.node_id == node.id,
            Operation.state == OperationState.WAITING,
            Operation.kind.not_in(BESIDE),
        )
    )
    if waiting is not None:
        resume_if_heartbeat(session, node, waiting)
