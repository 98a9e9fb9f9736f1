"""
Redispatch of messages that this conductor cannot process, to a conductor that can.

While a fleet runs two releases, a message in a newer format is replaced by one in this release's
format, sent to the operation's owner. An operation that needs a newer release than this one is
never claimed. A conductor that holds a node's lease for an outdated message may cost the operation
its current one: it sends the operation again.
"""

from sqlalchemy import or_, select

from app.engine import dispatch, operations
from app.models import Operation, OperationState
from app.observe import log
from app.process import release
from app.runtime import Runtime

logger = log.get(__name__)


def forward(runtime: Runtime, operation: str) -> None:
    """Send an operation, by its UUID, to its owner, unless it is claimed."""
    if send_again(runtime, operation):
        logger.info("message.forwarded", operation=operation)


def send_again(runtime: Runtime, operation: str) -> bool:
    """
    Send a new chain of an operation, by its UUID, to the node's owner.

    False: not sent, because the operation is claimed, has ended, or is not yet admitted.
    """
    with runtime.transaction() as session:
        operation_id = session.scalar(select(Operation.id).where(Operation.uuid == operation))
        if operation_id is None:
            return False
        node, row = operations.lock_operation(session, operation_id)
        if row.state != OperationState.QUEUED or row.sent_at is None:
            return False
        dispatch.send(session, node, row)
    return True


def forward_refused(runtime: Runtime, operation: str, fence: int) -> None:
    """
    Send an operation, by its UUID, to its owner, after the claim of a message was refused.

    This happens if the operation needs a newer release than this one, or was dispatched under a
    higher fence than the message's: the new message may have been dropped while this one's lease
    was held. The lease must have been given back. fence: the message's.
    """
    to_send = select(Operation.id).where(
        Operation.uuid == operation,
        or_(Operation.version > release.UNDERSTOOD, Operation.fence > fence),
    )
    with runtime.reading() as session:
        if session.scalar(to_send) is None:
            return
    if send_again(runtime, operation):
        logger.info("operation.sent_again", operation=operation)
