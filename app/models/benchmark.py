"""Benchmarks: numbers that steps have measured."""

from datetime import datetime

from sqlalchemy import Double, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base


class Benchmark(Base):
    """
    A number that a step has measured on a machine.

    It names its operation by UUID only, and so may outlive it.
    """

    __tablename__ = "benchmarks"
    __table_args__ = (
        UniqueConstraint("operation_uuid", "position", "metric"),
        Index("ix_benchmarks_node", "node_id", "id"),
        Index("ix_benchmarks_node_metric", "node_id", "metric", "id"),
        Index("ix_benchmarks_metric", "metric", "id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"))
    operation_uuid: Mapped[str] = mapped_column(String(36))
    position: Mapped[int]  # of the step within the operation
    step: Mapped[str] = mapped_column(String(300))  # interface and name
    metric: Mapped[str] = mapped_column(String(128))  # as fio.read.bandwidth
    value: Mapped[float] = mapped_column(Double)
    unit: Mapped[str | None] = mapped_column(String(16))  # null: the step has named none
    # start of the first attempt of the step; null if unknown
    started_at: Mapped[datetime | None]
    recorded_at: Mapped[datetime] = mapped_column(default=now())  # end of the step
