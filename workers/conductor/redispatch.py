"""
Forwarding: a message that this conductor cannot make use of goes to one that can.

That happens while two releases are in one fleet. A hint of a newer kind is told anew, in our words,
to whoever its operation needs; an operation that needs more than we understand is never claimed.
"""

from sqlalchemy import select

from app import log, release
from app.engine import operations
from app.models import Operation, OperationState
from app.runtime import Runtime

logger = log.get(__name__)


def forward(runtime: Runtime, operation: str) -> None:
    """Send an operation, by its UUID, where it belongs, unless it has been claimed."""
    if send_again(runtime, operation):
        logger.info("message.forwarded", operation=operation)


def send_again(runtime: Runtime, operation: str) -> bool:
    """
    Send a new chain of an operation, by its UUID, to the node's owner.

    False: there is nothing to send, as it is claimed, over, or not yet admitted.
    """
    with runtime.transaction() as session:
        found = session.scalar(select(Operation.id).where(Operation.uuid == operation))
        if found is None:
            return False
        node, row = operations.lock_operation(session, found)
        if row.state != OperationState.QUEUED or row.sent_at is None:
            return False
        operations.send(session, node, row)
    return True


def forward_newer(runtime: Runtime, operation: str) -> None:
    """The same, if the operation needs more than this release understands."""
    newer = select(Operation.id).where(
        Operation.uuid == operation, Operation.version > release.UNDERSTOOD
    )
    with runtime.reading() as session:
        if session.scalar(newer) is None:
            return
    forward(runtime, operation)
