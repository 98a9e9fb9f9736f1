"""
Operations: creation, dispatch, and queries.

Every function runs in the caller's transaction, with the node's row locked (`lock`). Lock order is
node, operation, steps. Only a dispatch raises the fence.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy import FromClause, Integer, bindparam, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app import killpoints, log, release
from app.db.clock import now, utcnow
from app.db.prepared import Typed
from app.db.transactions import call_after_commit, connection_of, retrying
from app.engine import admission
from app.errors import NotFound, Unavailable
from app.kit.caller import Caller
from app.kit.conductors import owner_of
from app.models import (
    ACTIVE,
    BESIDE,
    Node,
    Operation,
    OperationKind,
    OperationState,
    OperationStep,
    StepSource,
    draft,
)
from app.operation_states import (
    OPERATIONS,
    UNFINISHED,
    OperationEvent,
    StepEvent,
    step_transition,
    transition,
)
from app.runtime import Link, Message, Runtime, runtime_of

logger = log.get(__name__)

#: Most links of a chain, as each link carries the rest of it; the last one sends the next chain.
LONGEST_CHAIN = 32


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

    Raises NotFound.
    """
    node_id = session.get_one(Operation, operation_id).node_id
    node = lock(session, node_id)
    operation = session.get_one(
        Operation, operation_id, with_for_update=True, populate_existing=True
    )
    return node, operation


@contextmanager
def mapped(session: Session, node_id: int, operation_id: int) -> Iterator[tuple[Node, Operation]]:
    """
    Lock a node and an operation and yield them as rows of the session.

    Raises NotFound.
    """
    yield lock(session, node_id), session.get_one(Operation, operation_id, with_for_update=True)


@contextmanager
def drafted(session: Session, node_id: int, operation_id: int) -> Iterator[tuple[Node, Operation]]:
    """
    Lock a node, an operation and its steps, and yield the first two as drafts.

    Drafts (`app/models/draft.py`) allow changes of columns only: no step may be deleted. Changed
    columns are written on exit.

    Raises NotFound.
    """
    connection = connection_of(session)
    node_row = _DRAFT_NODE.first(connection, {"id_": node_id})
    operation_row = _DRAFT_OPERATION.first(connection, {"id_": operation_id})
    if node_row is None or operation_row is None:
        raise NotFound("node", str(node_id))
    node, operation = _node(node_row), _operation(operation_row)
    rows = _DRAFT_STEPS.all(connection, {"operation_id": operation_id})
    _steps_in(session)[operation.uuid] = [_step(each) for each in rows]
    yield node, operation
    for row in (*steps_of(session, operation), operation, node):
        draft.save(connection, row)


def _one_locked(table: FromClause) -> Typed:
    return Typed(select(*table.c).where(table.c.id == bindparam("id_")).with_for_update())


_DRAFT_NODE, _DRAFT_OPERATION = _one_locked(Node.__table__), _one_locked(Operation.__table__)
_STEP_COLUMNS = OperationStep.__table__.c
_DRAFT_STEPS = Typed(
    select(*_STEP_COLUMNS)
    .where(_STEP_COLUMNS.operation_id == bindparam("operation_id"))
    .order_by(_STEP_COLUMNS.position)
)
_node, _operation = draft.drafts(Node), draft.drafts(Operation)
_step = draft.drafts(OperationStep)


def lock_available(session: Session, operation_ids: Sequence[int]) -> list[tuple[Node, Operation]]:
    """
    Lock those of the operations that no other transaction has locked, and their nodes.

    Returns them in the given order, with their steps read: at most one per node, as a transaction
    must not change two operations of a node.
    """
    nodes = {node.id: node for node in session.scalars(_LOCK_FREE_NODES, {"ids": operation_ids})}
    found = {
        each.id: each
        for each in session.scalars(_LOCK_FREE, {"ids": operation_ids, "nodes": list(nodes)})
    }
    for each in found.values():
        _steps_in(session)[each.uuid] = []
    for row in session.scalars(_STEPS_OF_ALL, {"ids": list(found)}):
        _steps_in(session)[found[row.operation_id].uuid].append(row)
    locked = [found[each] for each in operation_ids if each in found]
    return [(nodes.pop(each.node_id), each) for each in locked if each.node_id in nodes]


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


def start(  # noqa: PLR0917 - columns of an operation
    session: Session,
    node: Node,
    kind: OperationKind,
    rows: Sequence[OperationStep],
    arguments: Mapping[str, Any],
    caller: Caller,
    **columns: Any,
) -> None:
    """
    Create an operation and its steps and dispatch it.

    The message is sent after the commit, or after admission where such operations queue. rows: not
    empty; the event of the last one ends the operation. columns: further columns of the operation.
    The rows are inserted at once, without the session; read them again to change them.
    """
    operation = Operation(
        uuid=str(uuid4()),
        node_id=node.id,
        kind=kind,
        arguments=dict(arguments),
        requested_by=caller.user_id,
        request_id=caller.request_id,
        created_at=utcnow(),
        cursor=0,
        sends=0,
        version=release.NEEDED,
        **columns,
    )
    if not admission.enter(session, node, operation, caller.project_id):
        _admit_after_commit(session, operation)
    for position, row in enumerate(rows):
        row.position = position
        step_transition(row, StepEvent.PLAN)
    _steps_in(session)[operation.uuid] = list(rows)
    dispatch(session, node, operation, OperationEvent.SUBMIT)
    del _steps_in(session)[operation.uuid]  # they do not belong to the session
    node.operation_id = draft.add(connection_of(session), operation)
    for row in rows:
        row.operation_id = node.operation_id
    draft.add_all(connection_of(session), rows)


def record_finished(
    session: Session,
    node: Node,
    kind: OperationKind,
    caller: Caller,
    error: Mapping[str, Any] | None = None,
) -> Operation:
    """Create an operation that has ended: nothing to do, or `error` prevented its start."""
    moment = utcnow()
    operation = Operation(
        uuid=str(uuid4()),
        node_id=node.id,
        kind=kind,
        error=dict(error) if error else None,
        requested_by=caller.user_id,
        request_id=caller.request_id,
        created_at=moment,
        admitted_at=moment,
        started_at=moment,
        finished_at=moment,
    )
    transition(session, operation, OperationEvent.FAIL if error else OperationEvent.SUCCEED)
    session.add(operation)
    return operation


def append(
    session: Session, operation: Operation, rows: Iterable[OperationStep], position: int
) -> None:
    """Append steps from a position on."""
    known = steps_of(session, operation)
    for offset, row in enumerate(rows):
        row.operation_id, row.position = operation.id, position + offset
        step_transition(row, StepEvent.PLAN)
        session.add(row)
        known.append(row)


def dispatch(session: Session, node: Node, operation: Operation, event: OperationEvent) -> None:
    """
    Dispatch the operation at its cursor to the node's owner, under a new fence.

    event: one with a new fence in the table of transitions.
    """
    assert OPERATIONS[event].new_fence, event
    transition(session, operation, event)
    node.fence += 1
    operation.fence = node.fence
    operation.claimed = operation.cursor - 1
    operation.claimed_by = operation.claim = None
    operation.wake_at = operation.watched_until = operation.deadline_at = None
    operation.sends = 0
    node.operation_id = operation.id
    send(session, node, operation)


def send(session: Session, node: Node, operation: Operation) -> None:
    """
    Send the chain of the remaining steps to the node's owner.

    Without an owner, or before admission, the operation stays queued and nothing is sent.
    """
    runtime = runtime_of(session)
    try:
        owner = owner_of(session, node, operation.version)
    except Unavailable:
        node.reservation = node.reservation or "unowned"
        operation.sent_at = operation.sent_to = None
        return
    node.reservation = owner.name
    if operation.is_queued:
        return
    operation.sent_at = now()
    operation.sent_to = owner.incarnation
    operation.sends += 1
    kind, links = operation.kind, links_of(session, operation)
    message = Message(owner.name, node.uuid, operation.uuid, operation.fence, links)

    def deliver() -> None:
        killpoints.reach("committed", kind)
        if not runtime.send(message):
            logger.warning("message.not_sent", operation=message.operation)
        killpoints.reach("sent", kind)

    call_after_commit(session, deliver)
    killpoints.reach("handed_out", kind)


def free_slot(session: Session, operation: Operation) -> None:
    """Admit the next operations of the queue once the end of this one is committed."""
    if operation.queue is not None:
        _admit_after_commit(session, operation)


def _admit_after_commit(session: Session, operation: Operation) -> None:
    runtime, queue, kind = runtime_of(session), operation.queue, operation.kind
    assert queue is not None
    call_after_commit(session, lambda: _admit(runtime, queue, kind))


def _admit(runtime: Runtime, queue: str, kind: str) -> None:
    """
    Admit and send operations of a queue, in transactions of their own.

    Runs after the commit, without locks: two operations that start or end concurrently do not see
    each other before they commit.
    """
    killpoints.reach("admitting", kind)
    try:
        if not admission.has_queued(runtime, queue):
            return
        for operation_id in retrying(lambda: admission.admit(runtime, queue)):
            killpoints.reach("admitted", kind)
            retrying(partial(_send_admitted, runtime, operation_id))
    except SQLAlchemyError as error:  # the reconciler admits them later
        logger.warning("admission.postponed", queue=queue, detail=str(error))


def _send_admitted(runtime: Runtime, operation_id: int) -> None:
    with runtime.transaction() as session:
        node, operation = lock_operation(session, operation_id)
        if operation.state == OperationState.QUEUED and operation.sent_at is None:
            send(session, node, operation)


def steps_of(session: Session, operation: Operation) -> list[OperationStep]:
    """Return all steps of an operation in order; read once per transaction."""
    known = _steps_in(session)
    if operation.uuid not in known:
        known[operation.uuid] = list(session.scalars(_STEPS, {"operation_id": operation.id}))
    return known[operation.uuid]


def links_of(session: Session, operation: Operation) -> tuple[Link, ...]:
    """Build the links of a chain from the steps at and after the cursor."""
    if operation.uuid in _steps_in(session):
        rows = [(row.position, row.label) for row in pending(session, operation)]
    else:  # the labels suffice
        named = {"operation_id": operation.id, "cursor": operation.cursor}
        found = session.execute(_LABELS, named)
        rows = [(position, f"{interface}.{name}") for position, interface, name in found]
    return tuple(Link(str(uuid4()), position, label) for position, label in rows[:LONGEST_CHAIN])


_LABELS = (
    select(OperationStep.position, OperationStep.interface, OperationStep.name)
    .where(
        OperationStep.operation_id == bindparam("operation_id"),
        OperationStep.position >= bindparam("cursor"),
        OperationStep.state.in_(UNFINISHED),
    )
    .order_by(OperationStep.position)
    .limit(LONGEST_CHAIN)
)

_STEPS = (
    select(OperationStep)
    .where(OperationStep.operation_id == bindparam("operation_id"))
    .order_by(OperationStep.position)
)


def _steps_in(session: Session) -> dict[str, list[OperationStep]]:
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
    """Return the step at the cursor."""
    return next(row for row in steps_of(session, operation) if row.position == operation.cursor)


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

    Takes two queries for any number of nodes. Power changes and other operations beside the
    provision state are excluded.
    """
    if not node_ids:
        return {}
    found = {
        each.id: each
        for each in session.scalars(
            select(Operation).where(
                Operation.node_id.in_(node_ids),
                Operation.state.in_(ACTIVE),
                Operation.kind.not_in(BESIDE),
            )
        )
    }
    if not found:
        return {}
    steps: dict[int, list[OperationStep]] = {key: [] for key in found}
    for row in session.scalars(
        select(OperationStep)
        .where(OperationStep.operation_id.in_(found))
        .order_by(OperationStep.operation_id, OperationStep.position)
    ):
        steps[row.operation_id].append(row)
    return {
        each.node_id: (
            each,
            next((row for row in steps[each.id] if row.position == each.cursor), None),
            steps[each.id],
        )
        for each in found.values()
    }
