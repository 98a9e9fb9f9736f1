"""Recorded exchanges of operations with BMCs."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base


class BmcExchanges(Base):
    """
    Exchanges of one step's call to a driver with the BMC of a node whose recording is on.

    The exchanges have no secrets: `drivers.core.recording.traffic` leaves them out.
    """

    __tablename__ = "bmc_exchanges"
    __table_args__ = (Index("ix_bmc_exchanges_node", "node_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"))
    operation: Mapped[str] = mapped_column(String(36))  # UUID
    step: Mapped[str] = mapped_column(String(300))  # interface and name
    created_at: Mapped[datetime] = mapped_column(default=now(), index=True)
    size: Mapped[int]  # bytes of the bodies
    left_out: Mapped[int]  # exchanges, or bodies, above the limits
    exchanges: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
