"""Inspection: what agents have reported and is not yet made use of, and the rules for doing so."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base, Timestamped


class InspectionReport(Base):
    """What an agent has posted, from then until the inspection of its node has ended."""

    __tablename__ = "inspection_reports"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(default=now())
    body: Mapped[dict[str, Any]] = mapped_column(JSON)


class InspectionRule(Timestamped, Base):
    """
    What to do with nodes that are inspected; see `drivers.inspection.rules`.

    priority: the highest applies first. sensitive: nobody is shown its conditions and actions.
    """

    __tablename__ = "inspection_rules"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    description: Mapped[str | None] = mapped_column(String(255))
    phase: Mapped[str] = mapped_column(String(16), default="main")
    priority: Mapped[int] = mapped_column(default=0)
    sensitive: Mapped[bool] = mapped_column(default=False)
    conditions: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    actions: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
