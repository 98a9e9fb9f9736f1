"""Nodes: one row per machine; their traits, and the chassis that hold them."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.secret_columns import Document
from app.models.base import Base, Identified, Timestamped

#: Condition for available nodes without an instance, as in the index `ix_nodes_free`. Databases
#: use the index for queries with exactly this text; with a simpler one SQLite picks another index.
FREE = text("coalesce(instance_uuid, provision_state) = 'available'")


class Fault(StrEnum):
    """Reason of the service to put a node into maintenance: Ironic's values, and `restored`."""

    POWER_FAILURE = "power failure"
    CLEAN_FAILURE = "clean failure"
    RESCUE_ABORT_FAILURE = "rescue abort failure"
    SERVICE_FAILURE = "service failure"
    RESTORED = "restored"


#: Columns of filters that many nodes may match. The index of provision states has them, so that
#: nodes are counted without a look at their rows. `owner` and `lessee` are not among them: with
#: `shard`, their texts may exceed the longest entry of an index that PostgreSQL accepts.
COUNTED_BY = (
    "driver", "resource_class", "conductor_group", "shard", "maintenance", "retired",
    "instance_uuid", "parent_node",
)  # fmt: skip


def _partial(name: str, *columns: str, condition: str, sqlite: str | None = None) -> Index:
    """
    Return an index of the rows that meet a condition, in the order of `columns` and id.

    sqlite: the condition as SQLAlchemy renders it for SQLite, where a truth value is a number.
    """
    on_sqlite, on_postgresql = text(sqlite or condition), text(condition)
    return Index(name, *columns, "id", sqlite_where=on_sqlite, postgresql_where=on_postgresql)


class Node(Identified, Timestamped, Base):
    """
    A machine. Columns have the names of the API's fields.

    The fields `clean_step`, `deploy_step` and `service_step` have no columns: the API reads them
    from the node's operation. Data of the agent are in `AgentRecord`.
    """

    __tablename__ = "nodes"
    __table_args__ = (
        Index("ix_nodes_provision_state", "provision_state", "id", *COUNTED_BY),
        Index("ix_nodes_updated_at", "updated_at", "id"),
        Index("ix_nodes_driver", "driver", "id"),
        Index("ix_nodes_resource_class", "resource_class", "id"),
        Index("ix_nodes_conductor_group", "conductor_group", "id"),
        _partial("ix_nodes_unnamed", "name", condition="name IS NULL"),
        _partial("ix_nodes_associated", condition="instance_uuid IS NOT NULL"),
        _partial("ix_nodes_maintenance", condition="maintenance", sqlite="maintenance = 1"),
        _partial("ix_nodes_retired", condition="retired", sqlite="retired = 1"),
        Index("ix_nodes_owner", "owner"),
        Index("ix_nodes_lessee", "lessee"),
        Index("ix_nodes_shard", "shard"),
        _partial("ix_nodes_parent_node", "parent_node", condition="parent_node IS NOT NULL"),
        Index("ix_nodes_chassis_uuid", "chassis_uuid"),
        _partial("ix_nodes_fault", "fault", condition="fault IS NOT NULL"),
        _partial("ix_nodes_free", "resource_class", condition=FREE.text),
    )

    name: Mapped[str | None] = mapped_column(
        String(255), unique=True
    )  # unique; null without a name
    # raised at each dispatch; a write with a lower fence is refused
    fence: Mapped[int] = mapped_column(default=0)
    # name of the conductor that the node is locked for; null if not locked
    reservation: Mapped[str | None] = mapped_column(String(255))
    operation_id: Mapped[int | None]  # operation that holds the reservation; null if not locked

    driver: Mapped[str] = mapped_column(String(255))  # hardware type
    # address and credentials of the BMC, and other options of the driver
    driver_info: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    # written by the service and its drivers only
    driver_internal_info: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    # hardware properties, for scheduling
    properties: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    extra: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # free for operators
    # parameters of the deployment
    instance_info: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    # of the user's instance, or of the allocation; null without an
    instance_uuid: Mapped[str | None] = mapped_column(String(36), unique=True)
    # of the user's instance; null if not set
    instance_name: Mapped[str | None] = mapped_column(String(255))
    # static network configuration of the ramdisk
    network_data: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    # RAID as last configured or read
    raid_config: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)
    # RAID to configure
    target_raid_config: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)

    # allocations and Nova select nodes by it; null if not set
    resource_class: Mapped[str | None] = mapped_column(String(80))
    # only conductors of this group own the node; lower case
    conductor_group: Mapped[str] = mapped_column(String(255), default="")
    owner: Mapped[str | None] = mapped_column(String(255))  # project
    lessee: Mapped[str | None] = mapped_column(String(255))  # project
    description: Mapped[str | None] = mapped_column(Text)
    # group of nodes for one scheduler process; null if not set
    shard: Mapped[str | None] = mapped_column(String(255))
    parent_node: Mapped[str | None] = mapped_column(String(36))  # UUID; null if not a child node
    # null if not in a chassis
    chassis_uuid: Mapped[str | None] = mapped_column(ForeignKey("chassis.uuid"))

    automated_clean: Mapped[bool | None]  # null to follow `[conductor]automated_clean`
    protected: Mapped[bool] = mapped_column(default=False)  # refuses undeploy, rebuild and deletion
    protected_reason: Mapped[str | None] = mapped_column(Text)  # null if not set
    retired: Mapped[bool] = mapped_column(default=False)  # not offered for deployment any more
    retired_reason: Mapped[str | None] = mapped_column(Text)  # null if not set
    # the machine is never powered off, only rebooted
    disable_power_off: Mapped[bool] = mapped_column(default=False)
    # excluded from scheduling and automated work
    maintenance: Mapped[bool] = mapped_column(default=False)
    maintenance_reason: Mapped[str | None] = mapped_column(Text)  # null if not set
    # a `Fault`, while the service holds the node in maintenance; else None
    fault: Mapped[str | None] = mapped_column(String(255))
    console_enabled: Mapped[bool] = mapped_column(default=False)  # the serial console is started

    # as last read: power on, power off or error; null if not read yet
    power_state: Mapped[str | None] = mapped_column(String(15))
    # null without a change in progress
    target_power_state: Mapped[str | None] = mapped_column(String(15))
    # consecutive failures of power sync
    power_sync_failures: Mapped[int] = mapped_column(default=0)
    # as last read: uefi or bios; null if unknown
    boot_mode: Mapped[str | None] = mapped_column(String(16))
    secure_boot: Mapped[bool | None]  # as last read; null if unknown
    # as last reported by the BMC; null if unknown
    health: Mapped[str | None] = mapped_column(String(32))

    provision_state: Mapped[str] = mapped_column(String(16))  # a `State`
    # a `State`; null in a stable state
    target_provision_state: Mapped[str | None] = mapped_column(String(16))
    # event that led to the provision state; null before the first event
    provision_event: Mapped[str | None] = mapped_column(String(16))
    provision_updated_at: Mapped[datetime | None]  # last change of the provision state
    inspection_started_at: Mapped[datetime | None]  # of the running inspection; else None
    # end of the last inspection; null if it runs, or failed
    inspection_finished_at: Mapped[datetime | None]
    # of the last failed operation; null if it succeeded
    last_error: Mapped[str | None] = mapped_column(Text)

    # names of the hardware interfaces; enrollment sets the driver's defaults for missing ones
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


class NodeTrait(Base):
    __tablename__ = "node_traits"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    trait: Mapped[str] = mapped_column(String(255), primary_key=True)


class Chassis(Identified, Timestamped, Base):
    """A chassis. Nodes refer to it by UUID, which never changes."""

    __tablename__ = "chassis"

    description: Mapped[str | None] = mapped_column(String(255))
    extra: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # free for operators


class NodeSearch(Base):
    """
    Values of a node that free words search, with ASCII letters in lower case, one value per line.

    A scan of these short rows costs a tenth of one of `nodes`. Triggers of the database write them
    in the transaction of the change, so no statement can omit them: see migration 0029.
    """

    __tablename__ = "node_search"

    node_id: Mapped[int] = mapped_column(
        ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    #: name, UUID, driver, resource class, conductor group, shard, description, instance
    texts: Mapped[str] = mapped_column(Text)
    related: Mapped[str] = mapped_column(Text)  # MAC addresses and traits
    # visible by rules of their own
    last_error: Mapped[str | None] = mapped_column(Text)
    #: addresses of the BMC without credentials, query and fragment
    bmc: Mapped[str | None] = mapped_column(Text)
