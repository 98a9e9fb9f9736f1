"""Users without Keystone: users, groups, projects, roles and API tokens."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base, Numbered, Timestamped


class User(Numbered, Timestamped, Base):
    __tablename__ = "users"

    uuid: Mapped[str] = mapped_column(String(36), unique=True)  # of callers, in logs and histories
    name: Mapped[str] = mapped_column(String(255), unique=True)
    # argon2id, in the PHC format; null for a user with API tokens only
    password_hash: Mapped[str | None] = mapped_column(Text)
    enabled: Mapped[bool] = mapped_column(default=True)  # false: all requests get 401


class Group(Numbered, Timestamped, Base):
    """A group of users, which has roles as a user has."""

    __tablename__ = "user_groups"

    name: Mapped[str] = mapped_column(String(255), unique=True)


class Membership(Base):
    """A user in a group."""

    __tablename__ = "memberships"

    group_id: Mapped[int] = mapped_column(
        ForeignKey("user_groups.id", ondelete="CASCADE"), primary_key=True
    )
    user_id: Mapped[int] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True
    )


class Project(Numbered, Timestamped, Base):
    """A project: the owner or lessee of nodes."""

    __tablename__ = "projects"

    # value of `owner` and `lessee` of nodes: a UUID, or what the operator chose
    ident: Mapped[str] = mapped_column(String(64), unique=True)
    name: Mapped[str] = mapped_column(String(255), unique=True)


class RoleAssignment(Numbered, Base):
    """A role of a user or a group, in the system or in a project."""

    __tablename__ = "role_assignments"
    __table_args__ = (CheckConstraint("(user_id IS NULL) <> (group_id IS NULL)", "one_holder"),)

    role: Mapped[str] = mapped_column(String(16))  # `app.identity.caller.Role`
    user_id: Mapped[int | None] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), index=True
    )
    group_id: Mapped[int | None] = mapped_column(
        ForeignKey("user_groups.id", ondelete="CASCADE"), index=True
    )
    # null in the system
    project_id: Mapped[int | None] = mapped_column(
        ForeignKey("projects.id", ondelete="CASCADE"), index=True
    )


class ApiToken(Numbered, Base):
    """An API token of a user, for one scope. Its text is not stored."""

    __tablename__ = "api_tokens"

    uuid: Mapped[str] = mapped_column(String(36), unique=True)  # for commands
    digest: Mapped[str] = mapped_column(String(64), unique=True)  # SHA-256 of the text
    name: Mapped[str | None] = mapped_column(String(255))
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    # null if the scope is the system
    project_id: Mapped[int | None] = mapped_column(
        ForeignKey("projects.id", ondelete="CASCADE"), index=True
    )
    # limits the roles of the user to this one and those below it; null without a limit
    role: Mapped[str | None] = mapped_column(String(16))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None] = mapped_column(index=True)  # null if it never expires
    used_at: Mapped[datetime | None]  # latest use, to the minute; null if not used yet
    revoked_at: Mapped[datetime | None] = mapped_column(index=True)
