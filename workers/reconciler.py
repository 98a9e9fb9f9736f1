"""
The reconciler: finds operations that nobody drives, and drives them.

It looks only at rows. What it does is what was to be done anyway, so several may run at once, at
any time, and nothing else has to be exact: a lost message, a flushed broker, a process that died
between commit and send, a dead conductor, a missed poll all end here.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app import killpoints, log
from app.db import age, now
from app.models import (
    AgentRecord,
    Node,
    Operation,
    OperationState,
    OperationStep,
)
from app.runtime import Runtime, of
from app.services import conductors, moves, operations, outcomes, waking
from drivers.steps import Failed, Resume

logger = log.get(__name__)

#: Most operations that one pass touches of each kind.
BATCH = 500
#: Seconds that a conductor's own waker has to see to a poll that is due.
GRACE = 2.0
#: Longest seconds between two messages about the same step.
RESEND_AT_MOST = 60.0


@dataclass(slots=True)
class Contact:
    """
    How long this process has been in touch with the database without a break.

    Who was out of touch itself must not call others dead.
    """

    timeout: float
    clock: Callable[[], float] = time.monotonic
    since: float = field(init=False)
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.last = self.clock()

    def made(self) -> bool:
        """Note a contact; whether it has lasted for a whole timeout."""
        moment = self.clock()
        if moment - self.last > self.timeout:
            self.since = moment
        self.last = moment
        return moment - self.since >= self.timeout


def reconcile(
    runtime: Runtime, contact: Contact, backlog: Callable[[str], int] = lambda _name: 0
) -> dict[str, int]:
    """
    One pass; how many operations were handled, by what was done.

    backlog: how many messages a conductor, by its name, has not yet taken from its queue.
    """
    killpoints.reach("reconciling")
    timeout = runtime.settings.conductor.heartbeat_timeout
    with runtime.reading() as session:
        alive = conductors.alive(session, timeout)
        online = {each.incarnation for each in alive}
        behind = {each.incarnation for each in alive if backlog(each.name)}
        judge = partial(conductors.living, timeout=timeout) if contact.made() else conductors.known
        todo = {
            "expired": (_expire, _ids(session, _expired())),
            "woken": (_wake, _ids(session, _overdue())),
            "called": (_wake, _ids(session, _called())),
            "taken_over": (_take_over(judge), _ids(session, _abandoned(judge(session)))),
            "resent": (_resend, _ids(session, _unsent(runtime, online, behind))),
        }
    counts = {}
    for name, (act, ids) in todo.items():
        counts[name] = sum(_each(runtime, act, operation_id) for operation_id in ids)
    if any(counts.values()):
        logger.info("reconciled", **counts)
    return counts


Act = Callable[[Session, Node, Operation], bool]


def _each(runtime: Runtime, act: Act, operation_id: int) -> bool:
    """Act on one operation under its node's lock; each is a transaction of its own."""
    with runtime.transaction() as session:
        return act(session, *operations.lock_operation(session, operation_id))


def _ids(session: Session, condition: tuple[object, ...]) -> list[int]:
    query = select(Operation.id).where(*condition).order_by(Operation.id).limit(BATCH)  # type: ignore[arg-type]
    return list(session.scalars(query))


def _expired() -> tuple[object, ...]:
    return (Operation.state == OperationState.WAITING, Operation.deadline_at < now())


def _overdue() -> tuple[object, ...]:
    return (Operation.state == OperationState.WAITING, age(Operation.wake_at) > GRACE)


def _called() -> tuple[object, ...]:
    """Waiting for an agent that has called, and was not heard."""
    called = (
        select(AgentRecord.node_id)
        .where(
            AgentRecord.node_id == Operation.node_id,
            AgentRecord.heartbeats > Operation.heartbeats,
            age(AgentRecord.last_heartbeat_at) > GRACE,
        )
        .exists()
    )
    return (Operation.state == OperationState.WAITING, Operation.wake_at.is_(None), called)


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
        or_(
            Operation.sent_at.is_(None),
            Operation.sent_to.is_(None),
            Operation.sent_to.not_in(online),
            Operation.sent_to.not_in(behind) & or_(*patience),
            age(Operation.sent_at) > RESEND_AT_MOST,
        ),
    )


def _expire(session: Session, node: Node, operation: Operation) -> bool:
    if operation.state != OperationState.WAITING or operation.deadline_at is None:
        return False
    if operation.deadline_at > (session.scalar(select(now())) or operation.deadline_at):
        return False
    if node.reservation is not None and node.operation_id != operation.id:
        return False
    repaired = node.fault == moves.CLEAN_FAILURE  # cleaned again: that is not an operator's doing
    if node.maintenance and operation.wake_at is None and not repaired:
        return False  # an operator is at it: agents of nodes in maintenance may take their time
    outcomes.expire(session, node, operation)
    return True


def _wake(session: Session, node: Node, operation: Operation) -> bool:
    return waking.wake(session, node, operation)


def _resend(session: Session, node: Node, operation: Operation) -> bool:
    if operation.state != OperationState.QUEUED:
        return False
    operations.send(session, node, operation)
    return True


def resend_all(runtime: Runtime) -> int:
    """The broker has lost what it held: send everything again that is queued."""
    resent = last = 0
    while True:
        with runtime.reading() as session:
            ids = _ids(session, (Operation.state == OperationState.QUEUED, Operation.id > last))
        if not ids:
            return resent
        resent += sum(_each(runtime, _resend, operation_id) for operation_id in ids)
        last = ids[-1]


def _take_over(judge: Callable[[Session], set[str]]) -> Act:
    """judge: who is alive; asked anew each time, as another may have claimed it since."""

    def take_over(session: Session, node: Node, operation: Operation) -> bool:
        dead = operation.claimed_by not in judge(session)
        moment = session.scalar(select(now()))
        late = operation.deadline_at is not None and moment and operation.deadline_at < moment
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
            failure = Failed(reason, "conductor_died")
            if not outcomes.fail(session, node, operation, step, failure):
                return True
        elif step.resume == Resume.RESTART:
            _go_back(session, operation, step)
        operations.hand_out(session, node, operation)
        return True

    return take_over


def _go_back(session: Session, operation: Operation, step: OperationStep) -> None:
    """Back to the step that boots the agent; what follows it is run again."""
    boots = [
        row.position
        for row in operations.steps_of(session, operation)
        if row.position <= step.position and row.label == "boot.prepare_ramdisk"
    ]
    operations.go_back(session, operation, max(boots, default=0))
