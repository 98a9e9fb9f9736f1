"""
Claims: a step belongs to one attempt, from its claim until it is done.

This is the hot path: short transactions of statements on tables, built once. To build a statement,
or to let a session find out what has changed, costs more than to run it.
"""

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from sqlalchemy import JSON, Connection, and_, bindparam, func, or_, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app import release
from app.db import after, now
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
from app.runtime import Runtime
from drivers.core.steps import Outcome
from workers.forwarding import forward_newer
from workers.lease import Leases
from workers.patience import patiently
from workers.waker import Waker
from workers.witness import Witness


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
        with self.runtime.transaction() as session:
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

_NEWEST = func.coalesce(select(_watermark.c.level).scalar_subquery(), 0) >= bindparam("mark")

_CLAIM = (
    update(_operations)
    .where(
        _operations.c.uuid == bindparam("operation"),
        _operations.c.cursor == bindparam("at"),
        _operations.c.fence == bindparam("under"),
        _operations.c.claimed < bindparam("at"),
        _operations.c.state == OperationState.QUEUED,
        _operations.c.version <= release.UNDERSTOOD,
        # a reconciler of the release before sends what still queues for admission
        or_(_operations.c.queue.is_(None), _operations.c.admitted_at.is_not(None)),
        _NEWEST,
    )
    .values(
        claimed=bindparam("at"),
        claimed_by=bindparam("incarnation"),
        claim=bindparam("token"),
        state=OperationState.RUNNING,
        started_at=func.coalesce(_operations.c.started_at, now()),
        deadline_at=after(bindparam("timeout")),
        heartbeats=func.coalesce(
            select(_agents.c.heartbeats)
            .where(_agents.c.node_id == _operations.c.node_id)
            .scalar_subquery(),
            0,
        ),
    )
)
_START_STEP = (
    update(_steps)
    .where(
        _steps.c.operation_id
        == select(_operations.c.id)
        .where(_operations.c.uuid == bindparam("operation"))
        .scalar_subquery(),
        _steps.c.position == bindparam("at"),
    )
    .values(
        state=StepState.RUNNING,
        conductor=bindparam("who"),
        attempts=_steps.c.attempts + 1,
        started_at=func.coalesce(_steps.c.started_at, now()),
    )
)
_next = _steps.alias("next")
_CLAIMED = (
    select(*_operations.c, *_nodes.c, *_steps.c, *_agents.c, _next.c.state)
    .join_from(_operations, _nodes, _nodes.c.id == _operations.c.node_id)
    .join(
        _steps,
        and_(_steps.c.operation_id == _operations.c.id, _steps.c.position == _operations.c.cursor),
    )
    .outerjoin(_agents, _agents.c.node_id == _nodes.c.id)
    .outerjoin(
        _next,
        and_(_next.c.operation_id == _operations.c.id, _next.c.position == _steps.c.position + 1),
    )
    .where(_operations.c.uuid == bindparam("operation"), _operations.c.claim == bindparam("token"))
)
_PORTS = select(*_ports.c).where(_ports.c.node_id == bindparam("node"))

_operation, _node, _step = snapshots(Operation), snapshots(Node), snapshots(OperationStep)
_agent, _port = snapshots(AgentRecord), snapshots(Port)


def claim(conductor: Conductor, operation: str, fence: int, cursor: int) -> Attempt | None:
    """Claim a step, or learn that it is not, or no longer, to be run under this fence."""
    token = str(uuid4())
    attempt = patiently(lambda: _claim(conductor, operation, fence, cursor, token))
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
    named = {"operation": operation, "at": cursor}
    with conductor.writing() as connection:
        claimed = connection.execute(
            _CLAIM,
            {
                **named,
                "under": fence,
                "incarnation": conductor.incarnation,
                "token": token,
                "mark": conductor.mark,
                "timeout": conductor.runtime.settings.conductor.step_timeout,
            },
        )
        if claimed.rowcount:
            connection.execute(_START_STEP, {**named, "who": conductor.name})
        row = connection.execute(_CLAIMED, {"operation": operation, "token": token}).one_or_none()
        if row is None:
            return None
        values = iter(row)
        found, node, step = _operation(values), _node(values), _step(values)
        agent, next_state = _agent(values), next(values)
        ports = [_port(each) for each in connection.execute(_PORTS, {"node": node.id})]
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
    _operations.c.state == OperationState.RUNNING,
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


_ADVANCE = (
    update(_operations)
    .where(*_HELD)
    .values(
        cursor=_operations.c.cursor + 1,
        state=OperationState.QUEUED,
        claimed_by=None,
        deadline_at=None,
        sent_at=now(),
        sends=1,
    )
)
_END_STEP = (
    update(_steps)
    .where(_steps.c.id == bindparam("step"), ~_steps.c.abort_after)
    .values(
        state=StepState.DONE,
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
        advanced = connection.execute(_ADVANCE, {**_held(conductor, attempt), "step": step.id})
        if not advanced.rowcount:
            return False
        ended = connection.execute(_END_STEP, {"step": step.id, "came_to": dict(result) or None})
        if not ended.rowcount:
            connection.rollback()
    return bool(ended.rowcount)


_GIVE_UP = update(_operations).where(*_HELD).values(deadline_at=now())


def give_up(conductor: Conductor, attempt: Attempt) -> None:
    """Nothing more will come of a claim: its deadline passes now, and the reconciler takes over."""
    with conductor.writing() as connection:
        connection.execute(_GIVE_UP, _held(conductor, attempt))


def holds(session: Session, conductor: Conductor, operation: Operation, attempt: Attempt) -> bool:
    """Whether an attempt may write. operation: its row as it is now, locked."""
    return (
        operation.state == OperationState.RUNNING
        and operation.fence == attempt.operation.fence
        and operation.claim == attempt.operation.claim
        and bool(session.scalar(_IS_NEWEST, {"mark": conductor.mark}))
    )


_IS_NEWEST = select(_NEWEST)


def is_over(operation: Operation, attempt: Attempt) -> bool:
    """Whether an attempt has written already, and only the answer to its commit was lost."""
    return (
        operation.state != OperationState.RUNNING
        and operation.fence == attempt.operation.fence
        and operation.claim == attempt.operation.claim
    )
