"""
Reconciler: finds operations that no conductor drives, and dispatches them.

It reads only database rows, and its actions are idempotent, so several passes may run at the same
time. It repairs all losses elsewhere: a lost message, an emptied broker, a process that died
between commit and send, a dead conductor, a missed poll.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from sqlalchemy import and_, bindparam, exists, func, literal, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.cluster import conductors
from app.db.clock import age, now
from app.db.diagnosis import is_unavailable, reason
from app.db.prepared import Prepared
from app.db.transactions import call_after_commit, retrying
from app.engine import admission, dispatch, operations, pending_power, transitions, wake
from app.lifecycle.operation_states import Actor, OperationEvent
from app.metrics.table import RECONCILED, TAKEOVERS
from app.models import ACTIVE, AgentRecord, Fault, Node, Operation, OperationState, OperationStep
from app.observe import log
from app.process import kill_points
from app.runtime import Runtime, runtime_of
from drivers.core.errors import FailureCode
from drivers.core.steps import Failed, Resume
from workers.periodic.database_contact import Contact

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Most operations per pass and action.
BATCH = 500
#: Most operations in one transaction, and most concurrent transactions on PostgreSQL.
TOGETHER, THREADS = 16, 3
#: Seconds after which a due poll or heartbeat is handled here instead of by its own process.
GRACE = 2.0
#: Most seconds between two messages for one step.
RESEND_AT_MOST = 60.0


#: Results of a pass, each with its count.
COUNTS = ("taken_over", "expired", "woken", "called", "resent", "admitted")
#: An operation that has not ended: without one there is nothing to reconcile.
_UNDER_WAY = Prepared(
    select(Operation.__table__.c.id)
    .where(Operation.__table__.c.state.in_([literal(state) for state in ACTIVE]))
    .limit(1)
)
#: An operation: without one, the broker has never held a message.
_ANY = Prepared(select(Operation.__table__.c.id).limit(1))


def reconcile(
    runtime: Runtime, contact: Contact, backlog: Callable[[str], int] = lambda _name: 0
) -> dict[str, int]:
    """
    Run one pass; return the number of operations by action.

    backlog: returns the number of messages in the queue of a conductor, by its name.
    """
    kill_points.reach("reconciling")
    timeout = runtime.settings.conductor.heartbeat_timeout
    with runtime.read_connection() as connection:
        in_touch = contact.record(conductors.seconds_since_heartbeat(connection))
        if not _UNDER_WAY.first(connection, {}):
            return dict.fromkeys(COUNTS, 0)
        online_conductors = conductors.alive(connection, timeout)
    online = {conductor.incarnation for conductor in online_conductors}
    # no connection is held while the broker answers
    backlogged = {
        conductor.incarnation for conductor in online_conductors if backlog(conductor.name)
    }
    with runtime.reading() as session:
        living = (
            partial(conductors.living_incarnations, timeout=timeout)
            if in_touch
            else conductors.registered_incarnations
        )
        actions = (
            ("taken_over", _take_over(living), _abandoned(living(session)), Operation.deadline_at),
            ("expired", _expire, _expired(), Operation.deadline_at),
            ("woken", _wake, _overdue(online), Operation.wake_at),
            ("called", _wake, _missed_heartbeat(timeout), Operation.id),
            ("resent", _resend, _unsent(runtime, online, backlogged), Operation.sent_at),
        )
        todo = [
            (name, action, _ids(session, condition, due_column))
            for name, action, condition, due_column in actions
        ]
    if any(ids for _, _, ids in todo):
        kill_points.reach("decided")
    counts = _do(runtime, todo)
    counts |= _do(runtime, [("admitted", _resend, admission.admit_all(runtime))])
    if any(counts.values()):
        logger.info("reconciled", **counts)
    for action, count in counts.items():
        RECONCILED.add(action, count=count)
    return counts


Action = Callable[[Session, Node, Operation], bool]


def _do(runtime: Runtime, todo: Iterable[tuple[str, Action, Sequence[int]]]) -> dict[str, int]:
    """
    Apply actions to operations, a few per transaction, with the batches of all actions interleaved.

    todo: (name, action, ids of operations in order of urgency). Returns name -> number of
    operations that were changed. Locked and failed operations are left to the next pass.
    Raises SQLAlchemyError: the database is away.
    """
    counts = {name: 0 for name, _, _ in todo}
    batches = sorted(
        (
            (start, name, action, ids[start : start + TOGETHER])
            for name, action, ids in todo
            for start in range(0, len(ids), TOGETHER)
        ),
        key=lambda batch: batch[0],
    )
    # SQLite has one writer, and a single batch needs no thread
    threads = THREADS if runtime.engine.dialect.name == "postgresql" else 1
    if min(threads, len(batches)) <= 1:
        for _, name, action, ids in batches:
            counts[name] += _each(runtime, action, *ids)
        return counts
    with ThreadPoolExecutor(threads, thread_name_prefix="reconcile") as pool:
        futures = [
            (name, pool.submit(_each, runtime, action, *ids)) for _, name, action, ids in batches
        ]
        try:
            for name, future in futures:
                counts[name] += future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return counts


def _each(runtime: Runtime, action: Action, *ids: int) -> int:
    """
    Apply an action to operations under their nodes' locks; return how many were changed.

    Uses one transaction; if that fails, one for each operation.
    Raises SQLAlchemyError: the database is away.
    """

    def work() -> int:
        with runtime.transaction(Actor.RECONCILER) as session:
            free = operations.lock_available(session, ids)
            return sum(action(session, node, operation) for node, operation in free)

    try:
        return retrying(work)
    except Exception as error:
        if isinstance(error, SQLAlchemyError) and is_unavailable(error):
            raise
        if len(ids) > 1:
            return sum(_each(runtime, action, operation_id) for operation_id in ids)
        if isinstance(error, SQLAlchemyError):
            seldom.warning("reconciling.postponed", operation_id=ids[0], detail=reason(error))
        else:  # a defect or an unexpected row must not block all other operations
            logger.exception("reconciling.failed", operation_id=ids[0])
        return 0


def _ids(session: Session, condition: tuple[Any, ...], due_column: Any = Operation.id) -> list[int]:
    """Return the ids of matching operations by due time; random order for those without."""
    order = (due_column.nulls_last(), func.random())
    return list(
        session.scalars(select(Operation.id).where(*condition).order_by(*order).limit(BATCH))
    )


def _expired() -> tuple[object, ...]:
    """
    Condition: the operation waits for an agent, and its deadline has passed.

    Excludes the operations that `_expire` would leave unchanged, as they would fill the batch.
    Polled waits are excluded too: their polls check the deadline.
    """
    excluded = exists().where(
        Node.id == Operation.node_id,
        or_(
            and_(Node.maintenance, Node.fault.is_distinct_from(Fault.CLEAN_FAILURE)),
            and_(Node.reservation.is_not(None), Node.operation_id.is_distinct_from(Operation.id)),
        ),
    )
    waits = (Operation.state == OperationState.WAITING, Operation.wake_at.is_(None))
    return (*waits, Operation.deadline_at < now(), ~excluded)


def _overdue(online: Iterable[str]) -> tuple[object, ...]:
    """Condition: a poll is due, and the wait monitor that should do it is late or gone."""
    is_orphaned = Operation.claimed_by.not_in(online) & (age(Operation.wake_at) > 0)
    return (
        Operation.state == OperationState.WAITING,
        or_(age(Operation.wake_at) > GRACE, is_orphaned),
    )


def _missed_heartbeat(timeout: float) -> tuple[object, ...]:
    """
    Condition: the operation waits for an agent whose heartbeat has not resumed it.

    timeout: seconds without a heartbeat after which a conductor counts as dead.
    """
    has_called = (
        select(AgentRecord.node_id)
        .where(
            AgentRecord.node_id == Operation.node_id,
            AgentRecord.heartbeats > Operation.heartbeats,
            age(AgentRecord.last_heartbeat_at) > GRACE,
        )
        .exists()
    )
    return (
        Operation.state == OperationState.WAITING,
        Operation.wake_at.is_(None),
        wake.not_polled(timeout),
        has_called,
    )


def _abandoned(living: Iterable[str]) -> tuple[object, ...]:
    """Condition: claimed by a dead incarnation, or beyond the deadline of its step."""
    return (
        Operation.state == OperationState.RUNNING,
        or_(Operation.claimed_by.not_in(living), Operation.deadline_at < now()),
    )


def _unsent(
    runtime: Runtime, online: Iterable[str], backlogged: Iterable[str]
) -> tuple[object, ...]:
    """
    Condition: queued without a message in transit.

    The message was never sent, was sent to a conductor that is gone, or is old enough to count as
    lost; the age limit doubles with each message.

    backlogged: conductors with messages in their queue; for them only RESEND_AT_MOST counts, as the
    message may still be in the queue, and another one would make the queue longer.
    """
    resend_after = runtime.settings.conductor.resend_after
    is_old = [
        (Operation.sends <= sends)
        & (age(Operation.sent_at) > min(resend_after * 2 ** (sends - 1), RESEND_AT_MOST))
        for sends in range(1, 6)
    ]
    return (
        Operation.state == OperationState.QUEUED,
        ~Operation.is_queued,
        or_(
            Operation.sent_at.is_(None),
            Operation.sent_to.not_in(online),
            Operation.sent_to.not_in(backlogged) & or_(*is_old),
            age(Operation.sent_at) > RESEND_AT_MOST,
        ),
    )


def _expire(session: Session, node: Node, operation: Operation) -> bool:
    if operation.state != OperationState.WAITING or operation.wake_at is not None:
        return False
    if not _is_late(session, operation):
        return False
    if node.reservation is not None and node.operation_id != operation.id:
        return False
    repaired = node.fault == Fault.CLEAN_FAILURE  # cleaned again; maintenance is by the service
    if node.maintenance and not repaired:
        return False  # maintenance by an operator suspends the timeouts of agents
    transitions.expire(session, node, operation)
    return True


def _wake(session: Session, node: Node, operation: Operation) -> bool:
    return wake.resume_operation(session, node, operation)


def _resend(session: Session, node: Node, operation: Operation) -> bool:
    if operation.state != OperationState.QUEUED or operation.is_queued:
        return False
    dispatch.send(session, node, operation)
    return True


def has_had_work(runtime: Runtime) -> bool:
    """Whether any operation exists; if not, the broker has never held a message."""
    with runtime.read_connection() as connection:
        return _ANY.first(connection, {}) is not None


def resend_all(runtime: Runtime) -> int:
    """Send all queued operations again, after the broker lost its data; return how many."""
    resent_count = last_id = 0
    while True:
        with runtime.reading() as session:
            ids = _ids(session, (Operation.state == OperationState.QUEUED, Operation.id > last_id))
        if not ids:
            return resent_count
        resent_count += _do(runtime, [("resent", _resend, ids)])["resent"]
        last_id = ids[-1]


def _take_over(living: Callable[[Session], set[str]]) -> Action:
    """
    Return the action that takes over an operation from a dead conductor or a hung step.

    living: returns the incarnations that are alive. It is called again in each transaction, under
    its locks, as another conductor may have claimed an operation since it was found.
    """

    def take_over(session: Session, node: Node, operation: Operation) -> bool:
        if "living" not in session.info:
            session.info["living"] = living(session)
        dead = operation.claimed_by not in session.info["living"]
        is_late = not dead and _is_late(session, operation)
        if operation.state != OperationState.RUNNING or not (dead or is_late):
            return False
        step = operations.current_step(session, operation)
        step.deaths += 1
        cause = "died" if dead else "deadline"
        call_after_commit(session, lambda: TAKEOVERS.add(cause))
        logger.warning(
            "operation.taken_over",
            operation=operation.uuid,
            node=node.uuid,
            request_id=operation.request_id,
            step=step.label,
            conductor=step.conductor,
            cause=cause,
        )
        event = OperationEvent.TAKE_OVER
        max_deaths = runtime_of(session).settings.conductor.max_step_deaths
        if step.deaths >= max_deaths:
            death = "the conductor died" if dead else "its deadline passed"
            reason = f"{step.label}: {death} {step.deaths} times while it ran"
            failure = Failed(reason, FailureCode.CONDUCTOR_DIED)
            pending_power.note(session, node, operation, step)
            if not transitions.fail(session, node, operation, step, failure):
                return True
            event = OperationEvent.DISPATCH  # of the cleanup steps
        elif step.resume == Resume.RESTART:
            _go_back(session, operation, step)
        dispatch.dispatch(session, node, operation, event)
        return True

    return take_over


def _is_late(session: Session, operation: Operation) -> bool:
    """Return whether the operation has a deadline, and it has passed."""
    return bool(session.scalar(_IS_LATE, {"id": operation.id}))


_IS_LATE = select(Operation.deadline_at < now()).where(Operation.id == bindparam("id"))


def _go_back(session: Session, operation: Operation, step: OperationStep) -> None:
    """Move the cursor back to the step that boots the agent; later steps run again."""
    boots = [
        row.position
        for row in operations.steps_of(session, operation)
        if row.position <= step.position and row.label == "boot.prepare_ramdisk"
    ]
    operations.rewind(session, operation, max(boots, default=0))
