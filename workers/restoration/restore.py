"""
Database restores: detect them, and quarantine the nodes whose rows may be outdated.

After a restore from a backup, the rows may contradict the machines: a node recorded as being
cleaned may have a new tenant. So operations end, and no machine receives a command until an
operator has checked it. This concerns all nodes or, if Redis still knows on which nodes work has
begun since the backup (`workers.restoration.restore_guard`), only those.

Detection: conductors raise the watermark in the database with each heartbeat and remember the
highest one; Redis keeps it too. A lower watermark in the database means that it was restored.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from sqlalchemy import Connection, and_, bindparam, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.db.clock import age, now
from app.db.prepared import Prepared, Row
from app.db.transactions import connection_of
from app.engine import operation_end, operations, provision_state, timeouts
from app.inventory import history
from app.lifecycle import failures, flows
from app.lifecycle.operation_states import OperationEvent, StepEvent, step_transition
from app.lifecycle.provision_states import MACHINE, Event, Kind, State
from app.models import ACTIVE, Fault, Node, Operation, OperationState, Watermark
from app.observe import log
from app.rollouts import rollouts
from app.runtime import runtime_of
from drivers.core.errors import FailureCode

logger = log.get(__name__)

REASON = "The database was restored from a backup: compare this node with its machine"
#: Increase of the watermark above the highest one seen, so that no process knows a higher one.
LEAP = 1_000_000
#: Most nodes per statement.
CHUNK = 1000

_MARK = Watermark.__table__
_LEVEL = Prepared(select(_MARK.c.level))
_FIRST = Prepared(insert(Watermark).values(id=1, level=0, raised_at=now()))
_LOCK = Prepared(select(_MARK.c.level, age(_MARK.c.raised_at)).with_for_update())
_RAISE = Prepared(update(Watermark).values(level=bindparam("reached"), raised_at=now()))


class DatabaseRewound(Exception):
    """The database was restored: its watermark is lower than one that was seen."""

    def __init__(self, level: int, seen_level: int) -> None:
        super().__init__(f"the watermark is {level}, and {seen_level} was seen")
        self.level, self.seen_level = level, seen_level


def advance(session: Session, seen_level: int) -> int:
    """
    Raise the watermark and return its new level.

    seen_level: highest level that the caller knows. If the watermark was not raised for longer than
    the heartbeat timeout, deadlines of agents are extended by that time.

    Raises `restore.DatabaseRewound`: the database has a lower level than `seen_level`.
    """
    level, silence = _locked(session)
    if level < seen_level:
        raise DatabaseRewound(level, seen_level)
    _raise(session, level + 1, silence)
    return level + 1


def quarantine_once(
    session: Session, rewind: DatabaseRewound, touched_nodes: Collection[str] | None
) -> None:
    """
    Declare the database restored, unless another process has, or the watermark has changed since.

    touched_nodes: see `restore.quarantine`. Afterwards the watermark is above all that were seen.
    """
    level, silence = _locked(session)
    if level != rewind.level:
        return
    quarantine(session, touched_nodes)
    _raise(session, rewind.seen_level + LEAP, silence)


def _locked(session: Session) -> tuple[int, float]:
    """Lock the watermark; return its level, and the seconds since it was raised."""
    level, silence = _LOCK.first(connection_of(session), {}) or _first(session)
    return level, float(silence)


def _raise(session: Session, level: int, silence: float) -> None:
    """Raise the watermark to `level`, after `silence` seconds."""
    if silence > runtime_of(session).settings.conductor.heartbeat_timeout:
        logger.warning("conductors.were_away", seconds=round(silence))
        timeouts.extend_deadlines(session, silence)
    _RAISE.count(connection_of(session), {"reached": level})


def _first(session: Session) -> Row:
    connection = connection_of(session)
    # a concurrent transaction may have inserted it
    with suppress(IntegrityError), connection.begin_nested():
        _FIRST.count(connection, {})
    row = _LOCK.first(connection, {})
    assert row is not None
    return row


def level(connection: Connection) -> int:
    """Return the watermark; 0 in a database without one."""
    row = _LEVEL.first(connection, {})
    return row[0] if row else 0


def quarantine(session: Session, touched_nodes: Collection[str] | None = None) -> tuple[int, int]:
    """
    Quarantine nodes after a restore: fail their active operations without cleanup.

    Fences are raised, reservations dropped, and the nodes enter maintenance with the fault
    `restored`, which an operator ends. No machine receives a command. Rollouts pause.

    touched_nodes: UUIDs of the nodes on which work has started since the backup, all nodes by
    default; nodes with a running operation are added. Returns the numbers of operations and nodes.
    """
    rollouts.pause_all(session)
    nodes = _affected(session, touched_nodes)
    _lock_nodes(session, nodes)
    active = session.execute(
        select(Operation.id, Operation.node_id).where(Operation.state.in_(ACTIVE))
    )
    ids = [operation_id for operation_id, node_id in active.all() if node_id in nodes]
    for operation_id in ids:
        _fail_operation(session, *operations.lock_operation(session, operation_id))
        session.flush()
    for chunk in _chunks(sorted(nodes)):
        session.execute(
            update(Node)
            .where(Node.id.in_(chunk))
            .values(
                fence=Node.fence + 1,
                reservation=None,
                operation_id=None,
                maintenance=True,
                maintenance_reason=func.coalesce(Node.maintenance_reason, REASON),
                fault=Fault.RESTORED,
                updated_at=now(),
            ),
            execution_options={"synchronize_session": False},
        )
    session.expire_all()
    logger.error("database.restored", operations=len(ids), nodes=len(nodes))
    return len(ids), len(nodes)


def _lock_nodes(session: Session, nodes: Collection[int]) -> None:
    """Lock the rows of nodes, so that none of their operations begins or ends meanwhile."""
    for chunk in _chunks(sorted(nodes)):
        ids = select(Node.id).where(Node.id.in_(chunk)).order_by(Node.id)
        session.scalars(ids.with_for_update()).all()


def _affected(session: Session, touched_nodes: Collection[str] | None) -> set[int]:
    """Return the ids of the nodes to quarantine, with the children of touched nodes."""
    rows = session.execute(select(Node.id, Node.uuid, Node.parent_node)).all()
    if touched_nodes is None:
        return {node_id for node_id, _, _ in rows}
    # a waiting or held operation is in Redis' record once it resumes; a running one may not be
    is_running = or_(
        Operation.state == OperationState.RUNNING,
        and_(Operation.state == OperationState.QUEUED, ~Operation.is_queued),
    )
    running = set(session.scalars(select(Operation.node_id).where(is_running)))
    node_uuids = {*touched_nodes, *(uuid for node_id, uuid, _ in rows if node_id in running)}
    unknown_uuids = sorted(node_uuids.difference(uuid for _, uuid, _ in rows))
    if unknown_uuids:
        logger.error("database.lacks_nodes", nodes=unknown_uuids)
    return {node_id for node_id, uuid, parent in rows if {uuid, parent} & node_uuids}


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split ids into chunks for one statement each."""
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))


def _fail_operation(session: Session, node: Node, operation: Operation) -> None:
    """End an operation without cleanup, and move the node to the failed state of its flow."""
    reason = (
        f"{operation.kind} was under way when the backup was made from which the database was"
        " restored; its real outcome is not known"
    )
    for row in operations.pending(session, operation):
        step_transition(row, StepEvent.SKIP)
    operation.error = failures.describe(FailureCode.RESTORED, reason) | {
        "step": None,
        "retryable": False,
    }
    operation_end.end(session, node, operation, OperationEvent.RESTORE)
    if operation.moves_node:
        enter_failed(session, node, flows.event_type(operation.kind), reason)
    node.target_power_state = None


def enter_failed(session: Session, node: Node, event_type: str, reason: str) -> bool:
    """
    Move a node out of a busy, wait or hold state to the failed state of its flow.

    Only rows change; there is no cleanup. Returns False if the node is in another kind of state.
    """
    state = State(node.provision_state)
    row = MACHINE[state]
    if row.kind not in (Kind.BUSY, Kind.WAIT, Kind.HOLD):
        return False
    provision_state.move(session, node, Event.FAIL if Event.FAIL in row.moves else Event.ABORT)
    node.last_error = reason
    if node.provision_state == State.CLEAN_FAIL and not node.maintenance:
        provision_state.set_fault(node, Fault.CLEAN_FAILURE)
    history.add(session, node, event_type, reason, "ERROR")
    return True
