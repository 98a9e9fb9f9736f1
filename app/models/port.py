"""A port: one network interface of a node."""

from typing import Any

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base, Timestamped


class Port(Timestamped, Base):
    """`address` is a MAC address in lower case."""

    __tablename__ = "ports"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    name: Mapped[str | None] = mapped_column(String(255), unique=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), index=True)
    portgroup_id: Mapped[int | None] = mapped_column(ForeignKey("portgroups.id"), index=True)
    address: Mapped[str] = mapped_column(String(18), unique=True)
    extra: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    internal_info: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    local_link_connection: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    pxe_enabled: Mapped[bool] = mapped_column(default=True)
    physical_network: Mapped[str | None] = mapped_column(String(64))
    is_smartnic: Mapped[bool] = mapped_column(default=False)
    description: Mapped[str | None] = mapped_column(String(255))
    vendor: Mapped[str | None] = mapped_column(String(32))
    category: Mapped[str | None] = mapped_column(String(80))
    available_for_dynamic_portgroup: Mapped[bool] = mapped_column(default=True)
