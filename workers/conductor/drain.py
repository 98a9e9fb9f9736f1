"""
Drain: a conductor that stops, or that an operator drains, completes its running steps and
redispatches all other operations.

Each operation is sent to its next owner at once; it does not wait for a timeout.
"""

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.db.diagnosis import reason
from app.db.transactions import retrying
from app.engine import dispatch, operations
from app.lifecycle.operation_states import Actor, OperationEvent
from app.models import Operation, OperationState
from app.observe import log
from workers.conductor.conductor import Conductor

logger = log.get(__name__)
seldom = log.RateLimited(logger)


def redispatch(conductor: Conductor, operation: str) -> None:
    """
    Redispatch an operation, by its UUID, to its next owner, unless its next step is claimed.

    The conductor must be unregistered or drained, and must have released the node's lease.
    """
    conductor.runtime.cache.pop("members", None)  # this conductor may be among them
    try:
        is_sent = retrying(lambda: _redispatch(conductor, operation))
    except SQLAlchemyError as error:  # the reconciler sends it, as this conductor is gone
        seldom.warning("operation.not_redispatched", operation=operation, detail=reason(error))
        return
    if is_sent:
        logger.info("operation.redispatched", operation=operation)


def _redispatch(conductor: Conductor, uuid: str) -> bool:
    with conductor.runtime.transaction(Actor.CONDUCTOR) as session:
        operation_id = session.scalars(select(Operation.id).where(Operation.uuid == uuid)).one()
        node, operation = operations.lock_operation(session, operation_id)
        if operation.state != OperationState.QUEUED or operation.admitted_at is None:
            return False
        if operation.sent_to == conductor.incarnation:
            dispatch.dispatch(session, node, operation, OperationEvent.DISPATCH)
        else:  # redispatched already, but the new owner may have dropped it for our lease
            dispatch.send(session, node, operation)
    return True


def redispatch_all(conductor: Conductor, limit: int | None = None) -> None:
    """
    Redispatch the operations that were sent to this conductor and are not claimed.

    limit: number of operations, the oldest first; without it all.
    """
    query = (
        select(Operation.uuid)
        .where(Operation.state == OperationState.QUEUED, Operation.sent_to == conductor.incarnation)
        .order_by(Operation.id)
        .limit(limit)
    )
    try:
        with conductor.runtime.reading() as session:
            operation_uuids = list(session.scalars(query))
    except SQLAlchemyError as error:
        seldom.warning("conductor.no_database", detail=reason(error))
        return
    for operation in operation_uuids:
        redispatch(conductor, operation)
