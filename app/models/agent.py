"""The ramdisk agent of a node: what it announced, and what it can do."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base


class AgentRecord(Base):
    """
    At most one per node; a heartbeat writes here and nowhere else.

    token: handed out at the first lookup, and to nobody else than `given_to`, the address that it
    came from; again only shortly after `given_at`. pregenerated: it was made for the boot media and
    outlives a power cycle. heartbeats: counts them, so that one that comes while a step is being
    recorded as waiting is not lost. steps: {flow: [step]} that it reported last.
    """

    __tablename__ = "agents"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    url: Mapped[str | None] = mapped_column(Text)
    token: Mapped[str | None] = mapped_column(Text)
    given_to: Mapped[str | None] = mapped_column(String(64))
    given_at: Mapped[datetime | None]
    pregenerated: Mapped[bool] = mapped_column(default=False)
    verify_ca: Mapped[str | None] = mapped_column(Text)
    version: Mapped[str | None] = mapped_column(String(64))
    status: Mapped[str | None] = mapped_column(String(16))
    status_message: Mapped[str | None] = mapped_column(Text)
    heartbeats: Mapped[int] = mapped_column(default=0)
    last_heartbeat_at: Mapped[datetime | None]
    steps: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    steps_refreshed_at: Mapped[datetime | None]
    hardware_manager_version: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
