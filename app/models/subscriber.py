"""Subscribers to change events: webhooks, the broker of notifications, and Nova."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.db.secret_columns import SealedText
from app.models.base import NUMBER, Base, Identified, Numbered, Timestamped


class Subscriber:
    """Columns of a row to which conductors deliver change events (`workers.periodic.delivery`)."""

    # all events up to this number are accepted, given up, or excluded by the filters
    position: Mapped[int] = mapped_column(NUMBER)
    # time of the next attempt; while an attempt is in progress, the end of its holder's lease
    due_at: Mapped[datetime] = mapped_column(default=now(), index=True)
    holder: Mapped[str | None] = mapped_column(String(32))  # token of the attempt in progress
    failed_attempts: Mapped[int] = mapped_column(default=0)  # since the last success
    failing_since: Mapped[datetime | None]  # null if the last attempt was a success
    last_error: Mapped[str | None] = mapped_column(String(255))  # of the last attempt
    last_delivery_at: Mapped[datetime | None]  # of the last success


class Webhook(Identified, Subscriber, Timestamped, Base):
    """A URL to which conductors post change events (`workers.periodic.webhooks`)."""

    __tablename__ = "webhooks"

    name: Mapped[str] = mapped_column(String(255), unique=True)
    url: Mapped[str] = mapped_column(SealedText)
    # project whose nodes' events are posted; null for all nodes
    owner: Mapped[str | None] = mapped_column(String(255), index=True)
    # of the caller who has created it
    user_id: Mapped[str | None] = mapped_column(String(255))
    user_name: Mapped[str | None] = mapped_column(String(255))
    types: Mapped[list[str]] = mapped_column(JSON, default=list)  # of `TYPES` of events; empty: all
    node_uuid: Mapped[str | None] = mapped_column(String(36))  # null for all nodes
    enabled: Mapped[bool] = mapped_column(default=True)
    secret: Mapped[str] = mapped_column(SealedText)  # key of the signatures
    # key before the last change of the secret, which also signs until a time
    previous_secret: Mapped[str | None] = mapped_column(SealedText)
    previous_secret_until: Mapped[datetime | None]


class WebhookFailure(Numbered, Base):
    """Events that a receiver did not accept for too long: those after a number, up to another."""

    __tablename__ = "webhook_failures"

    webhook_id: Mapped[int] = mapped_column(ForeignKey("webhooks.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=now())
    after: Mapped[int] = mapped_column(NUMBER)
    last: Mapped[int] = mapped_column(NUMBER)
    error: Mapped[str] = mapped_column(String(255))  # of the last attempt


class NotificationCursor(Subscriber, Timestamped, Base):
    """
    The only row: the broker of notifications as a subscriber to change events.

    While there is a row, triggers keep the fields of nodes in their events (migration 0011).
    """

    __tablename__ = "notification_cursor"

    id: Mapped[int] = mapped_column(primary_key=True)  # 1


class PowerUpdateCursor(Subscriber, Timestamped, Base):
    """The only row: Nova as a subscriber to the power states in change events."""

    __tablename__ = "power_update_cursor"

    id: Mapped[int] = mapped_column(primary_key=True)  # 1
