"""
Operations and their steps: locks, queries, and changes of the plan; `dispatch.py` sends them.

Every function runs in the caller's transaction, with the node's row locked (`lock`). Lock order is
node, operation, steps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from sqlalchemy import Integer, bindparam, func, select
from sqlalchemy.orm import Session

from app.db import detached_rows
from app.db.clock import moment
from app.db.prepared import Prepared
from app.db.transactions import connection_of
from app.errors import NotFound
from app.identity.caller import Caller
from app.lifecycle.operation_states import (
    UNFINISHED,
    OperationEvent,
    StepEvent,
    step_transition,
    transition,
)
from app.models import (
    ACTIVE,
    BESIDE,
    Node,
    Operation,
    OperationKind,
    OperationStep,
    StepSource,
    Watermark,
)

WATERMARK = "watermark"


def lock(session: Session, node_id: int) -> Node:
    """
    Return the node, with its row locked until the transaction ends.

    Raises NotFound.
    """
    node = session.scalar(_LOCK, {"node_id": node_id})
    if node is None:
        raise NotFound("node", str(node_id))
    return node


_LOCK = (
    select(Node)
    .where(Node.id == bindparam("node_id"))
    .with_for_update()
    .execution_options(populate_existing=True)
)


def lock_operation(session: Session, operation_id: int) -> tuple[Node, Operation]:
    """
    Lock and return a node and its operation, both freshly read.

    Raises NoResultFound: the operation was deleted with its node.
    """
    node_id = session.get_one(Operation, operation_id).node_id
    node = session.scalars(_LOCK, {"node_id": node_id}).one()
    operation = session.get_one(
        Operation, operation_id, with_for_update=True, populate_existing=True
    )
    return node, operation


class OperationLost(Exception):
    """An operation that was claimed is not in the database: it has lost its last writes."""


@contextmanager
def mapped(session: Session, node_id: int, operation_id: int) -> Iterator[tuple[Node, Operation]]:
    """
    Lock a node and an operation and yield them as rows of the session.

    Raises OperationLost.
    """
    node = session.scalar(_LOCK, {"node_id": node_id})
    operation = session.get(Operation, operation_id, with_for_update=True)
    if node is None or operation is None:
        raise OperationLost
    yield node, operation


@contextmanager
def detached(session: Session, node_id: int, operation_id: int) -> Iterator[tuple[Node, Operation]]:
    """
    Lock a node, an operation and its steps, and yield the first two without the session.

    Only attributes of these rows may be changed (`app/db/detached_rows.py`): no step may be
    deleted. Changes are written on exit.

    Raises OperationLost.
    """
    connection = connection_of(session)
    record = _DETACHED.first(connection, {"node_id": node_id, "operation_id": operation_id})
    if record is None:
        raise OperationLost
    columns = iter(record)
    node, operation = _node(columns), _operation(columns)
    session.info[WATERMARK] = next(columns)
    rows = _DETACHED_STEPS.all(connection, {"operation_id": operation_id})
    cached_steps(session)[operation.uuid] = [_step(iter(values)) for values in rows]
    yield node, operation
    for row in (*steps_of(session, operation), operation, node):
        detached_rows.save(connection, row)


_NODE_COLUMNS, _OPERATION_COLUMNS = Node.__table__.c, Operation.__table__.c
_LEVEL = func.coalesce(select(Watermark.level).scalar_subquery(), 0)
#: Locks the rows in the order of the tables, and reads both after the last lock is taken.
_DETACHED = Prepared(
    select(*_NODE_COLUMNS, *_OPERATION_COLUMNS, _LEVEL)
    .where(
        _NODE_COLUMNS.id == bindparam("node_id"),
        _OPERATION_COLUMNS.id == bindparam("operation_id"),
    )
    .with_for_update()
)
_STEP_COLUMNS = OperationStep.__table__.c
_DETACHED_STEPS = Prepared(
    select(*_STEP_COLUMNS)
    .where(_STEP_COLUMNS.operation_id == bindparam("operation_id"))
    .order_by(_STEP_COLUMNS.position)
)
_node, _operation = detached_rows.reader(Node), detached_rows.reader(Operation)
_step = detached_rows.reader(OperationStep)
_WATERMARK = Prepared(select(_LEVEL))


def watermark(session: Session) -> int:
    """Return the database's watermark; read once per transaction."""
    if WATERMARK not in session.info:
        row = _WATERMARK.first(connection_of(session), {})
        assert row is not None
        (session.info[WATERMARK],) = row
    level: int = session.info[WATERMARK]
    return level


def lock_available(session: Session, operation_ids: Sequence[int]) -> list[tuple[Node, Operation]]:
    """
    Lock the operations that no other transaction has locked, and their nodes.

    Returns them in the given order, with their steps read: at most one per node, as a transaction
    must not change two operations of a node.
    """
    nodes = {node.id: node for node in session.scalars(_LOCK_FREE_NODES, {"ids": operation_ids})}
    operations_by_id = {
        operation.id: operation
        for operation in session.scalars(_LOCK_FREE, {"ids": operation_ids, "nodes": list(nodes)})
    }
    for operation in operations_by_id.values():
        cached_steps(session)[operation.uuid] = []
    for row in session.scalars(_STEPS_OF_ALL, {"ids": list(operations_by_id)}):
        cached_steps(session)[operations_by_id[row.operation_id].uuid].append(row)
    locked_operations = [
        operations_by_id[operation_id]
        for operation_id in operation_ids
        if operation_id in operations_by_id
    ]
    return [
        (nodes.pop(operation.node_id), operation)
        for operation in locked_operations
        if operation.node_id in nodes
    ]


_ids = bindparam("ids", expanding=True, type_=Integer)
_LOCK_FREE_NODES = (
    select(Node)
    .where(Node.id.in_(select(Operation.node_id).where(Operation.id.in_(_ids))))
    .with_for_update(skip_locked=True)
    .execution_options(populate_existing=True)
)
_LOCK_FREE = (
    select(Operation)
    .where(Operation.id.in_(_ids), Operation.node_id.in_(bindparam("nodes", expanding=True)))
    .with_for_update(skip_locked=True)
    .execution_options(populate_existing=True)
)
_STEPS_OF_ALL = (
    select(OperationStep)
    .where(OperationStep.operation_id.in_(_ids))
    .order_by(OperationStep.operation_id, OperationStep.position)
)


def record_finished(
    session: Session,
    node: Node,
    kind: OperationKind,
    caller: Caller,
    error: Mapping[str, Any] | None = None,
) -> Operation:
    """Create an operation that has ended: nothing to do, or `error` prevented its start."""
    time = moment(session)
    operation = Operation(
        uuid=str(uuid4()),
        node_id=node.id,
        kind=kind,
        error=dict(error) if error else None,
        requested_by=caller.user_id,
        request_id=caller.request_id,
        created_at=time,
        admitted_at=time,
        started_at=time,
        finished_at=time,
    )
    transition(session, operation, OperationEvent.FAIL if error else OperationEvent.SUCCEED)
    session.add(operation)
    return operation


def append(session: Session, operation: Operation, rows: Iterable[OperationStep]) -> None:
    """Append steps after the last one."""
    steps = steps_of(session, operation)
    for row in rows:
        row.operation_id, row.position = operation.id, steps[-1].position + 1
        step_transition(row, StepEvent.PLAN)
        session.add(row)
        steps.append(row)


def steps_of(session: Session, operation: Operation) -> list[OperationStep]:
    """Return all steps of an operation in order; read once per transaction."""
    cache = cached_steps(session)
    if operation.uuid not in cache:
        cache[operation.uuid] = list(session.scalars(_STEPS, {"operation_id": operation.id}))
    return cache[operation.uuid]


_STEPS = (
    select(OperationStep)
    .where(OperationStep.operation_id == bindparam("operation_id"))
    .order_by(OperationStep.position)
)


def cached_steps(session: Session) -> dict[str, list[OperationStep]]:
    """Cache of the session: UUID of an operation -> its steps."""
    steps: dict[str, list[OperationStep]] = session.info.setdefault("steps", {})
    return steps


def pending(session: Session, operation: Operation) -> list[OperationStep]:
    """Return the unfinished steps at and after the cursor."""
    return [
        row
        for row in steps_of(session, operation)
        if row.position >= operation.cursor and row.state in UNFINISHED
    ]


def rewind(session: Session, operation: Operation, position: int) -> None:
    """Reset the planned steps from a position on; the caller dispatches the operation."""
    for row in steps_of(session, operation):
        if row.position >= position and row.source != StepSource.TIDY:
            step_transition(row, StepEvent.RESET)
            row.progress = {}
            row.deadline_at = row.remaining = None
    operation.cursor = position


def current_step(session: Session, operation: Operation) -> OperationStep:
    return next(row for row in steps_of(session, operation) if row.position == operation.cursor)


def has_frame(session: Session, operation: Operation) -> bool:
    """Return whether an operation has the frame of its flow; without it, no cleanup is due."""
    return any(row.source == StepSource.FRAME for row in steps_of(session, operation))


def of_node(session: Session, node_id: int) -> list[Operation]:
    """Return all operations of a node, newest first."""
    return list(
        session.scalars(
            select(Operation).where(Operation.node_id == node_id).order_by(Operation.id.desc())
        )
    )


def current(
    session: Session, node_ids: Sequence[int]
) -> dict[int, tuple[Operation, OperationStep | None, list[OperationStep]]]:
    """
    Map node ids to their active operation, its current step and all its steps.

    Takes two queries for any number of nodes. Power changes and other operations that do not move
    the node are excluded.
    """
    if not node_ids:
        return {}
    operations_by_id = {
        operation.id: operation
        for operation in session.scalars(
            select(Operation).where(
                Operation.node_id.in_(node_ids),
                Operation.state.in_(ACTIVE),
                Operation.kind.not_in(BESIDE),
            )
        )
    }
    if not operations_by_id:
        return {}
    steps: dict[int, list[OperationStep]] = {key: [] for key in operations_by_id}
    for row in session.scalars(
        select(OperationStep)
        .where(OperationStep.operation_id.in_(operations_by_id))
        .order_by(OperationStep.operation_id, OperationStep.position)
    ):
        steps[row.operation_id].append(row)
    return {
        operation.node_id: (
            operation,
            next((row for row in steps[operation.id] if row.position == operation.cursor), None),
            steps[operation.id],
        )
        for operation in operations_by_id.values()
    }
