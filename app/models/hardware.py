"""What is known of a machine beyond its node: BIOS settings, firmware, and what it is made of."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import Base, Timestamped


class BiosSetting(Timestamped, Base):
    """One BIOS setting, as last read; columns after `value` are what the BMC's registry says."""

    __tablename__ = "bios_settings"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    value: Mapped[str | None] = mapped_column(Text)
    attribute_type: Mapped[str | None] = mapped_column(String(255))
    allowable_values: Mapped[list[Any]] = mapped_column(JSON, default=list)
    lower_bound: Mapped[int | None]
    upper_bound: Mapped[int | None]
    min_length: Mapped[int | None]
    max_length: Mapped[int | None]
    read_only: Mapped[bool | None]
    reset_required: Mapped[bool | None]
    unique: Mapped[bool | None]


class FirmwareComponent(Timestamped, Base):
    """The firmware of one part: bios, bmc, nic:<name>; initial_version: the first ever seen."""

    __tablename__ = "firmware_components"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    component: Mapped[str] = mapped_column(String(255), primary_key=True)
    initial_version: Mapped[str] = mapped_column(String(255))
    current_version: Mapped[str | None] = mapped_column(String(255))
    last_version_flashed: Mapped[str | None] = mapped_column(String(255))
    vendor: Mapped[str | None] = mapped_column(String(255))
    model: Mapped[str | None] = mapped_column(String(255))
    serial_number: Mapped[str | None] = mapped_column(String(255))


class NodeInventory(Base):
    """What the last inspection found: the agent's inventory, and what its plugins added."""

    __tablename__ = "node_inventory"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(default=now())
    inventory: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    plugin_data: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
