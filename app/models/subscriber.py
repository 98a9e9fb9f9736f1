"""Progress of a subscriber to change events."""

from datetime import datetime

from sqlalchemy import BigInteger, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now

NUMBER = BigInteger().with_variant(Integer, "sqlite")


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
