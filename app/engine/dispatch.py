"""
Dispatch: start an operation, send its steps to the node's owner, and admit the next of a queue.

Every function runs in the caller's transaction, with the node's row locked. Only a dispatch raises
the fence. Messages are sent after the commit.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy import bindparam, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.broker.messages import Link, Message
from app.cluster.conductors import owner_of
from app.db import detached_rows
from app.db.clock import moment, now
from app.db.transactions import call_after_commit, connection_of, retrying
from app.engine import admission
from app.engine.operations import cached_steps, lock_operation, pending
from app.errors import Unavailable
from app.identity.caller import Caller
from app.lifecycle.operation_states import (
    OPERATIONS,
    UNFINISHED,
    OperationEvent,
    StepEvent,
    step_transition,
    transition,
)
from app.models import Node, Operation, OperationKind, OperationState, OperationStep
from app.observe import log
from app.process import kill_points, release
from app.runtime import Runtime, runtime_of

seldom = log.RateLimited(log.get(__name__))

#: Most links of a chain, as each link carries the rest of it; the last one sends the next chain.
LONGEST_CHAIN = 32


def start(  # noqa: PLR0917 - columns of an operation
    session: Session,
    node: Node,
    kind: OperationKind,
    rows: Sequence[OperationStep],
    arguments: Mapping[str, Any],
    caller: Caller,
    **columns: object,
) -> Operation:
    """
    Create an operation and its steps, dispatch it, and return it.

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
        created_at=moment(session),
        cursor=0,
        sends=0,
        version=release.NEEDED,
        party=admission.party_of(node, caller.project_id),
        **columns,
    )
    admit(session, node, operation)
    for position, row in enumerate(rows):
        row.position = position
        step_transition(row, StepEvent.PLAN)
    cached_steps(session)[operation.uuid] = list(rows)
    _raise_fence(session, node, operation, OperationEvent.SUBMIT)
    send(session, node, operation)
    del cached_steps(session)[operation.uuid]  # they do not belong to the session
    node.operation_id = detached_rows.add(connection_of(session), operation)
    for row in rows:
        row.operation_id = node.operation_id
    detached_rows.add_all(connection_of(session), rows)
    return operation


def admit(session: Session, node: Node, operation: Operation) -> bool:
    """
    Admit an operation to the flow that its node has entered; without a free slot, queue it.

    Returns whether it is admitted. A queued one is admitted after the commit at the earliest.
    """
    admitted = admission.enter(session, node, operation)
    if not admitted:
        _admit_after_commit(session, operation)
    return admitted


def dispatch(session: Session, node: Node, operation: Operation, event: OperationEvent) -> None:
    """
    Dispatch the operation at its cursor to the node's owner, under a new fence.

    event: one with a new fence in the table of transitions.
    """
    _raise_fence(session, node, operation, event)
    send(session, node, operation)


def _raise_fence(session: Session, node: Node, operation: Operation, event: OperationEvent) -> None:
    """Make all earlier messages and claims of the operation invalid."""
    assert OPERATIONS[event].new_fence, event
    transition(session, operation, event)
    node.fence += 1
    operation.fence = node.fence
    operation.claimed = operation.cursor - 1
    operation.claimed_by = operation.claim = None
    operation.wake_at = operation.watched_until = operation.deadline_at = None
    operation.sends = 0
    node.operation_id = operation.id


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
        operation.sent_at = operation.sent_to = None
        return
    operation.sent_at = now()
    if not operation.sends:
        operation.first_sent_at = now()
    operation.sent_to = owner.incarnation
    operation.sends += 1
    kind, links = operation.kind, links_of(session, operation)
    message = Message(owner.name, node.uuid, operation.uuid, operation.fence, links, name=node.name)

    def deliver() -> None:
        kill_points.reach("committed", kind)
        if not runtime.send(message):
            seldom.warning("message.not_sent", operation=message.operation)
        kill_points.reach("sent", kind)

    call_after_commit(session, deliver)
    kill_points.reach("handed_out", kind)


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
    kill_points.reach("admitting", kind)
    try:
        if not admission.has_queued(runtime, queue):
            return
        for operation_id in retrying(lambda: admission.admit(runtime, queue)):
            kill_points.reach("admitted", kind)
            retrying(partial(_send_admitted, runtime, operation_id))
    except SQLAlchemyError as error:  # the reconciler admits them later
        seldom.warning("admission.postponed", queue=queue, detail=str(error))


def _send_admitted(runtime: Runtime, operation_id: int) -> None:
    with runtime.transaction() as session:
        node, operation = lock_operation(session, operation_id)
        if operation.state == OperationState.QUEUED and operation.sent_at is None:
            send(session, node, operation)


def links_of(session: Session, operation: Operation) -> tuple[Link, ...]:
    """Build the links of a chain from the steps at and after the cursor."""
    if operation.uuid in cached_steps(session):
        rows = [(row.position, row.label) for row in pending(session, operation)]
    else:  # the labels suffice
        parameters = {"operation_id": operation.id, "cursor": operation.cursor}
        labels = session.execute(_LABELS, parameters)
        rows = [(position, f"{interface}.{name}") for position, interface, name in labels]
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
