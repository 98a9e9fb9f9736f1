"""
Waking: how an operation that waits goes on.

Every function runs inside the caller's transaction, with the node's row locked.
"""

from collections.abc import Sequence

from sqlalchemy import BindParameter, ColumnElement, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from app.db.clock import after, age, now
from app.engine import provision_state
from app.engine.operations import hand_out, lock
from app.models import (
    BESIDE,
    AgentRecord,
    Conductor,
    Node,
    Operation,
    OperationState,
)
from app.operation_states import OperationEvent
from app.runtime import Runtime
from app.states import MACHINE, Event, Kind, State

#: Seconds for which an agent that is polled need not be listened to.
WATCHED = 600.0
#: Operations that are written in one transaction.
TOGETHER = 200


def wake(session: Session, node: Node, operation: Operation) -> bool:
    """
    Hand a waiting operation out again; False when another operation has the node just now.

    It wakes when that one ends, if the agent has called meanwhile.
    """
    if operation.state != OperationState.WAITING:
        return False
    if node.reservation is not None and node.operation_id != operation.id:
        return False
    if operation.moves_node and MACHINE[State(node.provision_state)].kind is Kind.WAIT:
        provision_state.move(node, Event.RESUME)
    hand_out(session, node, operation, OperationEvent.WAKE)
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


def unwatched(timeout: float | BindParameter[float]) -> ColumnElement[bool]:
    """
    Condition on a waiting operation: no live conductor polls its agent, heartbeats have to wake it.

    timeout: seconds after which a conductor without heartbeat counts as dead.
    """
    alive = select(Conductor.incarnation).where(
        Conductor.online, age(Conductor.heartbeat_at) < timeout
    )
    by_nobody = func.coalesce(Operation.claimed_by, "").not_in(alive)
    return or_(Operation.watched_until.is_(None), Operation.watched_until < now(), by_nobody)


def keep_watch(runtime: Runtime, watched: Sequence[tuple[int, int]]) -> None:
    """Agents are still polled for these, (id, fence): nothing else need wake them for as long."""
    for at in range(0, len(watched), TOGETHER):
        these = tuple_(Operation.id, Operation.fence).in_(watched[at : at + TOGETHER])
        with runtime.transaction() as session:
            session.execute(
                update(Operation)
                .where(these, Operation.watched_until.is_not(None))
                .values(watched_until=after(WATCHED))
                .execution_options(synchronize_session=False)
            )


def leave_to_agent(runtime: Runtime, operation_id: int, fence: int) -> None:
    """An agent does not answer: its next sign of life is to wake what waits for it."""
    with runtime.transaction() as session:
        session.execute(
            update(Operation)
            .where(Operation.id == operation_id, Operation.fence == fence)
            .values(watched_until=None)
        )


def wake_if_called(session: Session, node: Node, operation: Operation) -> None:
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


def wake_what_waited(session: Session, node: Node) -> None:
    """A change of power is over: go on with what its agent has called for meanwhile."""
    waiting = session.scalar(
        select(Operation).where(
            Operation.node_id == node.id,
            Operation.state == OperationState.WAITING,
            Operation.kind.not_in(BESIDE),
        )
    )
    if waiting is not None:
        wake_if_called(session, node, waiting)
