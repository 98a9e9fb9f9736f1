"""What happened to a node."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base


class NodeHistory(Base):
    """
    One notable event; `event_type` and `severity` are Ironic's words.

    state, target_provision_state: the node's provision states at that time. duration_seconds: for
    how long it had been in that state.
    """

    __tablename__ = "node_history"
    __table_args__ = (Index("ix_node_history_node", "node_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"))
    created_at: Mapped[datetime]
    severity: Mapped[str] = mapped_column(String(8))
    event_type: Mapped[str] = mapped_column(String(64))
    event: Mapped[str] = mapped_column(Text)
    conductor: Mapped[str | None] = mapped_column(String(255))
    state: Mapped[str | None] = mapped_column(String(16))
    target_provision_state: Mapped[str | None] = mapped_column(String(16))
    duration_seconds: Mapped[int | None]
    user: Mapped[str | None] = mapped_column(String(64))
    project: Mapped[str | None] = mapped_column(String(64))
