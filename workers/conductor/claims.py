"""
Claims: a step belongs to one attempt, from its claim until it is done.

This is the hot path: short transactions of prepared statements (`app/db/prepared.py`), on purpose
without a session. To build a statement, or to let a session find out what has changed, costs more
than to run it.
"""

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from sqlalchemy import JSON, Connection, and_, bindparam, func, literal, or_, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app import release
from app.db.clock import after, now
from app.db.prepared import Typed
from app.db.transactions import connection_of
from app.models import (
    AgentRecord,
    Node,
    Operation,
    OperationState,
    OperationStep,
    Port,
    StepState,
    Watermark,
)
from app.models.base import Base
from app.models.snapshot import snapshots
from app.operation_states import STEPS, Actor, OperationEvent, StepEvent, sole_move
from app.runtime import Runtime
from drivers.core.steps import Outcome
from workers.conductor.lease import Leases
from workers.conductor.poller import Waker
from workers.conductor.redispatch import forward_newer
from workers.restore_guard import Witness
from workers.retry import until_available


class OutOfTouch(OperationalError):
    """This process may have been stopped, and the database restored meanwhile."""

    def __init__(self, conductor: str) -> None:
        why = f"conductor {conductor} was out of touch, and asks what has happened"
        super().__init__(None, None, Exception(why))


@dataclass(slots=True)
class Conductor:
    """
    This process, as one that claims steps. leaving: it claims no more. mark: the highest water mark
    that it has seen; into a database with a lower one nothing is written. sure_until: by its
    monotonic clock; until then the mark tells a database that was restored.
    """

    name: str
    incarnation: str
    runtime: Runtime
    leases: Leases
    witness: Witness
    waker: Waker
    leaving: threading.Event = field(default_factory=threading.Event)
    mark: int = 0
    sure_until: float = math.inf

    def learn(self, mark: int, asked: float) -> None:
        """asked: when it asked whether others had seen a higher mark, before it raised it."""
        self.mark = mark
        self.sure_until = asked + self.runtime.settings.conductor.heartbeat_timeout

    def is_sure(self, moment: float) -> bool:
        return moment < self.sure_until

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """As `transaction`, without a session."""
        with self.runtime.writing() as connection:
            yield connection
            self._confirm()

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """
        A transaction about an attempt. Raises OutOfTouch when it may be one of a database that was
        restored, and this process would not know.
        """
        with self.runtime.transaction(Actor.CONDUCTOR) as session:
            yield session
            self._confirm()

    def _confirm(self) -> None:
        """After the first statement, as from then on no other database can take its place."""
        if not self.is_sure(time.monotonic()):
            raise OutOfTouch(self.name)


@dataclass(slots=True)
class Attempt:
    """
    One claimed step, read from the rows when it was claimed.

    has_next: the step at the next position is still to be done. child: the node that it is run on,
    where that is a child of `node`; then `ports` and `agent` are the child's. seconds: what the
    call of the driver took. outcome: as it was recorded; None: nothing was.
    """

    operation: Operation
    node: Node
    step: OperationStep
    ports: list[Port]
    agent: AgentRecord | None
    has_next: bool
    resumed: bool
    child: Node | None = None
    seconds: float = 0.0
    outcome: Outcome | None = None
    reports: dict[str, Any] = field(default_factory=dict)


_operations, _nodes, _steps, _agents, _ports, _watermark = (
    Base.metadata.tables[model.__tablename__]
    for model in (Operation, Node, OperationStep, AgentRecord, Port, Watermark)
)

_claimed_from, _claimed_to = sole_move(OperationEvent.CLAIM, Actor.CONDUCTOR)
_advanced_from, _advanced_to = sole_move(OperationEvent.ADVANCE, Actor.CONDUCTOR)
_NEWEST = func.coalesce(select(_watermark.c.level).scalar_subquery(), 0) >= bindparam("mark")

_CLAIM = Typed(
    update(_operations)
    .where(
        _operations.c.uuid == bindparam("operation"),
        _operations.c.cursor == bindparam("at"),
        _operations.c.fence == bindparam("under"),
        _operations.c.claimed < bindparam("at"),
        _operations.c.state == _claimed_from,
        _operations.c.version <= release.UNDERSTOOD,
        # a reconciler of the release before sends what still queues for admission
        or_(_operations.c.queue.is_(None), _operations.c.admitted_at.is_not(None)),
        _NEWEST,
    )
    .values(
        claimed=bindparam("at"),
        claimed_by=bindparam("incarnation"),
        claim=bindparam("token"),
        state=_claimed_to,
        started_at=func.coalesce(_operations.c.started_at, now()),
        deadline_at=after(bindparam("timeout")),
        heartbeats=func.coalesce(
            select(_agents.c.heartbeats)
            .where(_agents.c.node_id == _operations.c.node_id)
            .scalar_subquery(),
            0,
        ),
    )
    .returning(*_operations.c)
)
_CLAIMED_BEFORE = Typed(
    select(*_operations.c).where(
        _operations.c.uuid == bindparam("operation"), _operations.c.claim == bindparam("token")
    )
)
_AT_CURSOR = (
    _steps.c.operation_id == bindparam("operation"),
    _steps.c.position == bindparam("at"),
)
_START_STEP = Typed(
    update(_steps)
    .where(*_AT_CURSOR)
    .values(
        state=STEPS[StepEvent.BEGIN].to,
        conductor=bindparam("who"),
        attempts=_steps.c.attempts + 1,
        started_at=func.coalesce(_steps.c.started_at, now()),
    )
    .returning(*_steps.c)
)
_STARTED_BEFORE = Typed(select(*_steps.c).where(*_AT_CURSOR))
_NODE = Typed(
    select(*_nodes.c, *_agents.c, _steps.c.state)
    .select_from(_nodes)
    .outerjoin(_agents, _agents.c.node_id == _nodes.c.id)
    .outerjoin(
        _steps,
        and_(
            _steps.c.operation_id == bindparam("operation"),
            _steps.c.position == bindparam("at") + 1,
        ),
    )
    .where(_nodes.c.id == bindparam("node"))
)
_PORTS = Typed(select(*_ports.c).where(_ports.c.node_id == bindparam("node")))

_operation, _node, _step = snapshots(Operation), snapshots(Node), snapshots(OperationStep)
_agent, _port = snapshots(AgentRecord), snapshots(Port)


def claim(conductor: Conductor, operation: str, fence: int, cursor: int) -> Attempt | None:
    """Claim a step, or learn that it is not, or no longer, to be run under this fence."""
    token = str(uuid4())
    attempt = until_available(lambda: _claim(conductor, operation, fence, cursor, token))
    if attempt is None:
        forward_newer(conductor.runtime, operation)
    return attempt


def _claim(
    conductor: Conductor, operation: str, fence: int, cursor: int, token: str
) -> Attempt | None:
    """
    The same, once. It may be tried again with its token: when the answer to a commit was lost, the
    claim is in the row already, and is told by its token.
    """
    with conductor.writing() as connection:
        values = _CLAIM.first(
            connection,
            {
                "operation": operation,
                "at": cursor,
                "under": fence,
                "incarnation": conductor.incarnation,
                "token": token,
                "mark": conductor.mark,
                "timeout": conductor.runtime.settings.conductor.step_timeout,
            },
        )
        start = _START_STEP
        if values is None:
            values = _CLAIMED_BEFORE.first(connection, {"operation": operation, "token": token})
            start = _STARTED_BEFORE
        if values is None:
            return None
        found = _operation(values)
        named = {"operation": found.id, "at": found.cursor, "who": conductor.name}
        begun = start.first(connection, named)
        of_node = _NODE.first(connection, {**named, "node": found.node_id})
        assert begun is not None and of_node is not None  # noqa: PT018 - rows of the operation
        each = iter(of_node)
        step, node, agent, next_state = _step(begun), _node(each), _agent(each), next(each)
        ports = [_port(row) for row in _PORTS.all(connection, {"node": node.id})]
    return Attempt(
        found,
        node,
        step,
        ports,
        agent if agent.node_id else None,
        has_next=next_state == StepState.PENDING,
        resumed=step.deaths > 0,
    )


#: An operation while a claim holds; `_held` gives its parameters.
_HELD = (
    _operations.c.id == bindparam("operation"),
    _operations.c.fence == bindparam("under"),
    _operations.c.claim == bindparam("token"),
    _operations.c.state == _advanced_from,
    _NEWEST,
)


def _held(conductor: Conductor, attempt: Attempt) -> dict[str, Any]:
    operation = attempt.operation
    return {
        "operation": operation.id,
        "under": operation.fence,
        "token": operation.claim,
        "mark": conductor.mark,
    }


_ADVANCE = Typed(
    update(_operations)
    .where(*_HELD)
    .values(
        cursor=_operations.c.cursor + 1,
        state=_advanced_to,
        claimed_by=None,
        deadline_at=None,
        sent_at=now(),
        sends=1,
    )
)
_END_STEP = Typed(
    update(_steps)
    .where(_steps.c.id == bindparam("step"), ~_steps.c.abort_after)
    .values(
        state=STEPS[StepEvent.FINISH].to,
        finished_at=now(),
        progress={},
        result=bindparam("came_to", type_=JSON(none_as_null=True)),
    )
)


def advance(conductor: Conductor, attempt: Attempt, result: Mapping[str, Any]) -> bool:
    """
    A step is done that changes nothing else: the next one is to be claimed.

    False when the claim does not hold any more, or the step is to be followed by an abort. A
    request for an abort locks the operation first: it is seen here, or concerns the next step.
    """
    step = attempt.step
    with conductor.writing() as connection:
        if not _ADVANCE.count(connection, _held(conductor, attempt)):
            return False
        ended = _END_STEP.count(connection, {"step": step.id, "came_to": dict(result) or None})
        if not ended:
            connection.rollback()
    return bool(ended)


_GIVE_UP = Typed(update(_operations).where(*_HELD).values(deadline_at=now()))


def give_up(conductor: Conductor, attempt: Attempt) -> None:
    """Nothing more will come of a claim: its deadline passes now, and the reconciler takes over."""
    with conductor.writing() as connection:
        _GIVE_UP.count(connection, _held(conductor, attempt))


def holds(session: Session, conductor: Conductor, operation: Operation, attempt: Attempt) -> bool:
    """Whether an attempt may write. operation: its row as it is now, locked."""
    return (
        operation.state == OperationState.RUNNING
        and operation.fence == attempt.operation.fence
        and operation.claim == attempt.operation.claim
        and _IS_NEWEST.first(connection_of(session), {"mark": conductor.mark}) is not None
    )


_IS_NEWEST = Typed(select(literal(1)).where(_NEWEST))


def is_over(operation: Operation, attempt: Attempt) -> bool:
    """Whether an attempt has written already, and only the answer to its commit was lost."""
    return (
        operation.state != OperationState.RUNNING
        and operation.fence == attempt.operation.fence
        and operation.claim == attempt.operation.claim
    )
