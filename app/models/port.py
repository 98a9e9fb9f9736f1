"""Ports and port groups: network interfaces of nodes, alone or bonded."""

from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.secret_columns import Document
from app.models.base import Base, Identified, Timestamped


class Port(Identified, Timestamped, Base):
    """A network interface of a node."""

    __tablename__ = "ports"

    name: Mapped[str | None] = mapped_column(String(255), unique=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), index=True)
    # null if not in a port group
    portgroup_id: Mapped[int | None] = mapped_column(ForeignKey("portgroups.id"), index=True)
    # MAC address in lower case, with colons
    address: Mapped[str] = mapped_column(String(18), unique=True)
    extra: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # free for operators
    # written by the service: VIFs of the port
    internal_info: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    # switch, port and, for smart NICs, host
    local_link_connection: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    pxe_enabled: Mapped[bool] = mapped_column(default=True)  # the port may boot from the network
    physical_network: Mapped[str | None] = mapped_column(String(64))  # null if unknown
    is_smartnic: Mapped[bool] = mapped_column(default=False)  # the port belongs to a smart NIC
    description: Mapped[str | None] = mapped_column(String(255))
    vendor: Mapped[str | None] = mapped_column(String(32))
    # free text of operators; null if not set
    category: Mapped[str | None] = mapped_column(String(80))
    # may become a member of a dynamic port group
    available_for_dynamic_portgroup: Mapped[bool] = mapped_column(default=True)


class Portgroup(Identified, Timestamped, Base):
    """A group of ports that are bonded."""

    __tablename__ = "portgroups"

    name: Mapped[str | None] = mapped_column(String(255), unique=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), index=True)
    # MAC address in lower case, with colons; by default the address of a member
    address: Mapped[str | None] = mapped_column(String(18), unique=True)
    extra: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # free for operators
    # written by the service: VIFs of the group
    internal_info: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    # its ports may also be used without the group
    standalone_ports_supported: Mapped[bool] = mapped_column(default=True)
    mode: Mapped[str] = mapped_column(String(255))  # bonding mode
    properties: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # bonding options
    # of its ports; null if unknown
    physical_network: Mapped[str | None] = mapped_column(String(64))
    # free text of operators; null if not set
    category: Mapped[str | None] = mapped_column(String(80))
    # created for one deployment, as the instance requests
    dynamic_portgroup: Mapped[bool] = mapped_column(default=False)
