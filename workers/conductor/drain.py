"""
Leaving: a conductor that was told to stop finishes the steps that run, and hands over what follows.

Nobody has to notice: the next owner is told at once.
"""

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from app import log
from app.db.diagnosis import reason
from app.db.transactions import retrying
from app.engine import operations
from app.models import Operation, OperationState
from app.operation_states import Actor, OperationEvent
from workers.conductor.claims import Conductor

logger = log.get(__name__)


def hand_over(conductor: Conductor, operation: str) -> None:
    """
    Give an operation, by its UUID, to its next owner, unless somebody has begun its next step.

    The conductor has said goodbye to the database, and does not hold the node's lease any more.
    """
    conductor.runtime.cache.pop("members", None)  # we may be among them
    try:
        handed = retrying(lambda: _hand_over(conductor, operation))
    except DBAPIError as error:  # the reconciler sees that what it was sent to is gone
        logger.warning("operation.not_handed_over", operation=operation, detail=reason(error))
        return
    if handed:
        logger.info("operation.handed_over", operation=operation)


def _hand_over(conductor: Conductor, uuid: str) -> bool:
    with conductor.runtime.transaction(Actor.CONDUCTOR) as session:
        found = session.scalars(select(Operation.id).where(Operation.uuid == uuid)).one()
        node, operation = operations.lock_operation(session, found)
        if operation.state != OperationState.QUEUED or operation.admitted_at is None:
            return False
        if operation.sent_to == conductor.incarnation:
            operations.hand_out(session, node, operation, OperationEvent.HAND_OUT)
        else:  # handed over already; its new owner may have met our lease
            operations.send(session, node, operation)
    return True


def hand_over_all(conductor: Conductor) -> None:
    """Hand over what was sent here and is not begun."""
    query = select(Operation.uuid).where(
        Operation.state == OperationState.QUEUED, Operation.sent_to == conductor.incarnation
    )
    try:
        with conductor.runtime.reading() as session:
            mine = list(session.scalars(query))
    except DBAPIError as error:
        logger.warning("conductor.no_database", detail=reason(error))
        return
    for operation in mine:
        hand_over(conductor, operation)
