"""Remote storage of nodes: volume connectors and volume targets."""

from typing import Any

from sqlalchemy import ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.secret_columns import Document
from app.models.base import Base, Identified, Timestamped


class VolumeConnector(Identified, Timestamped, Base):
    """Identity of a node at its storage."""

    __tablename__ = "volume_connectors"
    __table_args__ = (UniqueConstraint("type", "connector_id"),)

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), index=True)
    # of `connector_id`: iqn, ip, mac, wwnn, wwpn, or another text
    type: Mapped[str] = mapped_column(String(32))
    connector_id: Mapped[str] = mapped_column(String(255))  # identity of the node at the storage
    extra: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # free for operators


class VolumeTarget(Identified, Timestamped, Base):
    """A volume that a node boots from or uses."""

    __tablename__ = "volume_targets"
    __table_args__ = (UniqueConstraint("node_id", "boot_index"),)

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), index=True)
    volume_type: Mapped[str] = mapped_column(String(64))  # such as iscsi or fibre_channel
    volume_id: Mapped[str] = mapped_column(String(255))  # identity of the volume at the storage
    boot_index: Mapped[int]  # 0: the boot volume
    # of the connection, including secrets
    properties: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    extra: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # free for operators
