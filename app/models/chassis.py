"""Chassis: enclosures of several nodes."""

from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.secret_columns import Document
from app.models.base import Base, Timestamped


class Chassis(Timestamped, Base):
    """A chassis. Nodes refer to it by UUID, which never changes."""

    __tablename__ = "chassis"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    description: Mapped[str | None] = mapped_column(String(255))
    extra: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # free for operators
