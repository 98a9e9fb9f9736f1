"""
Standing of users whose work goes on after their request: whether they still have its rights.

A rollout starts operations for as long as it runs. It has the authority of its caller: a user, a
scope and the roles there. The user's current rights count: a user who was disabled or deleted has
no rights, and a role that was taken away is missing.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.transactions import connection_of
from app.identity import roles
from app.identity.caller import Caller, with_implied
from app.models import User


def authority_of(session: Session, caller: Caller) -> Mapping[str, object] | None:
    """
    Return the authority of a caller, as a document: the user's UUID, the project's identifier (None
    for the system), and the roles there, with implied ones.

    Roles that only the caller's token gives, as a provider's JWT does, are left out: they cannot
    be read again. Returns None if the caller is no user of the database, such as one of Keystone.
    """
    if caller.user_id is None:
        return None
    user_roles = _roles_of(session, caller.user_id, caller.project_id)
    if user_roles is None:
        return None
    current_roles = [role for role in caller.roles if role in user_roles]
    return {"user": caller.user_id, "project": caller.project_id, "roles": current_roles}


def lost(session: Session, authority: Mapping[str, Any] | None) -> str | None:
    """Describe the rights of an authority that its user has lost, if any."""
    if authority is None:
        return None
    project = authority["project"]
    user_roles = _roles_of(session, authority["user"], project)
    if user_roles is None:
        return "the user is disabled or deleted"
    missing_roles = [role for role in authority["roles"] if role not in user_roles]
    scope_name = "the system" if project is None else f"project {project}"
    return (
        f"the user has lost the role {' and '.join(missing_roles)} in {scope_name}"
        if missing_roles
        else None
    )


def covers(caller: Caller, authority: Mapping[str, Any] | None) -> bool:
    """Whether a caller has all roles of an authority, in its scope or in the system."""
    if authority is None or not caller.restricted:
        return True
    in_scope = caller.project_id == authority["project"] or caller.system_scope is not None
    return in_scope and set(authority["roles"]) <= set(caller.roles)


def _roles_of(session: Session, user: str, project: str | None) -> frozenset[str] | None:
    """
    Return the roles of an enabled user in a scope, with implied ones; None without such a user.
    """
    ident = session.scalar(select(User.id).where(User.uuid == user, User.enabled))
    if ident is None:
        return None
    grants = roles.grants(connection_of(session), ident)
    return frozenset(with_implied(grant.role for grant in grants if grant.project == project))
