"""
Conductors; the lease of the beat; passes of periodic tasks; the watermark that detects a restored
database.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Float, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base, Numbered, Timestamped


class Conductor(Numbered, Timestamped, Base):
    """
    A conductor. It is alive while it is online, not drained, without an impediment, and its
    heartbeat is more recent than `[conductor]heartbeat_timeout`.
    """

    __tablename__ = "conductors"

    # name of the conductor: `[DEFAULT]host`
    hostname: Mapped[str] = mapped_column(String(255), unique=True)
    # UUID, new at every start; claims of an older incarnation are void
    incarnation: Mapped[str] = mapped_column(String(36), index=True)
    # its nodes belong to this group, lower case
    conductor_group: Mapped[str] = mapped_column(String(255), default="")
    # loaded drivers: {hardware type: {kind: [interface name, the default first]}}
    interfaces: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    # newest version of messages and rows that it understands (`app.process.release`)
    version: Mapped[int] = mapped_column(default=0, server_default="0")
    online: Mapped[bool] = mapped_column(default=True)  # False after a graceful stop
    # sentence: why it can do no new work, while it sends heartbeats; null if it can
    impediment: Mapped[str | None] = mapped_column(String(255))
    # since when an operator keeps new work away from it, over its restarts; null: it takes work
    drained_at: Mapped[datetime | None]
    drain_reason: Mapped[str | None] = mapped_column(String(255))
    heartbeat_at: Mapped[datetime] = mapped_column(default=now())  # database's clock


class BeatLease(Base):
    """The single row of the leading beat."""

    __tablename__ = "beat_lease"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    holder: Mapped[str] = mapped_column(String(255))  # name of the process that leads
    until: Mapped[datetime]  # end of the lease, by the database's clock
    # when the leader last sent a message to the broker; null for a leader of an older release
    sent_at: Mapped[datetime | None]


class PeriodicPass(Base):
    """A periodic task, and its last completed pass (`app.cluster.periodic_passes`)."""

    __tablename__ = "periodic_passes"

    task: Mapped[str] = mapped_column(String(64), primary_key=True)  # its name
    # conductor that runs it for its own nodes or files; empty: any conductor runs it for all
    conductor: Mapped[str] = mapped_column(String(255), primary_key=True)
    period: Mapped[float] = mapped_column(Float)  # seconds
    expected_at: Mapped[datetime]  # time from which passes are expected, by the database's clock
    completed_at: Mapped[datetime | None]  # null before the first pass


class Watermark(Base):
    """
    A single row with a counter, raised with each heartbeat of a conductor.

    A database with a lower value than one already seen was restored: `workers.restoration.restore`.
    """

    __tablename__ = "watermark"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    level: Mapped[int] = mapped_column(BigInteger)  # never lowered, except by restoring a backup
    # last time at which a conductor was able to write
    raised_at: Mapped[datetime] = mapped_column(default=now(), onupdate=now())
