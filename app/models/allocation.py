"""Allocations of nodes to tenants, and quotas of projects."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.secret_columns import Document
from app.models.base import Base, Identified, Numbered, Timestamped


class AllocationState(StrEnum):
    """State of an allocation, as in Ironic."""

    ALLOCATING = "allocating"
    ACTIVE = "active"
    ERROR = "error"


class Allocation(Numbered, Timestamped, Base):
    """A request for a node."""

    __tablename__ = "allocations"

    uuid: Mapped[str] = mapped_column(String(36), unique=True)  # becomes the node's `instance_uuid`
    # unique; null without a name; a node with this name is preferred
    name: Mapped[str | None] = mapped_column(String(255), unique=True)
    # None until a node was found
    node_id: Mapped[int | None] = mapped_column(ForeignKey("nodes.id"), unique=True)
    # required of the node
    resource_class: Mapped[str | None] = mapped_column(String(80), index=True)
    # project; the node must belong to it or be leased to it; null for any node
    owner: Mapped[str | None] = mapped_column(String(255), index=True)
    traits: Mapped[list[str]] = mapped_column(JSON, default=list)  # names that the node must have
    candidate_nodes: Mapped[list[str]] = mapped_column(JSON, default=list)  # UUIDs; empty: any node
    extra: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # free for operators
    # an `AllocationState`
    state: Mapped[str] = mapped_column(String(16), default=AllocationState.ALLOCATING)
    last_error: Mapped[str | None] = mapped_column(Text)  # reason of state `error`
    attempts: Mapped[int] = mapped_column(default=0)  # searches that found only locked nodes
    # when its message is sent again; null if not allocating any more
    due_at: Mapped[datetime | None] = mapped_column(index=True)


class Quota(Identified, Timestamped, Base):
    """
    Limit of the nodes that a project leases; a project without a row has none.

    A transaction that makes a project the lessee of a node locks the row, see
    `app.inventory.quotas`.
    """

    __tablename__ = "quotas"

    project: Mapped[str] = mapped_column(String(255), unique=True)  # as `lessee` of its nodes
    node_limit: Mapped[int]
