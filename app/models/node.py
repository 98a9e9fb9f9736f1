"""A node: one machine, as the API knows it."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base, Timestamped

Document = dict[str, Any]

#: Available, without an instance. `ix_nodes_free` holds these nodes and no others, and databases
#: use it when a query says this to the letter; plainer words lead SQLite to another index.
FREE = text("coalesce(instance_uuid, provision_state) = 'available'")


class Fault(StrEnum):
    """Why the service itself has put a node into maintenance."""

    POWER_FAILURE = "power failure"
    CLEAN_FAILURE = "clean failure"
    RESCUE_ABORT_FAILURE = "rescue abort failure"
    SERVICE_FAILURE = "service failure"
    RESTORED = "restored"


def _partial(name: str, *columns: str, where: str, sqlite: str | None = None) -> Index:
    """
    Return an index of the rows that meet a condition, in the order of `columns` and id.

    sqlite: the condition as SQLAlchemy renders it for SQLite, where a truth value is a number.
    """
    on_sqlite, on_postgresql = text(sqlite or where), text(where)
    return Index(name, *columns, "id", sqlite_where=on_sqlite, postgresql_where=on_postgresql)


class Node(Timestamped, Base):
    """
    One machine. Column names are the API's field names.

    fence: raised by whoever hands out work on the node; a write that carries a lower number is
        refused. reservation: the conductor that the node is reserved for, None when it is free;
        operation_id: the operation that it is reserved for.
    `clean_step`, `deploy_step` and `service_step` are a view of the node's operation; what the
    agent announced is in `agents`.
    """

    __tablename__ = "nodes"
    __table_args__ = (
        Index("ix_nodes_provision_state", "provision_state", "id"),
        Index("ix_nodes_updated_at", "updated_at", "id"),
        Index("ix_nodes_driver", "driver", "id"),
        Index("ix_nodes_resource_class", "resource_class", "id"),
        Index("ix_nodes_conductor_group", "conductor_group", "id"),
        _partial("ix_nodes_unnamed", "name", where="name IS NULL"),
        _partial("ix_nodes_associated", where="instance_uuid IS NOT NULL"),
        _partial("ix_nodes_maintenance", where="maintenance", sqlite="maintenance = 1"),
        _partial("ix_nodes_retired", where="retired", sqlite="retired = 1"),
        Index("ix_nodes_owner", "owner"),
        Index("ix_nodes_lessee", "lessee"),
        Index("ix_nodes_shard", "shard"),
        _partial("ix_nodes_parent_node", "parent_node", where="parent_node IS NOT NULL"),
        Index("ix_nodes_chassis_uuid", "chassis_uuid"),
        _partial("ix_nodes_fault", "fault", where="fault IS NOT NULL"),
        _partial("ix_nodes_free", "resource_class", where=FREE.text),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    name: Mapped[str | None] = mapped_column(String(255), unique=True)
    fence: Mapped[int] = mapped_column(default=0)
    reservation: Mapped[str | None] = mapped_column(String(255))
    operation_id: Mapped[int | None]

    driver: Mapped[str] = mapped_column(String(255))
    driver_info: Mapped[Document] = mapped_column(JSON, default=dict)
    driver_internal_info: Mapped[Document] = mapped_column(JSON, default=dict)
    properties: Mapped[Document] = mapped_column(JSON, default=dict)
    extra: Mapped[Document] = mapped_column(JSON, default=dict)
    instance_info: Mapped[Document] = mapped_column(JSON, default=dict)
    instance_uuid: Mapped[str | None] = mapped_column(String(36), unique=True)
    instance_name: Mapped[str | None] = mapped_column(String(255))
    network_data: Mapped[Document] = mapped_column(JSON, default=dict)
    raid_config: Mapped[Document] = mapped_column(JSON, default=dict)
    target_raid_config: Mapped[Document] = mapped_column(JSON, default=dict)

    resource_class: Mapped[str | None] = mapped_column(String(80))
    conductor_group: Mapped[str] = mapped_column(String(255), default="")
    owner: Mapped[str | None] = mapped_column(String(255))
    lessee: Mapped[str | None] = mapped_column(String(255))
    description: Mapped[str | None] = mapped_column(Text)
    shard: Mapped[str | None] = mapped_column(String(255))
    parent_node: Mapped[str | None] = mapped_column(String(36))
    chassis_uuid: Mapped[str | None] = mapped_column(ForeignKey("chassis.uuid"))

    automated_clean: Mapped[bool | None]
    protected: Mapped[bool] = mapped_column(default=False)
    protected_reason: Mapped[str | None] = mapped_column(Text)
    retired: Mapped[bool] = mapped_column(default=False)
    retired_reason: Mapped[str | None] = mapped_column(Text)
    disable_power_off: Mapped[bool] = mapped_column(default=False)
    maintenance: Mapped[bool] = mapped_column(default=False)
    maintenance_reason: Mapped[str | None] = mapped_column(Text)
    fault: Mapped[str | None] = mapped_column(String(255))
    console_enabled: Mapped[bool] = mapped_column(default=False)

    power_state: Mapped[str | None] = mapped_column(String(15))
    target_power_state: Mapped[str | None] = mapped_column(String(15))
    power_sync_failures: Mapped[int] = mapped_column(default=0)
    boot_mode: Mapped[str | None] = mapped_column(String(16))
    secure_boot: Mapped[bool | None]
    health: Mapped[str | None] = mapped_column(String(32))

    provision_state: Mapped[str] = mapped_column(String(16))
    target_provision_state: Mapped[str | None] = mapped_column(String(16))
    provision_updated_at: Mapped[datetime | None]
    inspection_started_at: Mapped[datetime | None]
    inspection_finished_at: Mapped[datetime | None]
    last_error: Mapped[str | None] = mapped_column(Text)

    bios_interface: Mapped[str | None] = mapped_column(String(255))
    boot_interface: Mapped[str | None] = mapped_column(String(255))
    console_interface: Mapped[str | None] = mapped_column(String(255))
    deploy_interface: Mapped[str | None] = mapped_column(String(255))
    firmware_interface: Mapped[str | None] = mapped_column(String(255))
    inspect_interface: Mapped[str | None] = mapped_column(String(255))
    management_interface: Mapped[str | None] = mapped_column(String(255))
    network_interface: Mapped[str | None] = mapped_column(String(255))
    power_interface: Mapped[str | None] = mapped_column(String(255))
    raid_interface: Mapped[str | None] = mapped_column(String(255))
    rescue_interface: Mapped[str | None] = mapped_column(String(255))
    storage_interface: Mapped[str | None] = mapped_column(String(255))
    vendor_interface: Mapped[str | None] = mapped_column(String(255))
