"""
Restoration: a database that was restored from a backup is older than the machines.

What it says of them may be wrong: a node that it has as being cleaned may have been given to
somebody since. So nothing is carried on, and no machine is touched, until an operator has looked.

How it is noticed: conductors raise the water mark in the database all the time, and remember the
highest that they have seen; Redis remembers it too (`workers.witness`). A mark below that comes
from the past.
"""

from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app import log
from app.db import utcnow
from app.models import ACTIVE, Node, Operation, OperationState, StepState, Watermark
from app.services import faults, history, moves, operations, outcomes
from app.states import MACHINE, Event, Kind, State

logger = log.get(__name__)

#: The fault of nodes that an operator has to look at; it goes with their maintenance.
RESTORED = "restored"
REASON = "The database was restored from a backup: compare this node with its machine"


def rise(session: Session, seen: int) -> int:
    """
    Raise the water mark; returns what it is now. seen: the highest mark that the caller knows of.

    Whoever finds it below what was seen declares the database restored.
    """
    row = session.scalar(select(Watermark).with_for_update())
    if row is None:
        row = _first(session)
    if row.level < seen:
        declare(session)
    row.level = max(row.level, seen) + 1
    return row.level


def _first(session: Session) -> Watermark:
    try:
        with session.begin_nested():
            session.add(Watermark(id=1, level=0))
            session.flush()
    except IntegrityError:  # another one was first
        pass
    return session.scalars(select(Watermark).with_for_update()).one()


def level(session: Session) -> int:
    """The water mark, 0 in a database that has none yet."""
    return session.scalar(select(Watermark.level)) or 0


def declare(session: Session) -> tuple[int, int]:
    """
    Take nothing in the rows for true: what is under way ends here, failed, and is not tidied up;
    every node is in maintenance until an operator ends that. No machine is told anything.

    Returns how many operations and nodes it concerns.
    """
    ids = list(session.scalars(select(Operation.id).where(Operation.state.in_(ACTIVE))))
    for operation_id in ids:
        _give_up(session, *operations.lock_operation(session, operation_id))
        session.flush()
    nodes = session.execute(
        update(Node).values(
            fence=Node.fence + 1,
            reservation=None,
            operation_id=None,
            maintenance=True,
            maintenance_reason=func.coalesce(Node.maintenance_reason, REASON),
            fault=RESTORED,
            updated_at=utcnow(),
        ),
        execution_options={"synchronize_session": False},
    )
    session.expire_all()
    count: int = nodes.rowcount  # type: ignore[attr-defined]
    logger.error("database.restored", operations=len(ids), nodes=count)
    return len(ids), count


def _give_up(session: Session, node: Node, operation: Operation) -> None:
    reason = (
        f"{operation.kind} was under way when the backup was made from which the database was"
        " restored; what has become of it since is not known"
    )
    for row in operations.pending(session, operation):
        row.state = StepState.SKIPPED
    operation.error = faults.described("restored", reason) | {"step": None, "retryable": False}
    outcomes.end(session, node, operation, OperationState.FAILED)
    if operation.moves_node:
        enter_failed(session, node, moves.HISTORY_TYPE.get(operation.kind, operation.kind), reason)
    node.target_power_state = None


def enter_failed(session: Session, node: Node, event_type: str, reason: str) -> bool:
    """
    Move a node out of a state in which nobody acts any more, to the failed state of its flow.

    Only rows change: nothing that belongs to a failure, as tidying up, is done. False when the node
    is in no such state.
    """
    state = State(node.provision_state)
    row = MACHINE[state]
    if row.kind not in (Kind.BUSY, Kind.WAIT, Kind.HOLD):
        return False
    moves.move(node, Event.FAIL if Event.FAIL in row.moves else Event.ABORT)
    node.last_error = reason
    if node.provision_state == State.CLEAN_FAIL and not node.maintenance:
        node.maintenance, node.fault = True, moves.CLEAN_FAILURE
        node.maintenance_reason = reason
    history.add(session, node, event_type, reason, "ERROR")
    return True
