"""Notifications: the place in the change events up to which they are sent."""

from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base, Timestamped
from app.models.subscriber import Subscriber


class NotificationCursor(Subscriber, Timestamped, Base):
    """
    The only row: the broker of notifications as a subscriber to change events.

    While there is a row, triggers keep the fields of nodes in their events (migration 0011).
    """

    __tablename__ = "notification_cursor"

    id: Mapped[int] = mapped_column(primary_key=True)  # 1
