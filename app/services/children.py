"""
Child nodes: they are reserved for as long as a step of their parent's operation is run on them.
"""

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from app.models import Node, Operation


def reserve(session: Session, operation: Operation, child: str, holder: str) -> Node | None:
    """The child, reserved for an operation of its parent; None while it is reserved otherwise."""
    taken = session.execute(
        update(Node)
        .where(
            Node.uuid == child,
            or_(Node.reservation.is_(None), Node.operation_id == operation.id),
        )
        .values(reservation=holder, operation_id=operation.id)
        .execution_options(synchronize_session=False)
    )
    if not taken.rowcount:  # type: ignore[attr-defined]
        return None
    return session.scalar(select(Node).where(Node.uuid == child))


def release(session: Session, operation: Operation) -> None:
    """No child is reserved for this operation any longer."""
    session.execute(
        update(Node)
        .where(Node.operation_id == operation.id, Node.id != operation.node_id)
        .values(reservation=None, operation_id=None)
        .execution_options(synchronize_session=False)
    )
