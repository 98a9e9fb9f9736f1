"""Rollouts: a verb for many nodes in waves, and the nodes of each rollout."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.secret_columns import Document
from app.models.base import Base, Identified, Numbered, Timestamped


class RolloutState(StrEnum):
    RUNNING = "running"  # it starts the nodes of one wave after the other
    PAUSED = "paused"  # it starts no node; operations in progress continue
    ABORTING = "aborting"  # it starts no node, and waits for the operations in progress
    ABORTED = "aborted"
    COMPLETED = "completed"  # every node has succeeded or failed


class PauseCause(StrEnum):
    OPERATOR = "operator"
    CANARY = "canary"
    ERROR_BUDGET = "error budget"
    RESTORED = "database restored"
    CALLER = "rights of the caller"  # the user was disabled, or has lost a role


class RolloutNodeState(StrEnum):
    """Progress of a rollout on one of its nodes."""

    PENDING = "pending"  # not started
    RUNNING = "running"  # its operation has not ended
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class StartRefusal(StrEnum):
    """Code of a node whose operation was not started."""

    #: Tried again, as is `unavailable`.
    LOCKED = "locked"
    UNAVAILABLE = "unavailable"  # no conductor serves it
    #: A hold forbids the verb; it does not count for the error budget.
    HELD = "held"
    NOT_ACCEPTED = "not_accepted"  # the node does not accept the verb
    DELETED = "deleted"
    #: The owner or the lessee has changed, so the caller's rights are not known any more.
    REASSIGNED = "reassigned"
    DEFECT = "defect"


#: States of a rollout that has not ended.
UNENDED = (RolloutState.RUNNING, RolloutState.PAUSED, RolloutState.ABORTING)


class Rollout(Identified, Timestamped, Base):
    """A verb for many nodes; its nodes and their waves are fixed at its creation."""

    __tablename__ = "rollouts"
    __table_args__ = (Index("ix_rollouts_state", "state"), Index("ix_rollouts_owner", "owner"))

    description: Mapped[str | None] = mapped_column(Text)
    owner: Mapped[str | None] = mapped_column(String(255))  # project; null for the system
    # the caller, on whose behalf operations are started
    user_id: Mapped[str | None] = mapped_column(String(255))
    user_name: Mapped[str | None] = mapped_column(String(255))
    request_id: Mapped[str | None] = mapped_column(String(64))
    # see `app.identity.standing.authority_of`, checked at each start; null if the caller is no
    # local user
    authority: Mapped[dict[str, Any] | None] = mapped_column(Document(none_as_null=True))
    target: Mapped[str] = mapped_column(String(32))  # verb or power state
    arguments: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # of the verb
    filters: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # that chose the nodes
    # limits as the caller has given them: see `app.rollouts.rollout_plan.Strategy`
    strategy: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)

    # a `RolloutState`; changed by `app.lifecycle.rollout_states.transition` only
    state: Mapped[str] = mapped_column(String(16))
    pause_cause: Mapped[str | None] = mapped_column(
        String(32)
    )  # a `PauseCause`; null if not paused
    wave: Mapped[int] = mapped_column(default=1)  # the current one, from 1
    waves: Mapped[int]  # their number
    canary_waves: Mapped[int] = mapped_column(default=0)  # the first ones, which may not fail
    error_budget: Mapped[int]  # failed nodes at which it pauses
    # failed nodes that do not count for the error budget: those at the last resumption, and held
    # ones since
    accepted_failures: Mapped[int] = mapped_column(default=0)
    # numbers of nodes: of all, and of each state but `pending`
    nodes: Mapped[int]
    running: Mapped[int] = mapped_column(default=0)
    succeeded: Mapped[int] = mapped_column(default=0)
    failed: Mapped[int] = mapped_column(default=0)
    finished_at: Mapped[datetime | None]  # null if not ended

    @property
    def pending(self) -> int:
        """Number of nodes that are not started."""
        return self.nodes - self.running - self.succeeded - self.failed


class RolloutNode(Numbered, Base):
    """
    A node of a rollout.

    It survives the node's deletion, so it refers to the node and its operation by UUID.
    """

    __tablename__ = "rollout_nodes"
    __table_args__ = (
        UniqueConstraint("rollout_id", "node_uuid"),
        Index("ix_rollout_nodes_rollout", "rollout_id", "id"),
        Index("ix_rollout_nodes_wave", "rollout_id", "wave", "state", "id"),
        Index(
            "ix_rollout_nodes_failed",
            "rollout_id",
            "code",
            sqlite_where=text("state = 'failed'"),
            postgresql_where=text("state = 'failed'"),
        ),
    )

    rollout_id: Mapped[int] = mapped_column(ForeignKey("rollouts.id"))
    node_uuid: Mapped[str] = mapped_column(String(36))
    node_name: Mapped[str | None] = mapped_column(String(255))  # at the creation
    owner: Mapped[str | None] = mapped_column(String(255))  # of the node at the creation
    lessee: Mapped[str | None] = mapped_column(String(255))  # of the node at the creation
    group: Mapped[str] = mapped_column(Text, default="")  # value of `group_by`
    wave: Mapped[int]
    # a `RolloutNodeState`
    state: Mapped[str] = mapped_column(String(16), default=RolloutNodeState.PENDING)
    # null if not started, or the verb needed no operation
    operation_uuid: Mapped[str | None] = mapped_column(String(36))
    # of the failure: an operation's, or a `StartRefusal`; null if neither failed nor refused
    code: Mapped[str | None] = mapped_column(String(64))
    # message of the failure or the refusal
    error: Mapped[str | None] = mapped_column(Text)
    due_at: Mapped[datetime | None]  # next try of a pending node; null if it was not refused
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
