"""Audit records."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.clock import now
from app.models.base import NUMBER, Base, Numbered


class Outcome(StrEnum):
    """Outcome of an audited request."""

    SUCCESS = "success"
    #: The caller was allowed, and the request was refused or failed.
    FAILURE = "failure"
    #: The caller is unknown or lacks the right, or sent too many wrong passwords.
    DENIED = "denied"
    #: A conductor was called, and its answer is not recorded yet, or never will be.
    PENDING = "pending"


_REFUSED = text(f"outcome <> '{Outcome.SUCCESS}'")


class AuditCheckpoint(Numbered, Base):
    """
    A proof for a range of records, which are then neither changed, added nor removed unseen.

    It is opened with its range, and closed when no transaction can add a record to the range.
    """

    __tablename__ = "audit_checkpoints"

    created_at: Mapped[datetime] = mapped_column(default=now())
    first: Mapped[int] = mapped_column(NUMBER, unique=True)  # id of a record, as `last`
    last: Mapped[int] = mapped_column(NUMBER)
    # transactions below this number may still add records; always null on SQLite
    horizon: Mapped[int | None] = mapped_column(NUMBER)
    # number and digest of the records of successes, then of the others; time of the newest record
    successes: Mapped[int] = mapped_column(default=0)
    successes_digest: Mapped[str | None] = mapped_column(String(64))
    others: Mapped[int] = mapped_column(default=0)
    others_digest: Mapped[str | None] = mapped_column(String(64))
    newest_at: Mapped[datetime | None]
    # HMAC of these, and of the one before; null while it is open
    mac: Mapped[str | None] = mapped_column(String(64))


class AuditRecord(Base):
    """A request: its caller, its target, and its outcome. No record has values of fields."""

    __tablename__ = "audit"
    __table_args__ = (
        Index("ix_audit_created_at", "created_at", "id"),
        Index("ix_audit_target", "target", "created_at", "id"),
        Index("ix_audit_user_id", "user_id", "created_at", "id"),
        Index("ix_audit_refused", "id", sqlite_where=_REFUSED, postgresql_where=_REFUSED),
        {"sqlite_autoincrement": True},  # no number twice, also after all rows are deleted
    )

    # position in the order of insertion; a rollback on PostgreSQL leaves a gap
    id: Mapped[int] = mapped_column(NUMBER, primary_key=True)
    created_at: Mapped[datetime]  # time of the insertion, by the database's clock
    action: Mapped[str] = mapped_column(String(128))  # as update/node/state/provision/active
    outcome: Mapped[str] = mapped_column(String(8))
    status: Mapped[int | None]  # HTTP status; null for a command, or before it is known
    requests: Mapped[int] = mapped_column(default=1)  # equal refused requests in this record
    # kind of the resource that the path names, as node or volume/target; null for a command
    target_type: Mapped[str | None] = mapped_column(String(32))
    # its UUID, or its name from the path; null for a collection
    target: Mapped[str | None] = mapped_column(String(255))
    user_id: Mapped[str | None] = mapped_column(String(255))  # null without authentication
    user_name: Mapped[str | None] = mapped_column(String(255))
    project_id: Mapped[str | None] = mapped_column(String(64))
    project_name: Mapped[str | None] = mapped_column(String(64))
    roles: Mapped[str | None] = mapped_column(String(255))  # separated by commas
    system_scope: Mapped[str | None] = mapped_column(String(16))
    auth: Mapped[str] = mapped_column(String(16))  # auth_strategy, or `command`
    address: Mapped[str | None] = mapped_column(String(64))  # of the client; null for a command
    user_agent: Mapped[str | None] = mapped_column(String(128))
    request_id: Mapped[str | None] = mapped_column(String(64))
    # name of the target at that time; null if it has no name, or the path named it
    target_name: Mapped[str | None] = mapped_column(String(255))
    # of a refused request of an agent: the cause; null for other requests
    reason: Mapped[str | None] = mapped_column(String(64))
    # HMAC of the columns that its writer knows (`app.audit.audit_proofs`); null without a key
    mac: Mapped[str | None] = mapped_column(String(64))
    # names that the request gives, separated by commas: changed fields, further parts of the path
    fields: Mapped[str | None] = mapped_column(Text)
