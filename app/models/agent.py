"""Agents: address, token, heartbeats and steps of the agent in a node's ramdisk."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column, validates

from app.db.secret_columns import Document, SealedText
from app.models.base import Base


class AgentRecord(Base):
    """
    The agent of a node, at most one per node.

    A heartbeat writes only this row. The token is returned to the address of the first lookup
    only, and repeatedly only until the first heartbeat (`app.agents.lookup.token`).
    """

    __tablename__ = "agents"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    # callback_url of its heartbeats; null after a restart of the machine
    url: Mapped[str | None] = mapped_column(Text)
    # secret of the agent's requests; null before the first lookup
    token: Mapped[str | None] = mapped_column(SealedText)
    # by which repeated heartbeats are compared; null before the first heartbeat with this token
    token_digest: Mapped[str | None] = mapped_column(String(64))
    # IP address that the token was returned to; null if unknown
    given_to: Mapped[str | None] = mapped_column(String(64))
    given_at: Mapped[datetime | None]  # time of that lookup
    # the token was made for the boot media, and outlives a power cycle
    pregenerated: Mapped[bool] = mapped_column(default=False)
    # certificate of the agent's API, PEM; null if not sent
    verify_ca: Mapped[str | None] = mapped_column(Text)
    version: Mapped[str | None] = mapped_column(String(64))  # version of ironic-python-agent
    # of its current command: start, end or error; null if not sent
    status: Mapped[str | None] = mapped_column(String(16))
    status_message: Mapped[str | None] = mapped_column(Text)  # text of that status
    # counter; a step that records its wait compares it, so no heartbeat is lost
    heartbeats: Mapped[int] = mapped_column(default=0)
    last_heartbeat_at: Mapped[datetime | None]  # null before the first heartbeat
    # {flow: [step]}, as last reported
    steps: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    steps_refreshed_at: Mapped[datetime | None]  # time of that report
    # {name: version} of that report
    hardware_manager_version: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)

    @validates("token")
    def _forget_digest(self, _name: str, token: str | None) -> str | None:
        self.token_digest = None
        return token
