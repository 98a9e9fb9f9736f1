"""Volumes: what a node reaches remote storage with, and the storage that it boots from or uses."""

from typing import Any

from sqlalchemy import JSON, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base, Timestamped


class VolumeConnector(Timestamped, Base):
    """
    How storage knows the node. type: of `connector_id`: iqn, ip, mac, wwnn, wwpn, or any other.
    """

    __tablename__ = "volume_connectors"
    __table_args__ = (UniqueConstraint("type", "connector_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), index=True)
    type: Mapped[str] = mapped_column(String(32))
    connector_id: Mapped[str] = mapped_column(String(255))
    extra: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)


class VolumeTarget(Timestamped, Base):
    """
    A volume. boot_index: 0 for the one to boot from. properties: how to reach it, secrets included.
    """

    __tablename__ = "volume_targets"
    __table_args__ = (UniqueConstraint("node_id", "boot_index"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), index=True)
    volume_type: Mapped[str] = mapped_column(String(64))
    volume_id: Mapped[str] = mapped_column(String(255))
    boot_index: Mapped[int]
    properties: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    extra: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
