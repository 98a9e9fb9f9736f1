"""
Admission: how many nodes are deployed, and how many are cleaned or deleted, at once.

Whatever comes beyond a limit queues. An operation holds a slot from its admission to its end, also
while it waits for its agent. Each conductor group has queues of its own, unless settings let all
of them share; in a queue, projects take turns, and each project's operations keep their order.

A slot is given away in two ways, so that nobody waits for anybody while there are plenty: `enter`,
as part of the transaction that writes an operation down, and `admit`, alone, in the order of the
queue. On PostgreSQL both take lanes of the queue: who enters takes one, who admits takes all, so
that the latter knows of every slot, and the former of all but those that the other lanes may give
away meanwhile. On SQLite all writers come one after the other.
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
from app.db.prepared import Typed
from app.flows import LIMITED, QUEUES
from app.models import Node, Operation
from app.runtime import Runtime, of

#: Most operations that may enter a queue's slots at the same moment, on PostgreSQL.
LANES = 8


def queue_of(settings: Settings, node: Node, kind: str) -> str | None:
    """The queue of an operation: `class`, or `class/conductor group`; None: it is not limited."""
    limit = LIMITED.get(kind)
    if limit is None:
        return None
    if node.conductor_group and settings.conductor.max_concurrent_per_conductor_group:
        return f"{limit.queue}/{node.conductor_group}"
    return limit.queue


def limit_of(settings: Settings, queue: str) -> int:
    """How many operations of a queue may be under way."""
    limit = QUEUES[queue.partition("/")[0]]
    return int(getattr(settings.conductor, limit.setting))


_QUEUE = Operation.queue == bindparam("queue")
_HOLDS = and_(_QUEUE, Operation.admitted_at.is_not(None), Operation.finished_at.is_(None))
_QUEUES = and_(_QUEUE, Operation.is_queued)
_HELD = select(func.count()).where(_HOLDS)
_ANYONE = Typed(select(literal_column("1")).where(exists().where(_QUEUES)))
_LOOK = Typed(select(_HELD.scalar_subquery(), exists().where(_QUEUES)))
_LANE = text("SELECT pg_advisory_xact_lock(:key, :lane)")
_ALL_LANES = text("SELECT pg_advisory_xact_lock(:key, n) FROM generate_series(1, :lanes) AS n")


def enter(session: Session, node: Node, operation: Operation, project: str | None) -> bool:
    """
    Admit an operation that is being written down, if slots are plenty and nobody queues.

    Else it queues, and `admit` is to be called once it is committed. project: the requester's.
    """
    settings = of(session).settings
    queue = queue_of(settings, node, operation.kind)
    if queue is None:
        operation.admitted_at = operation.created_at
        return True
    operation.queue = queue
    operation.party = f"{node.conductor_group}/{node.lessee or node.owner or project or ''}"
    others = 0
    if _on_postgresql(session):
        session.execute(_LANE, {"key": _key(queue), "lane": node.id % LANES + 1})
        others = LANES - 1
    found = _LOOK.first(transactions.connection_of(session), {"queue": queue})
    assert found is not None  # counts
    held, somebody_queues = found
    if held + others < limit_of(settings, queue) and not somebody_queues:
        operation.admitted_at = operation.created_at
    return operation.admitted_at is not None


def _on_postgresql(session: Session) -> bool:
    return transactions.connection_of(session).dialect.name == "postgresql"


def _key(queue: str) -> int:
    """What a queue's lanes are known by: any number of 32 bits; others may share it."""
    return zlib.crc32(queue.encode()) - 2**31


def is_anyone_queued(runtime: Runtime, queue: str) -> bool:
    with runtime.looking() as connection:
        return _ANYONE.first(connection, {"queue": queue}) is not None


def admit(runtime: Runtime, queue: str) -> list[int]:
    """Give free slots to those whose turn it is: the ids of operations that may be sent now."""
    with runtime.transaction() as session:
        if _on_postgresql(session):
            session.execute(_ALL_LANES, {"key": _key(queue), "lanes": LANES})
        _give_turns(session, queue)
        free = limit_of(runtime.settings, queue) - session.scalars(_HELD, {"queue": queue}).one()
        if free <= 0:
            return []
        # one that is locked is being ended, which leads here again
        first = (
            select(Operation.id)
            .where(_QUEUES)
            .order_by(Operation.turn, Operation.id)
            .limit(free)
            .with_for_update(skip_locked=True)
        )
        admitted = list(session.scalars(first, {"queue": queue}))
        if admitted:
            session.execute(
                update(Operation)
                .where(Operation.id.in_(admitted))
                .values(admitted_at=clock.now())
                .execution_options(synchronize_session=False)
            )
        return admitted


def admit_all(runtime: Runtime) -> list[int]:
    """The same for every queue, in case that who should have done it has died."""
    with runtime.reading() as session:
        queues = list(
            session.scalars(select(Operation.queue).where(Operation.is_queued).distinct())
        )
    return [operation for queue in queues if queue for operation in admit(runtime, queue)]


def _give_turns(session: Session, queue: str) -> None:
    """
    Tell those that have come to a queue in which turn they are.

    In each turn everybody has one operation. Who already queues goes on after its own last turn,
    who is new joins the one that is being served.
    """
    named = {"queue": queue}
    new = select(Operation.id, Operation.party).where(_QUEUES, Operation.turn.is_(None))
    rows = session.execute(new.order_by(Operation.id), named).all()
    if not rows:
        return
    served = session.scalar(select(func.min(Operation.turn)).where(_QUEUES), named) or 1
    last: dict[str | None, int | None] = {}
    for number, party in rows:
        if party not in last:
            of_party = select(func.max(Operation.turn)).where(_QUEUES, Operation.party == party)
            last[party] = session.scalar(of_party, named)
        before = last[party]
        turn = last[party] = served if before is None else before + 1
        session.execute(
            update(Operation)
            .where(Operation.id == number)
            .values(turn=turn)
            .execution_options(synchronize_session=False)
        )


def is_queued(session: Session, node: Node) -> bool:
    """Whether a node's operation has not begun, and will when it is its turn."""
    queued = select(Operation.id).where(Operation.id == node.operation_id, Operation.is_queued)
    return session.scalar(queued) is not None


def document(session: Session, operation: Operation) -> dict[str, Any] | None:
    """
    Where an operation stands in its queue; None: it does not queue.

    place: 1 is next. held_by: what has the slots, counted by kind and state.
    """
    queue = operation.queue
    if queue is None or not operation.is_queued:
        return None
    named = {"queue": queue}
    limited, _, group = queue.partition("/")
    held = session.execute(
        select(
            Operation.kind,
            Operation.state,
            func.count().label("operations"),
            func.min(Operation.admitted_at).label("since"),
        )
        .where(_HOLDS)
        .group_by(Operation.kind, Operation.state)
        .order_by(Operation.kind, Operation.state),
        named,
    )
    count = select(func.count()).where(_QUEUES)
    return {
        "class": limited,
        "conductor_group": group or None,
        "limit": limit_of(of(session).settings, queue),
        "place": 1 + session.scalars(count.where(_is_before(operation)), named).one(),
        "queued": session.scalars(count, named).one(),
        "held_by": [dict(row._mapping) for row in held],
    }


def _is_before(operation: Operation) -> ColumnElement[bool]:
    if operation.turn is None:  # it has only just come
        return or_(Operation.turn.is_not(None), Operation.id < operation.id)
    return or_(
        Operation.turn < operation.turn,
        and_(Operation.turn == operation.turn, Operation.id < operation.id),
    )
