"""Port groups: bonded ports of a node."""

from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.secret_columns import Document
from app.models.base import Base, Timestamped


class Portgroup(Timestamped, Base):
    """A group of ports that are bonded."""

    __tablename__ = "portgroups"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
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
