"""
History of nodes, exchanges with their BMCs that were recorded, and reports about erased disks.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base, Identified, Numbered


class NodeHistory(Identified, Base):
    """An event in the life of a node."""

    __tablename__ = "node_history"
    __table_args__ = (Index("ix_node_history_node", "node_id", "id"),)

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
    # address of the sender of a refused request, whose kind is the event type; null for all others
    sender: Mapped[str | None] = mapped_column(String(64))


class BmcExchanges(Numbered, Base):
    """
    Exchanges of one step's call to a driver with the BMC of a node whose recording is on.

    The exchanges have no secrets: `drivers.core.recording.traffic` leaves them out.
    """

    __tablename__ = "bmc_exchanges"
    __table_args__ = (Index("ix_bmc_exchanges_node", "node_id", "id"),)

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"))
    operation: Mapped[str] = mapped_column(String(36))  # UUID
    step: Mapped[str] = mapped_column(String(300))  # interface and name
    created_at: Mapped[datetime] = mapped_column(default=now(), index=True)
    size: Mapped[int]  # bytes of the bodies
    left_out: Mapped[int]  # exchanges, or bodies, above the limits
    exchanges: Mapped[list[dict[str, Any]]] = mapped_column(JSON)


class SanitationReport(Identified, Base):
    """
    The report of an operation that cleaned or tore down a machine.

    It names its node by UUID only, and so outlives it.
    """

    __tablename__ = "sanitation_reports"
    __table_args__ = (Index("ix_sanitation_reports_node", "node_uuid", "id"),)

    node_uuid: Mapped[str] = mapped_column(String(36))
    operation_uuid: Mapped[str] = mapped_column(String(36))
    created_at: Mapped[datetime] = mapped_column(index=True)  # end of the operation
    result: Mapped[str] = mapped_column(String(16))  # sanitized, not sanitized, unknown
    report: Mapped[str] = mapped_column(Text)  # in canonical form, as it is signed
    # Ed25519, base64; null if the service had no master key
    signature: Mapped[str | None] = mapped_column(String(88))
    public_key: Mapped[str | None] = mapped_column(String(44))  # base64 of its 32 bytes
