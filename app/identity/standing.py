"""
Standing of users whose work goes on after their request: whether they still have its rights.

A rollout starts operations for as long as it runs. It has the authority of its caller: a user, a
scope and the roles there. The rights are those of the user now: one who was disabled or deleted has
none, and a role that was taken away is missing.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.transactions import connection_of
from app.identity import roles
from app.identity.caller import Caller, with_implied
from app.models import User


@dataclass(frozen=True, slots=True)
class Authority:
    """A user of the database, and the roles in one scope that work relies on."""

    user: str  # UUID
    project: str | None  # identifier; None: the system
    roles: tuple[str, ...]  # with implied ones


def authority_of(session: Session, caller: Caller) -> Mapping[str, Any] | None:
    """
    Return the authority of a caller, as a document.

    Roles that only the caller's token gives, such as those of a provider's JWT, are left out: they
    cannot be read again. None: the caller is no user of the database, such as one of Keystone.
    """
    if caller.user_id is None:
        return None
    found = _roles_of(session, caller.user_id, caller.project_id)
    if found is None:
        return None
    kept = tuple(role for role in caller.roles if role in found)
    return asdict(Authority(caller.user_id, caller.project_id, kept))


def lost(session: Session, authority: Mapping[str, Any] | None) -> str | None:
    """Return what a user has lost of an authority, in words; None: nothing."""
    if authority is None:
        return None
    wanted = Authority(authority["user"], authority["project"], tuple(authority["roles"]))
    found = _roles_of(session, wanted.user, wanted.project)
    if found is None:
        return "the user is disabled or deleted"
    missing = [role for role in wanted.roles if role not in found]
    where = "the system" if wanted.project is None else f"project {wanted.project}"
    return f"the user has lost the role {' and '.join(missing)} in {where}" if missing else None


def covers(caller: Caller, authority: Mapping[str, Any] | None) -> bool:
    """Whether a caller has all roles of an authority, in its scope or in the system."""
    if authority is None or not caller.restricted:
        return True
    in_scope = caller.project_id == authority["project"] or caller.system_scope is not None
    return in_scope and set(authority["roles"]) <= set(caller.roles)


def _roles_of(session: Session, user: str, project: str | None) -> frozenset[str] | None:
    """Return the roles of an enabled user in a scope, with implied ones; None: there is none."""
    ident = session.scalar(select(User.id).where(User.uuid == user, User.enabled))
    if ident is None:
        return None
    found = roles.grants(connection_of(session), ident)
    return frozenset(with_implied(each.role for each in found if each.project == project))
