"""Random secrets of the installation, created with the database."""

import secrets
from typing import Any

from sqlalchemy import Connection, String, event, insert
from sqlalchemy.orm import Mapped, mapped_column

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
def _created(_table: Any, connection: Connection, **_options: Any) -> None:
    create(connection)
