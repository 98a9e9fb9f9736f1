"""BIOS settings, firmware versions, hardware inventory and sensors of a machine."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.db.secret_columns import Document
from app.models.base import Base, Timestamped


class BiosSetting(Timestamped, Base):
    """
    A BIOS setting. The columns after `value` come from the BMC's attribute registry; None means
    that it has no such property.
    """

    __tablename__ = "bios_settings"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    value: Mapped[str | None] = mapped_column(
        Text
    )  # as last read; null if the BMC returned no value
    # Enumeration, String, Integer, Boolean or Password; null if unknown
    attribute_type: Mapped[str | None] = mapped_column(String(255))
    allowable_values: Mapped[list[Any]] = mapped_column(JSON, default=list)  # of an enumeration
    lower_bound: Mapped[int | None]  # of an integer
    upper_bound: Mapped[int | None]  # of an integer
    min_length: Mapped[int | None]  # of a string, in characters
    max_length: Mapped[int | None]  # of a string, in characters
    read_only: Mapped[bool | None]  # users cannot change it
    reset_required: Mapped[bool | None]  # the new value applies after a restart
    unique: Mapped[bool | None]  # the value identifies this machine


class FirmwareComponent(Timestamped, Base):
    """Firmware versions of a component."""

    __tablename__ = "firmware_components"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    component: Mapped[str] = mapped_column(String(255), primary_key=True)  # bios, bmc or nic:<name>
    initial_version: Mapped[str] = mapped_column(String(255))  # first version ever read
    current_version: Mapped[str | None] = mapped_column(String(255))  # as last read
    # installed by the last update step; null before the first update
    last_version_flashed: Mapped[str | None] = mapped_column(String(255))
    vendor: Mapped[str | None] = mapped_column(String(255))  # as last read; null if unknown
    model: Mapped[str | None] = mapped_column(String(255))  # as last read; null if unknown
    serial_number: Mapped[str | None] = mapped_column(String(255))  # as last read; null if unknown


class NodeInventory(Base):
    """Results of the last inspection."""

    __tablename__ = "node_inventory"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(default=now())  # time of the inspection
    # the agent's inventory
    inventory: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    # other data that the agent's collectors and the hooks added
    plugin_data: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)


class NodeSensors(Base):
    """
    The last readings of a node's sensors, and those before, in a ring.

    `app.inventory.sensors` encodes and decodes the documents.
    """

    __tablename__ = "node_sensors"

    node_id: Mapped[int] = mapped_column(
        ForeignKey("nodes.id"), primary_key=True, autoincrement=False
    )
    # time of the last read that succeeded; null if none has
    read_at: Mapped[datetime | None]
    # reason why the last read failed; null if it succeeded
    error: Mapped[str | None] = mapped_column(String(1000))
    # worst health of a sensor at the last read: ok, warning, critical, unknown
    health: Mapped[str] = mapped_column(String(8), default="unknown")
    # begin of the critical state that the node's history has recorded; null if there is none
    critical_since: Mapped[datetime | None]
    # reads in a row without a critical sensor since then
    calm_reads: Mapped[int] = mapped_column(default=0)
    readings: Mapped[str] = mapped_column(Text, default="[]")  # JSON, as `Management.sensors`
    # JSON: {"times": [...], "values": {sensor: [number or null, ...]}}, the oldest first
    history: Mapped[str] = mapped_column(Text, default="{}")
