"""Change events: the changes of nodes, operations and other resources, in order."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import NUMBER, Base

#: Condition of the rows without a sequence number.
UNNUMBERED = text("sequence IS NULL")


class ChangeType(StrEnum):
    """Kind of change that an event reports."""

    NODE_CREATED = "node.created"
    #: fields other than the ones below; `GET /v1/nodes/UUID` has the new values
    NODE_UPDATED = "node.updated"
    NODE_DELETED = "node.deleted"
    PROVISION_STATE = "node.provision_state"
    POWER_STATE = "node.power_state"
    MAINTENANCE = "node.maintenance"
    HOLD = "node.hold"
    #: it begins or ceases to differ from a baseline
    COMPLIANCE = "node.compliance"
    #: a refresh has found changed facts of its machine
    FACTS = "node.facts"
    #: created or changed, except for the changes between queued and running at each step
    OPERATION_STATE = "operation.state"
    STEP_STATE = "step.state"
    #: an operator has drained a conductor, or ended that
    DRAINED = "conductor.drained"


#: Kinds of resources with three types of events each: KIND.created, KIND.updated, KIND.deleted.
RESOURCES = (
    "port", "portgroup", "volume_connector", "volume_target", "allocation", "chassis",
    "deploy_template", "runbook", "inspection_rule",
)  # fmt: skip
CHANGES = CREATED, UPDATED, DELETED = "created", "updated", "deleted"
RESOURCE_TYPES = tuple(f"{kind}.{change}" for kind in RESOURCES for change in CHANGES)
#: Types of all events.
TYPES = (*ChangeType, *RESOURCE_TYPES)


class ChangeEvent(Base):
    """
    A change of a node, an operation, a step or another resource.

    Triggers of the database insert the rows in the transaction of the change, so no statement can
    omit them: see migrations 0008, 0011, 0015, 0027, 0030 and 0032. On PostgreSQL
    `app.events.change_events` numbers them afterwards.
    """

    __tablename__ = "change_events"
    __table_args__ = (
        Index("ix_change_events_node", "node_uuid", "sequence"),
        Index(
            "ix_change_events_unnumbered",
            "id",
            sqlite_where=UNNUMBERED,
            postgresql_where=UNNUMBERED,
        ),
    )

    id: Mapped[int] = mapped_column(NUMBER, primary_key=True)
    # 1, 2, 3 and so on, without gaps; the events of one node are in the order of its changes.
    # null if not numbered yet, so not readable
    sequence: Mapped[int | None] = mapped_column(NUMBER, unique=True)
    created_at: Mapped[datetime]  # by the database's clock
    type: Mapped[str] = mapped_column(String(32))  # one of `TYPES`
    # null for a resource without a node
    node_uuid: Mapped[str | None] = mapped_column(String(36))
    node_name: Mapped[str | None] = mapped_column(String(255))  # at that time
    # projects that see the event: owner and lessee of the node at that time; of an allocation or a
    # runbook its owner
    owner: Mapped[str | None] = mapped_column(String(255))
    lessee: Mapped[str | None] = mapped_column(String(255))
    # of another resource than a node
    resource_uuid: Mapped[str | None] = mapped_column(String(36))
    resource_name: Mapped[str | None] = mapped_column(
        String(255)
    )  # at that time; null without a name
    # null without a change of an operation
    operation_uuid: Mapped[str | None] = mapped_column(String(36))
    operation_kind: Mapped[str | None] = mapped_column(String(32))  # an `OperationKind`
    step: Mapped[str | None] = mapped_column(
        String(300)
    )  # as "deploy.write_image"; null without a step
    # state before and after; "true" or "false" for maintenance and drained conductors; the kind of
    # a hold; the result of a comparison; null without a value
    before: Mapped[str | None] = mapped_column(String(32))
    after: Mapped[str | None] = mapped_column(String(32))
    # for notifications, as JSON text: fields of the node or resource after the change; child node
    # and wanted power state of a step. null if notifications were off
    facts: Mapped[str | None] = mapped_column(Text)
