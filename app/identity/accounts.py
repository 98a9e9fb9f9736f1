"""Users, groups and projects: creation, change, deletion, lookup by name."""

from collections.abc import Sequence
from typing import TypeVar
from uuid import uuid4

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.db.clock import now
from app.errors import Invalid, NotFound
from app.identity import passwords
from app.models import Group, Membership, Project, User
from app.models.base import kind_of
from app.rows import row_changes

Named = TypeVar("Named", User, Group, Project)

#: Word for the scope of the system, where others are names of projects.
SYSTEM = "system"
#: Most characters of a name, and of the identifier of a project.
LONGEST_NAME, LONGEST_IDENT = 255, 64


def is_name(text: str) -> bool:
    """
    Whether a text can be a name.

    HTTP Basic separates user and password by a colon, so no name has one.
    """
    is_plain = text.isprintable() and text == text.strip() and ":" not in text
    return is_plain and 0 < len(text) <= LONGEST_NAME


def create_user(
    session: Session, name: str, password_hash: str | None = None, uuid: str | None = None
) -> User:
    """
    Create a user. password_hash: result of `passwords.hashed`, or None for a user with API
    tokens only. uuid: of `provided.uuid_of`; a new one by default.

    Raises Invalid: the name is malformed.
    Raises AlreadyExists.
    """
    user = User(
        uuid=uuid or str(uuid4()), name=_checked(name), password_hash=password_hash, enabled=True
    )
    return row_changes.add(session, user)


def set_password(session: Session, name: str, password: str | None) -> None:
    """
    Replace the password of a user, or remove it for one with API tokens only. Tokens stay valid.

    Raises Invalid: the password is too short or too long.
    Raises NotFound.
    """
    password_hash = None if password is None else passwords.hashed(password)
    row_changes.change(session, find(session, User, name), {"password_hash": password_hash})


def set_enabled(session: Session, name: str, *, enabled: bool) -> None:
    """
    Let a user send requests, or not, neither by password nor by token.

    Raises NotFound.
    """
    user = find(session, User, name)
    user.enabled, user.updated_at = enabled, now()


def create_group(session: Session, name: str) -> Group:
    """
    Create a group without users.

    Raises Invalid: the name is malformed.
    Raises AlreadyExists.
    """
    return row_changes.add(session, Group(name=_checked(name)))


def add_member(session: Session, group: str, user: str) -> None:
    """
    Add a user to a group; a member stays one.

    Raises NotFound.
    """
    group_row, member = find(session, Group, group), find(session, User, user)
    if session.get(Membership, (group_row.id, member.id)) is None:
        session.add(Membership(group_id=group_row.id, user_id=member.id))


def remove_member(session: Session, group: str, user: str) -> None:
    """
    Remove a user from a group.

    Raises NotFound: a name is unknown, or the user is no member.
    """
    group_row, member = find(session, Group, group), find(session, User, user)
    row = session.get(Membership, (group_row.id, member.id))
    if row is None:
        raise NotFound("user", user, "{kind} {ident} is not in group " + group + ".")
    session.delete(row)


def members(session: Session, group: str) -> Sequence[str]:
    """
    Return the names of a group's users.

    Raises NotFound.
    """
    of_group = Membership.group_id == find(session, Group, group).id
    return session.scalars(
        select(User.name).join(Membership).where(of_group).order_by(User.name)
    ).all()


def groups_of(session: Session, user: str) -> Sequence[str]:
    """
    Return the names of a user's groups.

    Raises NotFound.
    """
    of_user = Membership.user_id == find(session, User, user).id
    return session.scalars(
        select(Group.name).join(Membership).where(of_user).order_by(Group.name)
    ).all()


def create_project(session: Session, name: str, ident: str | None = None) -> Project:
    """
    Create a project. ident: the value of `owner` and `lessee` of its nodes; a new UUID by default.

    Raises Invalid: a value is malformed, or the word for the scope of the system.
    Raises AlreadyExists.
    """
    if SYSTEM in (ident, name):
        raise Invalid(f"{'id' if ident == SYSTEM else 'name'}: {SYSTEM} is the scope of the system")
    if ident is not None and not (is_name(ident) and len(ident) <= LONGEST_IDENT):
        raise Invalid(f"id: expected 1 to {LONGEST_IDENT} printable characters without a colon")
    return row_changes.add(session, Project(ident=ident or str(uuid4()), name=_checked(name)))


def find(session: Session, model: type[Named], name: str) -> Named:
    """
    Return the row with a name, for a change; other processes that change it wait.

    Raises NotFound.
    """
    row = session.scalar(select(model).where(model.name == name).with_for_update())
    if row is None:
        raise NotFound(kind_of(model), name)
    return row


def everything(session: Session, model: type[Named]) -> Sequence[Named]:
    """Return all rows, in the order of their names."""
    return session.scalars(select(model).order_by(model.name)).all()


def remove(session: Session, model: type[Named], name: str) -> None:
    """
    Delete a user, group or project with its roles, memberships and API tokens.

    Raises NotFound.
    """
    session.execute(delete(model).where(model.id == find(session, model, name).id))


def _checked(name: str) -> str:
    """
    Return a name.

    Raises Invalid: it is malformed.
    """
    if not is_name(name):
        raise Invalid(
            f"name: expected 1 to {LONGEST_NAME} printable characters without a colon, and no"
            " space at an end"
        )
    return name
