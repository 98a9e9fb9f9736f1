"""
History: what happened to a node, in words.
"""

from uuid import uuid4

from sqlalchemy.orm import Session

from app.db import utcnow
from app.models import Node, NodeHistory
from app.runtime import of


def add(session: Session, node: Node, event_type: str, event: str, severity: str = "INFO") -> None:
    """Note an event; `[conductor]node_history` off notes nothing."""
    if not of(session).settings.conductor.node_history:
        return
    session.add(
        NodeHistory(
            uuid=str(uuid4()),
            node_id=node.id,
            created_at=utcnow(),
            severity=severity,
            event_type=event_type,
            event=event,
            conductor=node.reservation,
        )
    )
