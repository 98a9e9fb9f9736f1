"""Power updates: the place in the change events up to which Nova has the changes."""

from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base, Timestamped
from app.models.subscriber import Subscriber


class PowerUpdateCursor(Subscriber, Timestamped, Base):
    """The only row: Nova as a subscriber to the power states in change events."""

    __tablename__ = "power_update_cursor"

    id: Mapped[int] = mapped_column(primary_key=True)  # 1
