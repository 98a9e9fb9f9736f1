"""
The reconciler: finds operations that nobody drives, and drives them.

It looks only at rows. What it does is what was to be done anyway, so several may run at once, at
any time, and nothing else has to be exact: a lost message, a flushed broker, a process that died
between commit and send, a dead conductor, a missed poll all end here.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import and_, bindparam, exists, func, literal, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app import killpoints, log
from app.db import age, is_away, now, reason, retrying
from app.models import (
    ACTIVE,
    AgentRecord,
    Fault,
    Node,
    Operation,
    OperationState,
    OperationStep,
)
from app.prepared import Prepared
from app.runtime import Runtime, of
from app.services import admission, conductors, operations, outcomes, waking
from drivers.errors import FailureCode
from drivers.steps import Failed, Resume

logger = log.get(__name__)

#: Most operations that one pass touches of each kind.
BATCH = 500
#: Operations that are changed in one transaction, and such transactions at once on PostgreSQL.
TOGETHER, THREADS = 16, 3
#: Seconds that a conductor's own waker has to see to a poll that is due.
GRACE = 2.0
#: Longest seconds between two messages about the same step.
RESEND_AT_MOST = 60.0


@dataclass(slots=True)
class Contact:
    """
    How long this process has been in touch with the database without a break.

    Who was out of touch itself must not call others dead. Nor is anybody dead whose signs of life
    the database does not take: while it is read-only or full, all are silent.
    """

    timeout: float
    clock: Callable[[], float] = time.monotonic
    since: float = field(init=False)
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.last = self.clock()

    def made(self, silence: float = 0.0) -> bool:
        """
        Note a contact; whether it has lasted for a whole timeout.

        silence: seconds since any conductor gave a sign of life; half a timeout is more than
        there is between two signs.
        """
        moment = self.clock()
        if moment - self.last > self.timeout or silence > self.timeout / 2:
            self.since = moment
        self.last = moment
        return moment - self.since >= self.timeout


#: What a pass counts.
COUNTS = ("taken_over", "expired", "woken", "called", "resent", "admitted")
#: An operation that has not ended: without one there is nothing to reconcile.
_UNDER_WAY = Prepared(
    select(Operation.__table__.c.id)
    .where(Operation.__table__.c.state.in_([literal(each) for each in ACTIVE]))
    .limit(1)
)


def reconcile(
    runtime: Runtime, contact: Contact, backlog: Callable[[str], int] = lambda _name: 0
) -> dict[str, int]:
    """
    One pass; how many operations were handled, by what was done.

    backlog: how many messages a conductor, by its name, has not yet taken from its queue.
    """
    killpoints.reach("reconciling")
    timeout = runtime.settings.conductor.heartbeat_timeout
    with runtime.looking() as connection:
        in_touch = contact.made(conductors.silence(connection))
        if not _UNDER_WAY.first(connection, {}):
            return dict.fromkeys(COUNTS, 0)
    with runtime.reading() as session:
        alive = conductors.alive(session, timeout)
        online = {each.incarnation for each in alive}
        behind = {each.incarnation for each in alive if backlog(each.name)}
        judge = partial(conductors.living, timeout=timeout) if in_touch else conductors.known
        found = (
            ("taken_over", _take_over(judge), _abandoned(judge(session)), Operation.deadline_at),
            ("expired", _expire, _expired(), Operation.deadline_at),
            ("woken", _wake, _overdue(online), Operation.wake_at),
            ("called", _wake, _called(timeout), Operation.id),
            ("resent", _resend, _unsent(runtime, online, behind), Operation.sent_at),
        )
        todo = [(name, act, _ids(session, which, due)) for name, act, which, due in found]
    if any(ids for _, _, ids in todo):
        killpoints.reach("decided")
    counts = _do(runtime, todo)
    counts |= _do(runtime, [("admitted", _resend, admission.admit_all(runtime))])
    if any(counts.values()):
        logger.info("reconciled", **counts)
    return counts


Act = Callable[[Session, Node, Operation], bool]


def _do(runtime: Runtime, todo: Iterable[tuple[str, Act, Sequence[int]]]) -> dict[str, int]:
    """
    Act on operations, a few in each transaction, some of each name before more of any.

    todo: (name, what to do, to which, the first that is due first). Returns name -> of how many it
    was done. What another has locked is left to the next pass, and so is what fails; but when the
    database is away, all of it is. Raises SQLAlchemyError then.
    """
    counts = {name: 0 for name, _, _ in todo}
    batches = sorted(
        (
            (at, name, act, ids[at : at + TOGETHER])
            for name, act, ids in todo
            for at in range(0, len(ids), TOGETHER)
        ),
        key=lambda batch: batch[0],
    )
    # SQLite has one writer; and who has one batch, or none, needs no thread for it
    threads = THREADS if runtime.engine.dialect.name == "postgresql" else 1
    if min(threads, len(batches)) <= 1:
        for _, name, act, ids in batches:
            counts[name] += _each(runtime, act, *ids)
        return counts
    with ThreadPoolExecutor(threads, thread_name_prefix="reconcile") as pool:
        done = [(name, pool.submit(_each, runtime, act, *ids)) for _, name, act, ids in batches]
        try:
            for name, future in done:
                counts[name] += future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return counts


def _each(runtime: Runtime, act: Act, *ids: int) -> int:
    """
    Act on operations under their nodes' locks, in one transaction, or each in its own if one of
    them fails. Returns on how many; raises SQLAlchemyError when the database is away.
    """

    def work() -> int:
        with runtime.transaction() as session:
            free = operations.lock_free(session, ids)
            return sum(act(session, node, operation) for node, operation in free)

    try:
        return retrying(work)
    except Exception as error:
        if isinstance(error, SQLAlchemyError) and is_away(error):
            raise
        if len(ids) > 1:
            return sum(_each(runtime, act, operation_id) for operation_id in ids)
        if isinstance(error, SQLAlchemyError):
            logger.warning("reconciling.postponed", operation_id=ids[0], detail=reason(error))
        else:  # a defect, or a row that nobody expected, must not keep all others from their turn
            logger.exception("reconciling.failed", operation_id=ids[0])
        return 0


def _ids(session: Session, condition: tuple[Any, ...], due: Any = Operation.id) -> list[int]:
    """What is due first comes first; what has no time comes last, in no order."""
    order = (due.nulls_last(), func.random())
    return list(
        session.scalars(select(Operation.id).where(*condition).order_by(*order).limit(BATCH))
    )


def _expired() -> tuple[object, ...]:
    """
    Waits for an agent, as a machine that is looked at fails by a look; but for what `_expire` would
    leave alone, for ever, and so keep others from their turn.
    """
    left_alone = exists().where(
        Node.id == Operation.node_id,
        or_(
            and_(Node.maintenance, Node.fault.is_distinct_from(Fault.CLEAN_FAILURE)),
            and_(Node.reservation.is_not(None), Node.operation_id.is_distinct_from(Operation.id)),
        ),
    )
    waits = (Operation.state == OperationState.WAITING, Operation.wake_at.is_(None))
    return (*waits, Operation.deadline_at < now(), ~left_alone)


def _overdue(online: Iterable[str]) -> tuple[object, ...]:
    """The waker of who began the wait comes first, if it is still there."""
    gone = Operation.claimed_by.not_in(online) & (age(Operation.wake_at) > 0)
    return (Operation.state == OperationState.WAITING, or_(age(Operation.wake_at) > GRACE, gone))


def _called(timeout: float) -> tuple[object, ...]:
    """Waiting for an agent that has called, and was not heard; timeout: of conductors."""
    called = (
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
        waking.unwatched().params(timeout=timeout),
        called,
    )


def _abandoned(living: Iterable[str]) -> tuple[object, ...]:
    """Claimed by a dead incarnation, or for longer than a call may take."""
    return (
        Operation.state == OperationState.RUNNING,
        or_(Operation.claimed_by.not_in(living), Operation.deadline_at < now()),
    )


def _unsent(runtime: Runtime, online: Iterable[str], behind: Iterable[str]) -> tuple[object, ...]:
    """
    Queued, and no message is known to be under way: never sent, sent to one that is gone, or not
    claimed for so long that it counts as lost.

    behind: conductors that have not emptied their queue; what was sent to them may still be in it,
    and sending more to them would only make it longer.
    """
    first = runtime.settings.conductor.resend_after
    patience = [
        (Operation.sends <= sends)
        & (age(Operation.sent_at) > min(first * 2 ** max(sends - 1, 0), RESEND_AT_MOST))
        for sends in range(1, 6)
    ]
    return (
        Operation.state == OperationState.QUEUED,
        ~Operation.is_queued,
        or_(
            Operation.sent_at.is_(None),
            Operation.sent_to.is_(None),
            Operation.sent_to.not_in(online),
            Operation.sent_to.not_in(behind) & or_(*patience),
            age(Operation.sent_at) > RESEND_AT_MOST,
        ),
    )


def _expire(session: Session, node: Node, operation: Operation) -> bool:
    if operation.state != OperationState.WAITING or operation.wake_at is not None:
        return False
    if operation.deadline_at is None:
        return False
    if operation.deadline_at > (session.scalar(select(now())) or operation.deadline_at):
        return False
    if node.reservation is not None and node.operation_id != operation.id:
        return False
    repaired = node.fault == Fault.CLEAN_FAILURE  # cleaned again: that is not an operator's doing
    if node.maintenance and not repaired:
        return False  # an operator is at it: agents of nodes in maintenance may take their time
    outcomes.expire(session, node, operation)
    return True


def _wake(session: Session, node: Node, operation: Operation) -> bool:
    return waking.wake(session, node, operation)


def _resend(session: Session, node: Node, operation: Operation) -> bool:
    if operation.state != OperationState.QUEUED or operation.is_queued:
        return False
    operations.send(session, node, operation)
    return True


def has_had_work(runtime: Runtime) -> bool:
    """Whether there is, or was, an operation: else the broker has held no message of ours yet."""
    with runtime.reading() as session:
        return session.scalar(select(Operation.id).limit(1)) is not None


def resend_all(runtime: Runtime) -> int:
    """The broker has lost what it held: send everything again that is queued."""
    resent = last = 0
    while True:
        with runtime.reading() as session:
            ids = _ids(session, (Operation.state == OperationState.QUEUED, Operation.id > last))
        if not ids:
            return resent
        resent += _do(runtime, [("resent", _resend, ids)])["resent"]
        last = ids[-1]


def _take_over(judge: Callable[[Session], set[str]]) -> Act:
    """
    judge: who is alive; asked anew in each transaction, its locks held, as another may have claimed
    an operation since it was found.
    """

    def take_over(session: Session, node: Node, operation: Operation) -> bool:
        if "living" not in session.info:  # whoever has claimed what is locked is among them
            session.info["living"] = judge(session)
        dead = operation.claimed_by not in session.info["living"]
        late = not dead and operation.deadline_at and session.scalar(_IS_LATE, {"id": operation.id})
        if operation.state != OperationState.RUNNING or not (dead or late):
            return False
        step = operations.current_step(session, operation)
        step.deaths += 1
        logger.warning(
            "operation.taken_over",
            operation=operation.uuid,
            node=node.uuid,
            step=step.label,
            conductor=step.conductor,
            cause="died" if dead else "deadline",
        )
        most = of(session).settings.conductor.max_step_deaths
        if step.deaths >= most:
            cause = "the conductor died" if dead else "its deadline passed"
            reason = f"{step.label}: {cause} {step.deaths} times while it ran"
            failure = Failed(reason, FailureCode.CONDUCTOR_DIED)
            if not outcomes.fail(session, node, operation, step, failure):
                return True
        elif step.resume == Resume.RESTART:
            _go_back(session, operation, step)
        operations.hand_out(session, node, operation)
        return True

    return take_over


_IS_LATE = select(Operation.deadline_at < now()).where(Operation.id == bindparam("id"))


def _go_back(session: Session, operation: Operation, step: OperationStep) -> None:
    """Back to the step that boots the agent; what follows it is run again."""
    boots = [
        row.position
        for row in operations.steps_of(session, operation)
        if row.position <= step.position and row.label == "boot.prepare_ramdisk"
    ]
    operations.go_back(session, operation, max(boots, default=0))
