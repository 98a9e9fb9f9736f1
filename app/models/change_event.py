"""Change events: the changes of nodes and operations, in order."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base
from app.models.subscriber import NUMBER

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
    #: created or changed, except for the changes between queued and running at each step
    OPERATION_STATE = "operation.state"
    STEP_STATE = "step.state"


class ChangeEvent(Base):
    """
    A change of a node, of an operation or of a step.

    Triggers of the database insert the rows in the transaction of the change, so no statement can
    omit them: see migrations 0008 and 0011. On PostgreSQL `app.kit.change_events` numbers them
    afterwards.
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
    # None: not numbered yet, so not readable
    sequence: Mapped[int | None] = mapped_column(NUMBER, unique=True)
    created_at: Mapped[datetime]  # by the database's clock
    type: Mapped[str] = mapped_column(String(32))  # a `ChangeType`
    node_uuid: Mapped[str] = mapped_column(String(36))
    node_name: Mapped[str | None] = mapped_column(String(255))  # at that time
    owner: Mapped[str | None] = mapped_column(String(255))  # of the node at that time; project
    lessee: Mapped[str | None] = mapped_column(String(255))  # of the node at that time; project
    # None: a change of the node
    operation_uuid: Mapped[str | None] = mapped_column(String(36))
    operation_kind: Mapped[str | None] = mapped_column(String(32))  # an `OperationKind`
    step: Mapped[str | None] = mapped_column(String(300))  # as "deploy.write_image"; None: no step
    # state before and after; "true" or "false" for maintenance; the kind of a hold; None: there is
    # no value
    before: Mapped[str | None] = mapped_column(String(32))
    after: Mapped[str | None] = mapped_column(String(32))
    # for notifications, as JSON text: fields of the node after the change; child node and wanted
    # power state of a step. None: notifications were off
    facts: Mapped[str | None] = mapped_column(Text)
