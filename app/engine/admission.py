"""
Admission: limits on concurrent operations, one for deployments, one for cleaning.

An operation needs a slot when it enters a flow with a limit: at its start, or after the tear-down
of an instance, whose node it then cleans. Operations beyond a limit wait in an admission queue. An
operation holds a slot from its admission to its end, also while it waits for its agent. Each
conductor group has its own queues, unless the settings make all groups share them. Within a queue,
operations are admitted in rounds: one of each project per round, and each project's operations in
their order.

Slots are granted in two ways, so that operations do not wait for each other's locks while slots are
plentiful: `enter` in the transaction that enters the flow, and `admit` in the order of the
queue. On PostgreSQL both take advisory locks, the lanes of the queue: `enter` takes one and `admit`
takes all. So `admit` sees every granted slot, and `enter` sees all but those that the other lanes
may be granting concurrently. SQLite serializes all write transactions.
"""

import zlib
from typing import Any

from sqlalchemy import (
    ColumnElement,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.orm import Session

from app.config.settings import Settings
from app.db import clock, transactions
from app.db.prepared import Prepared
from app.lifecycle import flows
from app.models import Node, Operation
from app.runtime import Runtime, runtime_of

#: Most concurrent transactions of `enter` per queue on PostgreSQL.
LANES = 8


def _queue_of(settings: Settings, node: Node) -> str | None:
    """
    Return the queue of the flow that a node is in, `class` or `class/conductor group`.

    Returns None if the flow has no limit.
    """
    flow = flows.busy_in(node.provision_state)
    if flow is None or flow.limit is None:
        return None
    if node.conductor_group and settings.conductor.max_concurrent_per_conductor_group:
        return f"{flow.limit.queue}/{node.conductor_group}"
    return flow.limit.queue


def limit_of(settings: Settings, queue: str) -> int:
    """Return the number of slots of a queue."""
    limit = flows.QUEUES[queue.partition("/")[0]]
    return int(getattr(settings.conductor, limit.setting))


_QUEUE = Operation.queue == bindparam("queue")
_HOLDS = and_(_QUEUE, Operation.admitted_at.is_not(None), Operation.finished_at.is_(None))
_QUEUES = and_(_QUEUE, Operation.is_queued)
_HELD = select(func.count()).where(_HOLDS)
_HAS_QUEUED = Prepared(select(literal_column("1")).where(exists().where(_QUEUES)))
_HELD_AND_QUEUED = Prepared(select(_HELD.scalar_subquery(), exists().where(_QUEUES)))
_LANE = text("SELECT pg_advisory_xact_lock(:key, :lane)")
_ALL_LANES = text("SELECT pg_advisory_xact_lock(:key, n) FROM generate_series(1, :lanes) AS n")


def party_of(node: Node, project: str | None) -> str:
    """Return the party of an operation. project: of the requester."""
    return f"{node.conductor_group}/{node.lessee or node.owner or project or ''}"


def enter(session: Session, node: Node, operation: Operation) -> bool:
    """
    Admit an operation to the flow that its node has entered, if a slot is certainly free and the
    queue is empty.

    Otherwise it is queued, and the caller calls `admit` after the commit. Returns whether the
    operation is admitted; one that holds a slot keeps it.
    """
    settings = runtime_of(session).settings
    queue = _queue_of(settings, node) if operation.moves_node else None
    if queue is None or operation.queue is not None:
        operation.admitted_at = operation.admitted_at or operation.created_at
        return True
    operation.queue, operation.admitted_at = queue, None
    concurrent_admissions = 0
    if _on_postgresql(session):
        session.execute(_LANE, {"key": _key(queue), "lane": node.id % LANES + 1})
        concurrent_admissions = LANES - 1
    counts = _HELD_AND_QUEUED.first(transactions.connection_of(session), {"queue": queue})
    assert counts is not None  # it selects counts
    held_slots, others_queue = counts
    if held_slots + concurrent_admissions < limit_of(settings, queue) and not others_queue:
        operation.admitted_at = clock.moment(session)
    return operation.admitted_at is not None


def _on_postgresql(session: Session) -> bool:
    return transactions.connection_of(session).dialect.name == "postgresql"


def _key(queue: str) -> int:
    """Key of the queue's advisory locks: 32 bits, which another queue may share."""
    return zlib.crc32(queue.encode()) - 2**31


def has_queued(runtime: Runtime, queue: str) -> bool:
    """Return whether an operation is in the queue."""
    with runtime.read_connection() as connection:
        return _HAS_QUEUED.first(connection, {"queue": queue}) is not None


def admit(runtime: Runtime, queue: str) -> list[int]:
    """Grant the free slots of a queue, in its order. Returns the ids of the admitted operations."""
    with runtime.transaction() as session:
        if _on_postgresql(session):
            session.execute(_ALL_LANES, {"key": _key(queue), "lanes": LANES})
        _assign_rounds(session, queue)
        free_slots = (
            limit_of(runtime.settings, queue) - session.scalars(_HELD, {"queue": queue}).one()
        )
        if free_slots <= 0:
            return []
        # a locked one is ending in another transaction, which calls `admit` after its commit
        query = (
            select(Operation.id)
            .where(_QUEUES)
            .order_by(Operation.round, Operation.id)
            .limit(free_slots)
            .with_for_update(skip_locked=True)
        )
        admitted = list(session.scalars(query, {"queue": queue}))
        if admitted:
            session.execute(
                update(Operation)
                .where(Operation.id.in_(admitted))
                .values(admitted_at=clock.now())
                .execution_options(synchronize_session=False)
            )
        return admitted


def admit_all(runtime: Runtime) -> list[int]:
    """Run `admit` for every queue, in case a process has died between its commit and `admit`."""
    with runtime.reading() as session:
        queues = list(
            session.scalars(select(Operation.queue).where(Operation.is_queued).distinct())
        )
    return [operation for queue in queues if queue for operation in admit(runtime, queue)]


def _assign_rounds(session: Session, queue: str) -> None:
    """
    Assign rounds to new operations of a queue.

    Each party has one operation per round. A party with queued operations continues after its last
    round; a new one joins the lowest round in the queue.
    """
    parameters = {"queue": queue}
    new_operations = select(Operation.id, Operation.party).where(_QUEUES, Operation.round.is_(None))
    rows = session.execute(new_operations.order_by(Operation.id), parameters).all()
    if not rows:
        return
    lowest_round = session.scalar(select(func.min(Operation.round)).where(_QUEUES), parameters) or 1
    # party -> its last round, or None if it has no operation in the queue
    last_rounds: dict[str | None, int | None] = {}
    for number, party in rows:
        if party not in last_rounds:
            of_party = select(func.max(Operation.round)).where(_QUEUES, Operation.party == party)
            last_rounds[party] = session.scalar(of_party, parameters)
        last_round = last_rounds[party]
        round_ = last_rounds[party] = lowest_round if last_round is None else last_round + 1
        session.execute(
            update(Operation)
            .where(Operation.id == number)
            .values(round=round_)
            .execution_options(synchronize_session=False)
        )


def is_queued(session: Session, node: Node) -> bool:
    """Return whether the node's operation is in an admission queue."""
    query = select(Operation.id).where(Operation.id == node.operation_id, Operation.is_queued)
    return session.scalar(query) is not None


def document(session: Session, operation: Operation) -> dict[str, Any] | None:
    """
    Describe an operation's position in its admission queue; None if it is not queued.

    `place`: 1 is next. `held_by`: the operations that hold the slots, counted by kind and state.
    """
    queue = operation.queue
    if queue is None or not operation.is_queued:
        return None
    parameters = {"queue": queue}
    limited, _, group = queue.partition("/")
    holders = session.execute(
        select(
            Operation.kind,
            Operation.state,
            func.count().label("operations"),
            func.min(Operation.admitted_at).label("since"),
        )
        .where(_HOLDS)
        .group_by(Operation.kind, Operation.state)
        .order_by(Operation.kind, Operation.state),
        parameters,
    )
    count = select(func.count()).where(_QUEUES)
    return {
        "class": limited,
        "conductor_group": group or None,
        "limit": limit_of(runtime_of(session).settings, queue),
        "place": 1 + session.scalars(count.where(_is_before(operation)), parameters).one(),
        "queued": session.scalars(count, parameters).one(),
        "held_by": [dict(row._mapping) for row in holders],
    }


def _is_before(operation: Operation) -> ColumnElement[bool]:
    if operation.round is None:  # it has no round yet, and follows those that have one
        return or_(Operation.round.is_not(None), Operation.id < operation.id)
    return or_(
        Operation.round < operation.round,
        and_(Operation.round == operation.round, Operation.id < operation.id),
    )
