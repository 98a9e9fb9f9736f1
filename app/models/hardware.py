"""
Facts of a machine: BIOS settings, firmware versions, inventory, sensors, benchmarks; and the
subscription to the events of its BMC.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, Double, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.db.secret_columns import Document
from app.models.base import Base, Numbered, Timestamped


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


class Benchmark(Numbered, Base):
    """
    A number that a step has measured on a machine.

    It names its operation by UUID only, and so may outlive it.
    """

    __tablename__ = "benchmarks"
    __table_args__ = (
        UniqueConstraint("operation_uuid", "position", "metric"),
        Index("ix_benchmarks_node", "node_id", "id"),
        Index("ix_benchmarks_node_metric", "node_id", "metric", "id"),
        Index("ix_benchmarks_metric", "metric", "id"),
    )

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"))
    operation_uuid: Mapped[str] = mapped_column(String(36))
    position: Mapped[int]  # of the step within the operation
    step: Mapped[str] = mapped_column(String(300))  # interface and name
    metric: Mapped[str] = mapped_column(String(128))  # as fio.read.bandwidth
    value: Mapped[float] = mapped_column(Double)
    unit: Mapped[str | None] = mapped_column(String(16))  # null: the step has named none
    # start of the first attempt of the step; null if unknown
    started_at: Mapped[datetime | None]
    recorded_at: Mapped[datetime] = mapped_column(default=now())  # end of the step


class EventSubscription(Numbered, Base):
    """
    The subscription of this service to the events of a node's BMC (`app.inventory.bmc_events`).

    A row without a node is a subscription that has to be deleted at the BMC.
    """

    __tablename__ = "event_subscriptions"

    # null: the node was deleted, or has another BMC
    node_id: Mapped[int | None] = mapped_column(ForeignKey("nodes.id"), unique=True)
    # of a row without a node: fields of the former node by which its BMC is reached
    departed: Mapped[dict[str, Any] | None] = mapped_column(Document(none_as_null=True))
    departed_at: Mapped[datetime | None]  # since then it has no node
    # SHA-256 of the secret in the destination, recorded before the order; null: none was given
    digest: Mapped[str | None] = mapped_column(String(64))
    path: Mapped[str | None] = mapped_column(String(255))  # at the BMC; null until it is listed
    subscribed_at: Mapped[datetime | None]  # the BMC listed it for the first time
    tested_at: Mapped[datetime | None]  # the last test event was ordered
    received_at: Mapped[datetime | None]  # the last event has arrived
    error: Mapped[str | None] = mapped_column(String(1000))  # of the last check
    due_at: Mapped[datetime] = mapped_column(default=now(), index=True)  # of the next check
    # facts to read from the BMC, as an event hints: "power", "sensors", both or ""
    hints: Mapped[str] = mapped_column(String(16), default="")
    hint_due_at: Mapped[datetime | None] = mapped_column(index=True)  # of that read
    hint_read_at: Mapped[datetime | None]  # of the last one
