"""Readings of the sensors of machines."""

from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base


class NodeSensors(Base):
    """
    The last readings of a node's sensors, and those before, in a ring.

    `app.inventory.sensors` encodes and decodes the documents.
    """

    __tablename__ = "node_sensors"

    node_id: Mapped[int] = mapped_column(
        ForeignKey("nodes.id"), primary_key=True, autoincrement=False
    )
    # time of the last read that succeeded; null if none has
    read_at: Mapped[datetime | None]
    # reason why the last read failed; null if it succeeded
    error: Mapped[str | None] = mapped_column(String(1000))
    # worst health of a sensor at the last read: ok, warning, critical, unknown
    health: Mapped[str] = mapped_column(String(8), default="unknown")
    # begin of the critical state that the node's history has recorded; null if there is none
    critical_since: Mapped[datetime | None]
    # reads in a row without a critical sensor since then
    calm_reads: Mapped[int] = mapped_column(default=0)
    readings: Mapped[str] = mapped_column(Text, default="[]")  # JSON, as `Management.sensors`
    # JSON: {"times": [...], "values": {sensor: [number or null, ...]}}, the oldest first
    history: Mapped[str] = mapped_column(Text, default="{}")
