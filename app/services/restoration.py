"""
Restoration: a database that was restored from a backup is older than the machines.

What it says of them may be wrong: a node that it has as being cleaned may have been given to
somebody since. So nothing is carried on, and no machine is touched, until an operator has looked.
That goes for all nodes; or, where it is known which ones work was begun on since, as after the loss
of mere seconds (`workers.witness`), for those.

How it is noticed: conductors raise the water mark in the database all the time, and remember the
highest that they have seen; Redis remembers it too. A mark below that comes from the past.
"""

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app import flows, log
from app.db import age, utcnow
from app.models import ACTIVE, Fault, Node, Operation, OperationState, StepState, Watermark
from app.runtime import of
from app.services import faults, history, limits, moves, operations, outcomes
from app.states import MACHINE, Event, Kind, State
from drivers.core.errors import FailureCode

logger = log.get(__name__)

REASON = "The database was restored from a backup: compare this node with its machine"
#: By how much the mark is raised above all that anybody can have seen.
LEAP = 1_000_000
#: Nodes that are changed in one statement.
PART = 1000


class Older(Exception):
    """The database has a lower mark than somebody has seen. level: its mark; seen: the other."""

    def __init__(self, level: int, seen: int) -> None:
        super().__init__(f"the water mark is {level}, and {seen} was seen")
        self.level, self.seen = level, seen


def rise(session: Session, seen: int) -> int:
    """
    Raise the water mark; returns what it is now. seen: the highest mark that the caller knows of.

    Raises Older when that is higher. Whoever finds that it was not raised for long gives the agents
    that time again.
    """
    row = _locked(session)
    if row.level < seen:
        raise Older(row.level, seen)
    _give_time_again(session)
    row.level += 1
    return row.level


def settle(session: Session, found: Older, touched: Collection[str] | None) -> None:
    """
    Declare the database restored, unless another one has, or it has moved since it was found so.

    touched: as of `declare`. From then on the mark is above all others, and nobody notices again.
    """
    row = _locked(session)
    if row.level != found.level:
        return
    declare(session, touched)
    _give_time_again(session)
    row.level = found.seen + LEAP


def _locked(session: Session) -> Watermark:
    return session.scalar(select(Watermark).with_for_update()) or _first(session)


def _give_time_again(session: Session) -> None:
    silence = session.scalar(select(age(Watermark.raised_at))) or 0.0
    if silence > of(session).settings.conductor.heartbeat_timeout:
        logger.warning("conductors.were_away", seconds=round(silence))
        limits.allow_for(session, silence)


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


def declare(session: Session, touched: Collection[str] | None = None) -> tuple[int, int]:
    """
    Take nothing in the rows for true: what is under way ends here, failed, and is not tidied up;
    the nodes are in maintenance until an operator ends that. No machine is told anything.

    touched: UUIDs of the nodes that work has begun on since; with those on which it was under way,
    they are all that it concerns. None: it concerns every node. Returns how many operations and
    nodes it did.
    """
    nodes = _doubtful(session, touched)
    active = session.execute(
        select(Operation.id, Operation.node_id).where(Operation.state.in_(ACTIVE))
    )
    ids = [operation_id for operation_id, node_id in active.all() if node_id in nodes]
    for operation_id in ids:
        _give_up(session, *operations.lock_operation(session, operation_id))
        session.flush()
    for some in _parts(sorted(nodes)):
        session.execute(
            update(Node)
            .where(Node.id.in_(some))
            .values(
                fence=Node.fence + 1,
                reservation=None,
                operation_id=None,
                maintenance=True,
                maintenance_reason=func.coalesce(Node.maintenance_reason, REASON),
                fault=Fault.RESTORED,
                updated_at=utcnow(),
            ),
            execution_options={"synchronize_session": False},
        )
    session.expire_all()
    logger.error("database.restored", operations=len(ids), nodes=len(nodes))
    return len(ids), len(nodes)


def _doubtful(session: Session, touched: Collection[str] | None) -> set[int]:
    """The ids of the nodes that the rows may be wrong about."""
    rows = session.execute(select(Node.id, Node.uuid, Node.parent_node)).all()
    if touched is None:
        return {node_id for node_id, _, _ in rows}
    # what waits or is held begins again with work that is noted; what runs had begun before
    runs = or_(
        Operation.state == OperationState.RUNNING,
        and_(Operation.state == OperationState.QUEUED, ~Operation.is_queued),
    )
    running = set(session.scalars(select(Operation.node_id).where(runs)))
    concerned = {*touched, *(uuid for node_id, uuid, _ in rows if node_id in running)}
    unknown = sorted(concerned.difference(uuid for _, uuid, _ in rows))
    if unknown:
        logger.error("database.lacks_nodes", nodes=unknown)
    return {node_id for node_id, uuid, parent in rows if {uuid, parent} & concerned}


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """As many at a time as a statement may name, and change in its time."""
    return (ids[at : at + PART] for at in range(0, len(ids), PART))


def _give_up(session: Session, node: Node, operation: Operation) -> None:
    reason = (
        f"{operation.kind} was under way when the backup was made from which the database was"
        " restored; what has become of it since is not known"
    )
    for row in operations.pending(session, operation):
        row.state = StepState.SKIPPED
    operation.error = faults.described(FailureCode.RESTORED, reason) | {
        "step": None,
        "retryable": False,
    }
    outcomes.end(session, node, operation, OperationState.FAILED)
    if operation.moves_node:
        enter_failed(session, node, flows.event_type(operation.kind), reason)
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
        node.maintenance, node.fault = True, Fault.CLEAN_FAILURE
        node.maintenance_reason = reason
    history.add(session, node, event_type, reason, "ERROR")
    return True
