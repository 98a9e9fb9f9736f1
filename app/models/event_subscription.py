"""Subscriptions to the events of BMCs."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.db.secret_columns import Document
from app.models.base import Base


class EventSubscription(Base):
    """
    The subscription of this service to the events of a node's BMC (`app.inventory.bmc_events`).

    A row without a node is a subscription that has to be deleted at the BMC.
    """

    __tablename__ = "event_subscriptions"

    id: Mapped[int] = mapped_column(primary_key=True)
    # null: the node was deleted, or has another BMC
    node_id: Mapped[int | None] = mapped_column(ForeignKey("nodes.id"), unique=True)
    # of a row without a node: fields of the former node by which its BMC is reached
    departed: Mapped[dict[str, Any] | None] = mapped_column(Document(none_as_null=True))
    departed_at: Mapped[datetime | None]  # since then it has no node
    # SHA-256 of the secret in the destination, recorded before the order; null: none was given
    digest: Mapped[str | None] = mapped_column(String(64))
    path: Mapped[str | None] = mapped_column(String(255))  # at the BMC; null until it is listed
    subscribed_at: Mapped[datetime | None]  # the BMC listed it for the first time
    tested_at: Mapped[datetime | None]  # the last test event was ordered
    received_at: Mapped[datetime | None]  # the last event has arrived
    error: Mapped[str | None] = mapped_column(String(1000))  # of the last check
    due_at: Mapped[datetime] = mapped_column(default=now(), index=True)  # of the next check
    # facts to read from the BMC, as an event hints: "power", "sensors", both or ""
    hints: Mapped[str] = mapped_column(String(16), default="")
    hint_due_at: Mapped[datetime | None] = mapped_column(index=True)  # of that read
    hint_read_at: Mapped[datetime | None]  # of the last one
