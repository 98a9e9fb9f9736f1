"""A conductor: one worker that nodes can belong to; the lease of the beat; the water mark."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base, Timestamped


class Conductor(Timestamped, Base):
    """
    A conductor is alive while it is online and `heartbeat_at` is younger than the timeout.

    incarnation: new at every start; a name that is registered anew orphans the old one's claims.
    interfaces: {hardware type: {kind: [interface name, the default first]}} that it loaded.
    version: what it understands of what others send and write, see `app.release`.
    """

    __tablename__ = "conductors"

    id: Mapped[int] = mapped_column(primary_key=True)
    hostname: Mapped[str] = mapped_column(String(255), unique=True)
    incarnation: Mapped[str] = mapped_column(String(36), index=True)
    conductor_group: Mapped[str] = mapped_column(String(255), default="")
    interfaces: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    version: Mapped[int] = mapped_column(default=0, server_default="0")
    online: Mapped[bool] = mapped_column(default=True)
    heartbeat_at: Mapped[datetime] = mapped_column(default=now())


class BeatLease(Base):
    """One row: the beat that leads, until its lease runs out."""

    __tablename__ = "beat_lease"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    holder: Mapped[str] = mapped_column(String(255))
    until: Mapped[datetime]


class Watermark(Base):
    """
    One row: raised all the time, never lowered. A database that has a lower one than somebody has
    seen was restored from a backup; see `services.restoration`. raised_at: since then no conductor
    has worked, or none could write.
    """

    __tablename__ = "watermark"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    level: Mapped[int] = mapped_column(BigInteger)
    raised_at: Mapped[datetime] = mapped_column(default=now(), onupdate=now())
