"""Encryption of secrets: data keys, and the progress of encrypting older rows."""

from datetime import datetime

from sqlalchemy import BigInteger, String, Text, false
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base


class DataKey(Base):
    """A key that encrypts secrets, encrypted itself with a master key (`app.db.sealing`)."""

    __tablename__ = "data_keys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)  # random
    # order of creation; the newest encrypts, all decrypt
    position: Mapped[int] = mapped_column(unique=True)
    master: Mapped[str] = mapped_column(String(16))  # name of its master key
    wrapped: Mapped[str] = mapped_column(Text)
    # its texts in rows must be bound to their place
    bound: Mapped[bool] = mapped_column(default=True, server_default=false())
    created_at: Mapped[datetime] = mapped_column(default=now())


class SealedTable(Base):
    """How far the older rows of a table have been encrypted, and bound to their place."""

    __tablename__ = "sealed_tables"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    # rows up to this primary key have no secrets that are open or bound to no place
    last: Mapped[int] = mapped_column(BigInteger, default=0)
    done: Mapped[bool] = mapped_column(default=False)  # the pass has reached the last row
