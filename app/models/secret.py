"""Random secrets of the installation, and the keys that encrypt secrets in the database."""

import secrets
from datetime import datetime
from enum import StrEnum

from sqlalchemy import BigInteger, Connection, Index, String, Text, event, false, insert
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base

#: Key of the digests that are entity tags (`app.api.node.etags`).
ETAG = "etag"


class Secret(Base):
    """A secret by name; all processes of the service use the same one."""

    __tablename__ = "secrets"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[str] = mapped_column(String(64))


def create(connection: Connection) -> None:
    """Insert new secrets into the empty table."""
    connection.execute(insert(Secret).values(name=ETAG, value=secrets.token_hex(32)))


@event.listens_for(Secret.__table__, "after_create")
def _created(_table: object, connection: Connection, **_options: object) -> None:
    create(connection)


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


class VaultState(StrEnum):
    PENDING = "pending"  # it may exist, and no node refers to it yet
    USED = "used"  # a node refers to it
    DROPPED = "dropped"  # no node refers to it any more; a backup may
    UNUSED = "unused"  # no node has ever referred to it, and none may


class VaultSecret(Base):
    """
    A secret in a vault. The row exists before the secret, and longer.

    A node may refer to a secret only by a transaction that moves its row from PENDING to USED, and
    only a secret that no node may refer to is destroyed.
    """

    __tablename__ = "vault_secrets"
    __table_args__ = (Index("ix_vault_secrets_state", "state", "changed_at"),)

    name: Mapped[str] = mapped_column(String(32), primary_key=True)  # random
    node_uuid: Mapped[str] = mapped_column(String(36), index=True)
    field: Mapped[str] = mapped_column(String(100))  # part of its path in the vault
    state: Mapped[VaultState] = mapped_column(String(8), default=VaultState.PENDING)
    changed_at: Mapped[datetime] = mapped_column(default=now())  # of the state
