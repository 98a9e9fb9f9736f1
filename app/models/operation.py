"""Operations: every verb that does work, and the steps that it is made of."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    JSON,
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

from app import release
from app.models.base import Base


class OperationState(StrEnum):
    """Where an operation stands."""

    QUEUED = "queued"  # a message to a conductor is due or under way
    RUNNING = "running"  # a conductor has claimed its step
    WAITING = "waiting"  # the machine works; a heartbeat, a poll or the deadline goes on
    HELD = "held"  # an operator must go on
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"


class OperationKind(StrEnum):
    """The verb or the request that an operation carries out."""

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
    # beside the provision state
    POWER = "power"
    BOOT_MODE = "boot_mode"
    SECURE_BOOT = "secure_boot"
    VIRTUAL_MEDIA = "vmedia"
    CONSOLE = "console"
    VENDOR = "vendor"
    DISCOVERY = "discovery"


class StepSource(StrEnum):
    """Where a step of an operation comes from."""

    FRAME = "frame"  # the frame around the steps of a flow, or a single call of an interface
    TIDY = "tidy"  # the cleanup after a failure or an abort
    DRIVER = "driver"
    AGENT = "agent"
    TEMPLATE = "template"
    RUNBOOK = "runbook"
    CALLER = "caller"


class StepState(StrEnum):
    """Where a step stands."""

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
#: Kinds of operations that leave the node in its provision state, whether they succeed or fail.
BESIDE = (
    OperationKind.POWER,
    OperationKind.BOOT_MODE,
    OperationKind.SECURE_BOOT,
    OperationKind.VIRTUAL_MEDIA,
    OperationKind.CONSOLE,
    OperationKind.VENDOR,
    OperationKind.DISCOVERY,
)
#: Has a slot of its queue; waits for one.
HOLDS = text("queue IS NOT NULL AND admitted_at IS NOT NULL AND finished_at IS NULL")
QUEUES = text("queue IS NOT NULL AND admitted_at IS NULL AND finished_at IS NULL")


class Operation(Base):
    """
    One verb on one node.

    cursor: position of the step that is next or under way. fence: the node's fence when this
    operation was last handed out. claimed: the highest cursor that was claimed under that fence,
    by the incarnation `claimed_by`. claim: names the attempt that claimed last, until the operation
    is handed out again. deadline_at: when the claimed or waiting step has failed.
    wake_at: when a waiting step is called again; None: the agent wakes it. watched_until: until
    then, while the claimant lives, it polls the agent, whose signs of life need not wake the
    operation. heartbeats: the agent's counter at the last claim. sent_at, sent_to: when and to
    which incarnation the last message went; sends counts those at this cursor. error: {code,
    message, step, attempt, retryable} of the failure. refused: late writes that the fence kept out.
    asked_steps: what a caller, a runbook or templates asked for, [{interface, step, args,
    priority?, source, children?}], in their order; the plan is made from it again when the agent
    has reported its steps. aborting: it was aborted, and only tidies up. version: what a conductor
    must understand to run it, see `app.release`.
    queue: of those that are limited in number, None for others; party: of those that take turns in
    it; turn: in which it is, None until it has been given one. admitted_at: None while it queues.
    """

    __tablename__ = "operations"
    __table_args__ = (
        Index("ix_operations_state", "state"),
        Index("ix_operations_node", "node_id", "id"),
        # a node is worked on by one operation at a time; others of it can only wait
        Index(
            "uq_operations_busy",
            "node_id",
            unique=True,
            sqlite_where=text("state IN ('queued', 'running')"),
            postgresql_where=text("state IN ('queued', 'running')"),
        ),
        # the second and third are empty unless a limit is reached
        Index("ix_operations_admitted", "queue", sqlite_where=HOLDS, postgresql_where=HOLDS),
        Index(
            "ix_operations_turn",
            "queue",
            "turn",
            "id",
            sqlite_where=QUEUES,
            postgresql_where=QUEUES,
        ),
        Index(
            "ix_operations_party",
            "queue",
            "party",
            "turn",
            sqlite_where=QUEUES,
            postgresql_where=QUEUES,
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"))
    kind: Mapped[str] = mapped_column(String(32))
    state: Mapped[str] = mapped_column(String(16), default=OperationState.QUEUED)
    arguments: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    requested_by: Mapped[str | None] = mapped_column(String(255))
    request_id: Mapped[str | None] = mapped_column(String(64))

    cursor: Mapped[int] = mapped_column(default=0)
    fence: Mapped[int] = mapped_column(default=0)
    claimed: Mapped[int] = mapped_column(default=-1)
    claimed_by: Mapped[str | None] = mapped_column(String(36))
    claim: Mapped[str | None] = mapped_column(String(36))
    heartbeats: Mapped[int] = mapped_column(default=0)
    deadline_at: Mapped[datetime | None]
    wake_at: Mapped[datetime | None]
    watched_until: Mapped[datetime | None]
    queue: Mapped[str | None] = mapped_column(String(300))
    party: Mapped[str | None] = mapped_column(String(511))
    turn: Mapped[int | None]
    admitted_at: Mapped[datetime | None]
    sent_at: Mapped[datetime | None]
    sent_to: Mapped[str | None] = mapped_column(String(36))
    sends: Mapped[int] = mapped_column(default=0)
    refused: Mapped[int] = mapped_column(default=0)
    asked_steps: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    aborting: Mapped[bool] = mapped_column(default=False)
    version: Mapped[int] = mapped_column(default=release.NEEDED, server_default="0")

    error: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    @hybrid_property
    def is_queued(self) -> bool:
        """Whether it waits for a slot of its queue; nothing of it is sent before."""
        return self.queue is not None and self.admitted_at is None and self.finished_at is None

    @is_queued.inplace.expression
    @classmethod
    def _is_queued(cls) -> ColumnElement[bool]:
        return and_(cls.queue.is_not(None), cls.admitted_at.is_(None), cls.finished_at.is_(None))

    @property
    def moves_node(self) -> bool:
        """Whether its end, and its waits, are moves of the node's provision state."""
        return self.kind not in BESIDE


class OperationStep(Base):
    """
    One step of an operation.

    source: a `StepSource`. flow: the step list that it belongs to, None for frames. event: what
    happens to the node when it is done. collects: the agent's steps are known after it, and the
    rest is planned anew. deaths: conductors that died while they ran it. progress: of its last
    `Wait`. deadline_at: when it has failed by its own limit, whatever it waits for; timeout: that
    limit in seconds; remaining: what is left of it when the machine is next looked at, where it is
    looked at. tries, backoff: how often it is tried in all when faults are transient, and the
    seconds before the second try; faults: how many there were, `error` has the last. abort_after:
    the operation is aborted when this step, which must not be interrupted, has ended. child: UUID
    of the child node that it is run on instead.
    """

    __tablename__ = "operation_steps"
    __table_args__ = (UniqueConstraint("operation_id", "position"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    operation_id: Mapped[int] = mapped_column(ForeignKey("operations.id"))
    position: Mapped[int]
    interface: Mapped[str] = mapped_column(String(32))
    name: Mapped[str] = mapped_column(String(255))
    flow: Mapped[str | None] = mapped_column(String(16))
    args: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    priority: Mapped[float] = mapped_column(Float, default=0)
    source: Mapped[str] = mapped_column(String(16))
    in_band: Mapped[bool] = mapped_column(default=False)
    abortable: Mapped[bool] = mapped_column(default=False)
    requires_ramdisk: Mapped[bool] = mapped_column(default=True)
    reboot_requested: Mapped[bool] = mapped_column(default=False)
    resume: Mapped[str] = mapped_column(String(16), default="rerun")
    collects: Mapped[bool] = mapped_column(default=False)
    event: Mapped[str | None] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16), default=StepState.PENDING)
    attempts: Mapped[int] = mapped_column(default=0)
    deaths: Mapped[int] = mapped_column(default=0)
    tries: Mapped[int] = mapped_column(default=1)
    backoff: Mapped[float] = mapped_column(Float, default=0)
    faults: Mapped[int] = mapped_column(default=0)
    timeout: Mapped[float | None] = mapped_column(Float)
    remaining: Mapped[float | None] = mapped_column(Float)
    abort_after: Mapped[bool] = mapped_column(default=False)
    child: Mapped[str | None] = mapped_column(String(36))
    conductor: Mapped[str | None] = mapped_column(String(255))
    progress: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    error: Mapped[str | None] = mapped_column(Text)
    deadline_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    @property
    def label(self) -> str:
        return f"{self.interface}.{self.name}"
