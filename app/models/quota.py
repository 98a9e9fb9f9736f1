"""Quotas of projects."""

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base, Timestamped


class Quota(Timestamped, Base):
    """
    Limit of the nodes that a project leases; a project without a row has none.

    A transaction that makes a project the lessee of a node locks the row, see
    `app.inventory.quotas`.
    """

    __tablename__ = "quotas"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    project: Mapped[str] = mapped_column(String(255), unique=True)  # as `lessee` of its nodes
    node_limit: Mapped[int]
