"""Operations, and their steps."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    String,
    Text,
    UniqueConstraint,
    and_,
    text,
)
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column

from app.db.secret_columns import ROW, Document
from app.models.base import Base, Identified, Numbered
from app.process import release


class OperationState(StrEnum):
    QUEUED = "queued"  # in an admission queue, or dispatched and not claimed yet
    RUNNING = "running"  # a conductor has claimed its step
    WAITING = "waiting"  # for the machine: a heartbeat, a poll or the deadline resumes it
    HELD = "held"  # for an operator, who resumes it with `unhold`
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"


class OperationKind(StrEnum):
    """Verb or management request that an operation executes."""

    MANAGE = "manage"
    PROVIDE = "provide"
    CLEAN = "clean"
    ACTIVE = "active"
    REBUILD = "rebuild"
    DELETED = "deleted"
    INSPECT = "inspect"
    ADOPT = "adopt"
    RESCUE = "rescue"
    UNRESCUE = "unrescue"
    SERVICE = "service"
    # without a change of the provision state, see BESIDE
    POWER = "power"
    BOOT_MODE = "boot_mode"
    SECURE_BOOT = "secure_boot"
    VIRTUAL_MEDIA = "vmedia"
    CONSOLE = "console"
    VENDOR = "vendor"
    REFRESH = "refresh"
    DISCOVERY = "discovery"


class StepSource(StrEnum):
    FRAME = "frame"  # frame step of a flow, or the single step of a management request
    TIDY = "tidy"  # cleanup after a failure or an abort
    DRIVER = "driver"
    AGENT = "agent"
    TEMPLATE = "template"
    RUNBOOK = "runbook"
    CALLER = "caller"


class StepState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    ABORTED = "aborted"


ACTIVE = (
    OperationState.QUEUED,
    OperationState.RUNNING,
    OperationState.WAITING,
    OperationState.HELD,
)
ENDED = (OperationState.SUCCEEDED, OperationState.FAILED, OperationState.ABORTED)
#: Kinds of operations that do not change the provision state.
BESIDE = (
    OperationKind.POWER,
    OperationKind.BOOT_MODE,
    OperationKind.SECURE_BOOT,
    OperationKind.VIRTUAL_MEDIA,
    OperationKind.CONSOLE,
    OperationKind.VENDOR,
    OperationKind.REFRESH,
    OperationKind.DISCOVERY,
)
#: Kinds of operations that only read: their failure is no failure of the node, so `last_error` and
#: the failures that are explained stay those of other operations.
READING = (OperationKind.REFRESH,)
#: Conditions of admitted operations, which hold a slot, and of operations in an admission queue.
HOLDS = text("queue IS NOT NULL AND admitted_at IS NOT NULL AND finished_at IS NULL")
QUEUES = text("queue IS NOT NULL AND admitted_at IS NULL AND finished_at IS NULL")


class Operation(Identified, Base):
    """One run of a verb, or one management request, on a node."""

    __tablename__ = "operations"
    __table_args__ = (
        Index("ix_operations_state", "state"),
        Index("ix_operations_node", "node_id", "id"),
        # at most one operation of a node is queued or running; others of it can only wait
        Index(
            "uq_operations_busy",
            "node_id",
            unique=True,
            sqlite_where=text("state IN ('queued', 'running')"),
            postgresql_where=text("state IN ('queued', 'running')"),
        ),
        # the indexes of the round and the party are empty unless a limit is reached
        Index("ix_operations_admitted", "queue", sqlite_where=HOLDS, postgresql_where=HOLDS),
        Index(
            "ix_operations_turn",
            "queue",
            "round",
            "id",
            sqlite_where=QUEUES,
            postgresql_where=QUEUES,
        ),
        Index(
            "ix_operations_party",
            "queue",
            "party",
            "round",
            sqlite_where=QUEUES,
            postgresql_where=QUEUES,
        ),
    )

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"))
    kind: Mapped[str] = mapped_column(String(32))  # an `OperationKind`
    # an `OperationState`
    state: Mapped[str] = mapped_column(String(16), default=OperationState.QUEUED)
    arguments: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # of the request
    # user; null for the service, or without authentication
    requested_by: Mapped[str | None] = mapped_column(String(255))
    # id of the API request, for logs; null without one
    request_id: Mapped[str | None] = mapped_column(String(64))

    cursor: Mapped[int] = mapped_column(default=0)  # position of the next or current step
    fence: Mapped[int] = mapped_column(default=0)  # the node's fence at the last dispatch
    # highest cursor claimed under this fence; -1: none
    claimed: Mapped[int] = mapped_column(default=-1)
    claimed_by: Mapped[str | None] = mapped_column(String(36))  # incarnation that made this claim
    # token of the attempt that claimed last; None after a dispatch
    claim: Mapped[str | None] = mapped_column(String(36))
    # the agent's heartbeat counter at the last claim
    heartbeats: Mapped[int] = mapped_column(default=0)
    deadline_at: Mapped[
        datetime | None
    ]  # when the claimed or waiting step fails; null without a limit
    wake_at: Mapped[datetime | None]  # next poll of a waiting step; null if it waits for the agent
    # while the claimant lives, it polls the agent until this time, so that heartbeats need not
    # resume the operation; null if it does not poll
    watched_until: Mapped[datetime | None]
    # admission queue; null before it enters a flow with a limit
    queue: Mapped[str | None] = mapped_column(String(300))
    # conductor group and project; parties are admitted in rounds, one each
    party: Mapped[str | None] = mapped_column(String(511))
    # admission round; null if not assigned yet. The column keeps its first name: the previous
    # release reads and writes it during an upgrade
    round: Mapped[int | None] = mapped_column("turn", key="round")
    admitted_at: Mapped[datetime | None]  # null in the admission queue
    sent_at: Mapped[datetime | None]  # time of the last message
    # incarnation that the last message was sent to
    sent_to: Mapped[str | None] = mapped_column(String(36))
    sends: Mapped[int] = mapped_column(default=0)  # messages sent at this cursor
    # time of the first of them; null if an older release sent it
    first_sent_at: Mapped[datetime | None]
    refused: Mapped[int] = mapped_column(default=0)  # late writes that the fence has refused
    # requested steps of the caller, a runbook or templates, in order: [{interface, step, args,
    # priority?, source, children?}]. Planning reads them again after the agent has reported its
    # steps. The column keeps its first name, as `round` does
    requested_steps: Mapped[list[dict[str, Any]]] = mapped_column(
        "asked_steps", Document, key="requested_steps", default=list
    )
    # it was aborted and runs only its cleanup
    aborting: Mapped[bool] = mapped_column(default=False)
    # version that a conductor must understand to run it (`app.process.release`)
    version: Mapped[int] = mapped_column(default=release.NEEDED, server_default="0")

    # {code, message, cause, hint, step, attempt, retryable, cleanup?}; null without a failure.
    # cleanup: the first cleanup step that failed
    error: Mapped[dict[str, Any] | None] = mapped_column(Document)
    created_at: Mapped[datetime]  # time of the request
    started_at: Mapped[datetime | None]  # first claim
    finished_at: Mapped[datetime | None]  # null if not ended

    @hybrid_property
    def is_queued(self) -> bool:
        """Whether it is in an admission queue; no message is sent before its admission."""
        return self.queue is not None and self.admitted_at is None and self.finished_at is None

    @is_queued.inplace.expression
    @classmethod
    def _is_queued(cls) -> ColumnElement[bool]:
        return and_(cls.queue.is_not(None), cls.admitted_at.is_(None), cls.finished_at.is_(None))

    @property
    def moves_node(self) -> bool:
        """Whether its waits and its end are transitions of the node's provision state."""
        return self.kind not in BESIDE


#: Condition of steps with an attempt that ended with its conductor's death.
TAKEN_OVER = text("deaths > 0")


class OperationStep(Numbered, Base):
    __tablename__ = "operation_steps"
    __table_args__ = (
        UniqueConstraint("operation_id", "position"),
        Index(
            "ix_operation_steps_taken_over",
            "operation_id",
            sqlite_where=TAKEN_OVER,
            postgresql_where=TAKEN_OVER,
        ),
        {"info": {ROW: ("operation_id", "position")}},
    )

    operation_id: Mapped[int] = mapped_column(ForeignKey("operations.id"))
    position: Mapped[int]  # order within the operation, from 0
    interface: Mapped[str] = mapped_column(String(32))  # kind, such as power or deploy
    name: Mapped[str] = mapped_column(String(255))  # of the interface's method
    # step list that it belongs to; null for a frame step
    flow: Mapped[str | None] = mapped_column(String(16))
    args: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # arguments of the method
    # order within its flow, the highest first
    priority: Mapped[float] = mapped_column(Float, default=0)
    source: Mapped[str] = mapped_column(String(16))  # a `StepSource`
    in_band: Mapped[bool] = mapped_column(default=False)  # run by the agent
    abortable: Mapped[bool] = mapped_column(default=False)  # an abort may interrupt it
    requires_ramdisk: Mapped[bool] = mapped_column(default=True)  # the agent must run
    # the machine is rebooted after it
    reboot_requested: Mapped[bool] = mapped_column(default=False)
    # after a crash: see `drivers.core.steps`
    resume: Mapped[str] = mapped_column(String(16), default="rerun")
    # after it the agent's steps are known, and the rest is planned again
    collects: Mapped[bool] = mapped_column(default=False)
    # event of the node's provision state after the step; null without one
    event: Mapped[str | None] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16), default=StepState.PENDING)  # a `StepState`
    attempts: Mapped[int] = mapped_column(default=0)  # executions by a conductor
    # crashes: attempts that ended with their conductor's death
    deaths: Mapped[int] = mapped_column(default=0)
    # maximum number of attempts when errors are transient
    tries: Mapped[int] = mapped_column(default=1)
    # seconds before the second one; grows for later ones
    backoff: Mapped[float] = mapped_column(Float, default=0)
    # transient errors so far; `error` has the last one
    faults: Mapped[int] = mapped_column(default=0)
    # its time limit in seconds; by default the limit of its `Wait`, or of the flow
    timeout: Mapped[float | None] = mapped_column(Float)
    # seconds left of its time limit at the next poll; null if it does not poll
    remaining: Mapped[float | None] = mapped_column(Float)
    # the operation is aborted at the end of this step, which cannot be interrupted
    abort_after: Mapped[bool] = mapped_column(default=False)
    # UUID of the child node that it runs on; null for the node itself
    child: Mapped[str | None] = mapped_column(String(36))
    # name of the one that ran the last attempt
    conductor: Mapped[str | None] = mapped_column(String(255))
    progress: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # of its last `Wait`
    result: Mapped[dict[str, Any] | None] = mapped_column(
        Document
    )  # of `Done`; null without a result
    # message of the last failure; null without a failure, "" if the machine has answered since
    error: Mapped[str | None] = mapped_column(Text)
    # end of its time limit; null if not waiting, or counted in `remaining`
    deadline_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]  # start of the first attempt
    finished_at: Mapped[datetime | None]  # null if not ended

    @property
    def label(self) -> str:
        """Interface and name, such as `power.reboot`."""
        return f"{self.interface}.{self.name}"

    @property
    def attempt(self) -> int:
        """
        Number of the last attempt; 0 before the first one.

        A conductor executes a step again after each of its waits, which is no other attempt: only a
        transient error or a crash starts one.
        """
        return min(self.attempts, 1 + self.faults + self.deaths)
