"""Baselines: expected facts of machines, and their comparison with the recorded facts of nodes."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base, Identified, Timestamped


class Compliance(StrEnum):
    """Result of a comparison of a node with a baseline."""

    COMPLIES = "complies"
    DIFFERS = "differs"  # at least one fact is another one than expected
    UNKNOWN = "unknown"  # no fact differs, and at least one is not recorded


class FailedBenchmark(StrEnum):
    """Effect of a number that a step has measured, and that differs from a baseline."""

    RECORD = "record"  # it is recorded as each difference
    HOLD = "hold"  # the node gets a hold of the kind hardware
    FAIL = "fail"  # the step fails


class Baseline(Identified, Timestamped, Base):
    """Facts that are expected of the nodes of a selection."""

    __tablename__ = "baselines"

    name: Mapped[str] = mapped_column(String(255), unique=True)
    description: Mapped[str | None] = mapped_column(String(255))
    selection: Mapped[str] = mapped_column(Text)  # expression of `app.selection`
    # rows of field, operator and value, see `app.baselines.rules`
    expected: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    # whether a node that does not comply at its inspection gets a hold
    acceptance: Mapped[bool] = mapped_column(default=False)
    # a `FailedBenchmark`
    failed_benchmark: Mapped[str] = mapped_column(
        String(8), default=FailedBenchmark.RECORD, server_default=FailedBenchmark.RECORD
    )
    version: Mapped[int] = mapped_column(default=1)  # raised by each change of the columns above
    due_at: Mapped[datetime] = mapped_column(default=now())  # of the next pass over its nodes


class BaselineNode(Base):
    """
    Comparison of a node with a baseline that is for it.

    A trigger inserts a change event when the node begins or ceases to differ, see migration 0030.
    """

    __tablename__ = "baseline_nodes"
    __table_args__ = (
        Index("ix_baseline_nodes_node_id", "node_id"),
        Index("ix_baseline_nodes_state", "baseline_id", "state", "node_id"),
    )

    baseline_id: Mapped[int] = mapped_column(ForeignKey("baselines.id"), primary_key=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    version: Mapped[int]  # of the baseline, as compared
    compared_at: Mapped[datetime]
    state: Mapped[str] = mapped_column(String(16))  # a `Compliance`
    since: Mapped[datetime]  # entry into the state
    # objects of field, operator, expected, actual (null: unknown), since
    differences: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    # hold that the comparison has set; someone may have ended it
    hold_uuid: Mapped[str | None] = mapped_column(String(36))
