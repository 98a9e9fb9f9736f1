"""An allocation: somebody's request for a node, and the node that was found."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base, Timestamped


class AllocationState(StrEnum):
    """Where an allocation stands."""

    ALLOCATING = "allocating"
    ACTIVE = "active"
    ERROR = "error"


class Allocation(Timestamped, Base):
    """
    uuid: becomes the node's `instance_uuid`. candidate_nodes: UUIDs; empty: any node will do.
    attempts: how often only locked nodes were found. due_at: when another message about it is
    sent, unless it is settled by then; None once it is.
    """

    __tablename__ = "allocations"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    name: Mapped[str | None] = mapped_column(String(255), unique=True)
    node_id: Mapped[int | None] = mapped_column(ForeignKey("nodes.id"), unique=True)
    resource_class: Mapped[str | None] = mapped_column(String(80), index=True)
    owner: Mapped[str | None] = mapped_column(String(255), index=True)
    traits: Mapped[list[str]] = mapped_column(JSON, default=list)
    candidate_nodes: Mapped[list[str]] = mapped_column(JSON, default=list)
    extra: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    state: Mapped[str] = mapped_column(String(16), default=AllocationState.ALLOCATING)
    last_error: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime | None] = mapped_column(index=True)
