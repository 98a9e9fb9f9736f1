"""BIOS settings, firmware versions, hardware inventory and sensors of a machine."""

from datetime import datetime
from enum import StrEnum
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


class InventorySource(StrEnum):
    """Reporter of an inventory."""

    AGENT = "agent"
    BMC = "bmc"


class NodeInventory(Base):
    """Results of the last inspection, and what the BMC has shown since then."""

    __tablename__ = "node_inventory"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    # time of the inspection, or of the refresh that has replaced its inventory
    created_at: Mapped[datetime] = mapped_column(default=now())
    # in the form of the agent's inventory
    inventory: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    # an `InventorySource`; null: recorded by an earlier release, or by Ironic
    source: Mapped[str | None] = mapped_column(String(8))
    # other data that the agent's collectors and the hooks added
    plugin_data: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    # inventory of the BMC at the last refresh, if `inventory` is not that of the BMC; else null
    bmc_inventory: Mapped[dict[str, Any] | None] = mapped_column(Document)
    # paths of the documents that the BMC did not return for its inventory; null: it has none here
    unread_documents: Mapped[list[str] | None] = mapped_column(JSON)


class PartState(StrEnum):
    """Result of a refresh for a part of the recorded facts."""

    COMPARED = "compared"
    FIRST = "first"  # recorded for the first time: there was nothing to compare it with
    UNREAD = "unread"  # the record is as before


class NodeRefresh(Base):
    """Results of the last refresh of a node: parts that it has read, and changed facts."""

    __tablename__ = "node_refreshes"

    node_id: Mapped[int] = mapped_column(
        ForeignKey("nodes.id"), primary_key=True, autoincrement=False
    )
    operation_uuid: Mapped[str] = mapped_column(String(36))
    read_at: Mapped[datetime]  # time of the last part
    # name of a part -> {"state": a `PartState`, "reason": text or null}
    parts: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    changed: Mapped[int] = mapped_column(default=0)  # number of the changed facts
    # the first of them: [{"fact", "before", "after"}], texts or null
    changes: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)


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
