"""Holds: reasons of people not to use a node, apart from its maintenance."""

from datetime import datetime

from sqlalchemy import ColumnElement, ForeignKey, Index, String, Text, or_
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base, Identified, Timestamped


class Hold(Identified, Timestamped, Base):
    """A hold on a node, which may have several; it has no effect from its expiry on."""

    __tablename__ = "holds"
    __table_args__ = (
        Index("ix_holds_node_id", "node_id"),
        Index("ix_holds_kind", "kind", "node_id"),
        Index("ix_holds_owner", "owner"),
        Index("ix_holds_expires_at", "expires_at"),
    )

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"))
    kind: Mapped[str] = mapped_column(String(32))  # a `HoldKind`
    # of the caller who has created it
    owner: Mapped[str | None] = mapped_column(String(255))  # project; null for the system
    user_id: Mapped[str | None] = mapped_column(String(255))
    user_name: Mapped[str | None] = mapped_column(String(255))
    reason: Mapped[str] = mapped_column(Text)
    expires_at: Mapped[datetime | None]  # null if a caller ends it


def in_effect() -> ColumnElement[bool]:
    """Return the condition of the holds that have not expired."""
    return or_(Hold.expires_at.is_(None), Hold.expires_at > now())
