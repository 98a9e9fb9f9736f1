"""What was answered to a request that may be repeated."""

from datetime import datetime

from sqlalchemy import Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base


class Answered(Base):
    """
    One request that came with an `Idempotency-Key`.

    caller: whose key it is. request: a digest of method, path and body.
    """

    __tablename__ = "answered"
    __table_args__ = (
        UniqueConstraint("caller", "key"),
        Index("ix_answered_created_at", "created_at"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    caller: Mapped[str] = mapped_column(String(255))
    key: Mapped[str] = mapped_column(String(255))
    request: Mapped[str] = mapped_column(String(64))
    status: Mapped[int]
    location: Mapped[str | None] = mapped_column(String(1024))
    created_at: Mapped[datetime] = mapped_column(default=now())
