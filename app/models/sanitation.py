"""Sanitation reports: signed documents about the disks that operations have erased."""

from datetime import datetime

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base


class SanitationReport(Base):
    """
    The report of an operation that cleaned or tore down a machine.

    It names its node by UUID only, and so outlives it.
    """

    __tablename__ = "sanitation_reports"
    __table_args__ = (Index("ix_sanitation_reports_node", "node_uuid", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    node_uuid: Mapped[str] = mapped_column(String(36))
    operation_uuid: Mapped[str] = mapped_column(String(36))
    created_at: Mapped[datetime] = mapped_column(index=True)  # end of the operation
    result: Mapped[str] = mapped_column(String(16))  # sanitized, not sanitized, unknown
    report: Mapped[str] = mapped_column(Text)  # in canonical form, as it is signed
    # Ed25519, base64; null if the service had no master key
    signature: Mapped[str | None] = mapped_column(String(88))
    public_key: Mapped[str | None] = mapped_column(String(44))  # base64 of its 32 bytes
