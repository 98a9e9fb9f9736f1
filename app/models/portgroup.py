"""A port group: ports of a node that are used as one."""

from typing import Any

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base, Timestamped


class Portgroup(Timestamped, Base):
    """
    standalone_ports_supported: its ports may also be used one by one. mode, properties: of the
    bond. dynamic_portgroup: made for one deployment, by what the instance asks for.
    """

    __tablename__ = "portgroups"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    name: Mapped[str | None] = mapped_column(String(255), unique=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), index=True)
    address: Mapped[str | None] = mapped_column(String(18), unique=True)
    extra: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    internal_info: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    standalone_ports_supported: Mapped[bool] = mapped_column(default=True)
    mode: Mapped[str] = mapped_column(String(255))
    properties: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    physical_network: Mapped[str | None] = mapped_column(String(64))
    category: Mapped[str | None] = mapped_column(String(80))
    dynamic_portgroup: Mapped[bool] = mapped_column(default=False)
