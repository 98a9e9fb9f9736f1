"""Recorded answers to requests with an `Idempotency-Key`."""

from datetime import datetime

from sqlalchemy import Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.db.secret_columns import ROW, SealedText
from app.models.base import Base, Numbered


class Answered(Numbered, Base):
    """The answer to a request with an `Idempotency-Key`; a repeated request gets it again."""

    __tablename__ = "answered"
    __table_args__ = (
        UniqueConstraint("caller", "key"),
        Index("ix_answered_created_at", "created_at"),
        {"info": {ROW: ("caller", "key")}},
    )

    # the caller's identity; keys of callers are independent
    caller: Mapped[str] = mapped_column(String(255))
    key: Mapped[str] = mapped_column(String(255))  # value of the header
    request: Mapped[str] = mapped_column(String(64))  # digest of method, path and body
    minor: Mapped[int | None]  # API version of the request; null in a row of an older release
    status: Mapped[int]  # HTTP status of the answer
    # headers and body of the answer; null if it had none
    location: Mapped[str | None] = mapped_column(String(1024))
    etag: Mapped[str | None] = mapped_column(String(64))
    body: Mapped[str | None] = mapped_column(SealedText)
    created_at: Mapped[datetime] = mapped_column(default=now())  # start of the key's lifetime
