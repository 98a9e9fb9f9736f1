"""History of nodes."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base


class NodeHistory(Base):
    """An event in the life of a node."""

    __tablename__ = "node_history"
    __table_args__ = (Index("ix_node_history_node", "node_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"))
    created_at: Mapped[datetime]  # time of the event, by the conductor's or API server's clock
    severity: Mapped[str] = mapped_column(String(8))  # INFO or ERROR, as in Ironic
    event_type: Mapped[str] = mapped_column(String(64))  # name of the kind of event, as in Ironic
    event: Mapped[str] = mapped_column(Text)  # one sentence
    # reservation of the node at that time; null without an
    conductor: Mapped[str | None] = mapped_column(String(255))
    state: Mapped[str | None] = mapped_column(String(16))  # provision state at that time
    # target at that time; null in a stable state
    target_provision_state: Mapped[str | None] = mapped_column(String(16))
    # time in that provision state until the event; null if unknown
    duration_seconds: Mapped[int | None]
    # id of the user who caused it; null for the service
    user: Mapped[str | None] = mapped_column(String(64))
    project: Mapped[str | None] = mapped_column(String(64))  # id of the user's project
