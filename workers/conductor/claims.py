"""
Claims: exclusive marks of an attempt on the current step of an operation.

Hot path: short transactions of prepared statements (`app/db/prepared.py`), on purpose without a
session. Building a statement, or a flush of a session, costs more than running the statement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    CTE,
    JSON,
    FromClause,
    Select,
    Update,
    and_,
    bindparam,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session

from app.broker.outages import until_available
from app.db.clock import after, now
from app.db.detached_rows import reader
from app.db.prepared import Prepared, Row
from app.engine import operations
from app.lifecycle.operation_states import STEPS, Actor, OperationEvent, StepEvent, sole_move
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
from app.process import release
from drivers.core.errors import LeaseLost
from drivers.core.steps import Outcome
from workers.conductor.conductor import MARK, Conductor


@dataclass(slots=True)
class Attempt:
    """One claimed step, with the rows as they were at the claim."""

    operation: Operation
    node: Node
    step: OperationStep
    ports: list[Port]  # of the child if there is one
    agent: AgentRecord | None  # of the child if there is one
    has_next: bool  # the step at the next position is pending
    resumed: bool  # an earlier attempt crashed
    child: Node | None = None  # child of `node` that the step runs on; None: it runs on `node`
    postponed: bool = False  # the driver was not called: the time is not the machine's
    seconds: float = 0.0  # duration of the driver's call
    outcome: Outcome | None = None  # recorded outcome; None: none was recorded
    reports: dict[str, Any] = field(default_factory=dict)  # by the driver, to be recorded

    @property
    def charged_seconds(self) -> float | None:
        """Seconds that the attempt takes from the time budget of its step; None: nothing."""
        return None if self.postponed else self.seconds


_operations, _nodes, _steps, _agents, _ports, _watermark = (
    Base.metadata.tables[model.__tablename__]
    for model in (Operation, Node, OperationStep, AgentRecord, Port, Watermark)
)

_claimed_from, _claimed_to = sole_move(OperationEvent.CLAIM, Actor.CONDUCTOR)
_advanced_from, _advanced_to = sole_move(OperationEvent.ADVANCE, Actor.CONDUCTOR)
_NEWEST = func.coalesce(select(_watermark.c.level).scalar_subquery(), 0) >= bindparam("mark")

_CLAIM = (
    update(_operations)
    .where(
        _operations.c.uuid == bindparam("operation"),
        _operations.c.cursor == bindparam("at"),
        _operations.c.fence == bindparam("under"),
        _operations.c.claimed < bindparam("at"),
        _operations.c.state == _claimed_from,
        _operations.c.version <= release.UNDERSTOOD,
        # a reconciler of the previous release also sends operations in the admission queue
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
)


def _start_step(operation: Select[Any]) -> Update:
    """Begin the step at the cursor; operation: selects the id of the claimed operation."""
    return (
        update(_steps)
        .where(
            _steps.c.operation_id == operation.scalar_subquery(),
            _steps.c.position == bindparam("at"),
        )
        .values(
            state=STEPS[StepEvent.BEGIN].to,
            conductor=bindparam("who"),
            attempts=_steps.c.attempts + 1,
            started_at=func.coalesce(_steps.c.started_at, now()),
        )
    )


def _claimed_rows(operation: CTE, step: FromClause) -> Select[Any]:
    """
    Select the rows of an attempt, once for each port; operation: the claimed one.

    Other rows are found by the values of subqueries: for a join, PostgreSQL may plan to read a
    whole table while it is small, and keep that plan when it has grown.
    """
    node_id, id_, cursor = (
        select(column).correlate(None).scalar_subquery()
        for column in (operation.c.node_id, operation.c.id, operation.c.cursor)
    )
    next_steps = _steps.alias()
    return (
        select(*operation.c, *step.c, *_nodes.c, *_agents.c, next_steps.c.state, *_ports.c)
        .select_from(operation)
        .join(step, and_(step.c.operation_id == id_, step.c.position == cursor))
        .join(_nodes, _nodes.c.id == node_id)
        .outerjoin(_agents, _agents.c.node_id == node_id)
        .outerjoin(
            next_steps, and_(next_steps.c.operation_id == id_, next_steps.c.position == cursor + 1)
        )
        .outerjoin(_ports, _ports.c.node_id == node_id)
    )


_CLAIM_OPERATION = Prepared(_CLAIM)
_START_STEP = Prepared(
    _start_step(select(_operations.c.id).where(_operations.c.uuid == bindparam("operation")))
)
_claimed_operation = select(*_operations.c).where(
    _operations.c.uuid == bindparam("operation"), _operations.c.claim == bindparam("token")
)
_CLAIMED = Prepared(_claimed_rows(_claimed_operation.cte("claimed"), _steps))
_new_claim = _CLAIM.returning(*_operations.c).cte("claimed")
_started = _start_step(select(_new_claim.c.id)).returning(*_steps.c).cte("started")
#: On PostgreSQL: these three in one round trip. SQLite changes no rows in a WITH.
_CLAIM_AT_ONCE = Prepared(_claimed_rows(_new_claim, _started))

_operation, _node, _step = reader(Operation), reader(Node), reader(OperationStep)
_agent, _port = reader(AgentRecord), reader(Port)


def claim(
    conductor: Conductor, operation: str, fence: int, cursor: int, leased_node: str | None = None
) -> Attempt | None:
    """
    Claim a step, or return None if it is not, or no longer, to be run under this fence.

    leased_node: UUID of the node whose lease the conductor holds, if it holds one; it must be the
    operation's.

    The attempt is in `conductor.attempts`, until the caller removes it.
    """
    token = str(uuid4())
    conductor.attempts.add(token)
    attempt = None
    try:
        attempt = until_available(
            lambda: _claim(
                conductor, operation, fence, cursor, token=token, leased_node=leased_node
            )
        )
    finally:
        if attempt is None:
            conductor.attempts.discard(token)
    return attempt


def _claim(
    conductor: Conductor,
    operation: str,
    fence: int,
    cursor: int,
    *,
    token: str,
    leased_node: str | None,
) -> Attempt | None:
    """
    Claim a step in one transaction, which may be retried with the same token.

    If the answer to a commit was lost, the retry recognizes the claim by its token.
    """
    parameters = {
        "operation": operation,
        "at": cursor,
        "under": fence,
        "incarnation": conductor.incarnation,
        "token": token,
        "mark": conductor.watermark,
        "timeout": conductor.runtime.settings.conductor.step_timeout,
    }
    start = {"operation": operation, "at": cursor, "who": conductor.name}
    rows: Sequence[Row] = ()
    with conductor.write_connection() as connection:
        if connection.dialect.name == "postgresql":
            rows = _CLAIM_AT_ONCE.all(connection, parameters | start)
        elif _CLAIM_OPERATION.count(connection, parameters):
            _START_STEP.count(connection, start)
        rows = rows or _CLAIMED.all(connection, {"operation": operation, "token": token})
        if not rows:
            return None
        values = iter(rows[0])
        claimed_operation, step, node, agent = (
            _operation(values),
            _step(values),
            _node(values),
            _agent(values),
        )
        if leased_node not in (None, node.uuid):  # a forged message names another node
            connection.rollback()
            return None
    ports = [_port(iter(row[-len(_ports.c) :])) for row in rows]
    return Attempt(
        claimed_operation,
        node,
        step,
        [port for port in ports if port.id],
        agent if agent.node_id else None,
        has_next=next(values) == StepState.PENDING,
        resumed=step.deaths > 0,
    )


#: Condition that a claim is valid; `_held` returns its parameters.
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
        "mark": conductor.watermark,
    }


_ADVANCE = (
    update(_operations)
    .where(*_HELD)
    .values(
        cursor=_operations.c.cursor + 1,
        state=_advanced_to,
        claimed_by=None,
        deadline_at=None,
        sent_at=now(),
        first_sent_at=now(),
        sends=1,
    )
)
_END = (
    update(_steps)
    .where(_steps.c.id == bindparam("step"), ~_steps.c.abort_after)
    .values(
        state=STEPS[StepEvent.FINISH].to,
        finished_at=now(),
        progress={},
        result=bindparam("came_to", type_=JSON(none_as_null=True)),
    )
)
_ADVANCE_OPERATION, _END_STEP = Prepared(_ADVANCE), Prepared(_END)
_advanced_ids = select(_ADVANCE.returning(_operations.c.id).cte("advanced").c.id)
#: On PostgreSQL: both in one round trip.
_ADVANCE_AT_ONCE = Prepared(_END.where(_steps.c.operation_id == _advanced_ids.scalar_subquery()))


def advance(conductor: Conductor, attempt: Attempt, result: Mapping[str, Any]) -> bool:
    """
    Record a step as done, without other effects, and move the cursor to the next step.

    False: the claim is no longer valid, or an abort follows the step. A request for an abort locks
    the operation first, so it is either visible here or concerns the next step.
    """
    claim_parameters = _held(conductor, attempt)
    end = {"step": attempt.step.id, "came_to": dict(result) or None}
    with conductor.write_connection() as connection:
        if connection.dialect.name == "postgresql":
            count = _ADVANCE_AT_ONCE.count(connection, claim_parameters | end)
        else:
            count = _ADVANCE_OPERATION.count(connection, claim_parameters) and _END_STEP.count(
                connection, end
            )
        if not count:
            connection.rollback()
    return bool(count)


_LOCK_HELD = Prepared(select(_operations.c.id).where(*_HELD).with_for_update())
_KEEP_PROGRESS = Prepared(
    update(_steps)
    .where(_steps.c.id == bindparam("step"))
    .values(progress=bindparam("kept", type_=_steps.c.progress.type))
)


def keep_progress(conductor: Conductor, attempt: Attempt, progress: Mapping[str, Any]) -> None:
    """
    Store the progress of a step during an attempt.

    Raises LeaseLost: the claim is no longer valid, and nothing is stored.
    """
    with conductor.write_connection() as connection:
        if not _LOCK_HELD.first(connection, _held(conductor, attempt)):
            raise LeaseLost(f"the operation on node {attempt.node.uuid} was dispatched again")
        _KEEP_PROGRESS.count(connection, {"step": attempt.step.id, "kept": dict(progress)})


_GIVE_UP = Prepared(update(_operations).where(*_HELD).values(deadline_at=now()))


def expire(conductor: Conductor, attempt: Attempt) -> None:
    """Expire a claim without an outcome: its deadline passes now, and the reconciler takes over."""
    with conductor.write_connection() as connection:
        _GIVE_UP.count(connection, _held(conductor, attempt))


def expire_lost(conductor: Conductor, lost_claims: Sequence[tuple[int, int, str]]) -> int:
    """
    Expire claims of attempts that this process does not make; return how many were valid.

    lost_claims: (id, fence, token of the claim) of operations.
    """
    if not lost_claims:
        return 0
    with conductor.write_connection() as connection:
        return sum(
            _GIVE_UP.count(
                connection,
                {"operation": id_, "under": fence, "token": token, "mark": conductor.watermark},
            )
            for id_, fence, token in lost_claims
        )


def holds(session: Session, operation: Operation, attempt: Attempt) -> bool:
    """
    Whether an attempt's claim is valid; operation: its current row, locked.

    session: of `Conductor.transaction`.
    """
    return (
        operation.state == OperationState.RUNNING
        and operation.fence == attempt.operation.fence
        and operation.claim == attempt.operation.claim
        and operations.watermark(session) >= session.info[MARK]
    )


def is_recorded(operation: Operation, attempt: Attempt) -> bool:
    """Whether an attempt's outcome is recorded already: the answer to its commit was lost."""
    return (
        operation.state != OperationState.RUNNING
        and operation.fence == attempt.operation.fence
        and operation.claim == attempt.operation.claim
    )
