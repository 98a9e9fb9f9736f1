"""Inspection: reports of agents that are not processed yet, and inspection rules."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.db.secret_columns import Document
from app.models.base import Base, Identified, Timestamped


class InspectionReport(Base):
    """The report of an agent, stored until the inspection of its node has ended."""

    __tablename__ = "inspection_reports"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(default=now())  # time of the request
    # of the agent's request: {inventory, ...}
    body: Mapped[dict[str, Any]] = mapped_column(Document)


class InspectionRule(Identified, Timestamped, Base):
    """Conditions on an inspected node, and actions if they are met (`app.inspection.rules`)."""

    __tablename__ = "inspection_rules"

    description: Mapped[str | None] = mapped_column(String(255))
    # of the inspection that runs the rule
    phase: Mapped[str] = mapped_column(String(16), default="main")
    priority: Mapped[int] = mapped_column(default=0)  # rules run by decreasing priority
    sensitive: Mapped[bool] = mapped_column(default=False)  # the API hides conditions and actions
    # [{op, args, loop?, multiple?}]; empty: always met
    conditions: Mapped[list[dict[str, Any]]] = mapped_column(Document, default=list)
    # [{op, args, loop?}], in order
    actions: Mapped[list[dict[str, Any]]] = mapped_column(Document, default=list)
