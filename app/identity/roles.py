"""Roles of users and groups, in the system or in a project."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, or_, select
from sqlalchemy.orm import Session

from app.errors import Invalid, NotFound
from app.identity import accounts
from app.identity.accounts import SYSTEM
from app.identity.caller import Role
from app.models import Group, Membership, Project, RoleAssignment, User


@dataclass(frozen=True, slots=True)
class Holder:
    """User or group that has a role: exactly one name is set."""

    user: str | None = None
    group: str | None = None

    def columns(self, session: Session) -> dict[str, int]:
        """
        Return the column of an assignment that refers to it, with its value.

        Raises Invalid: not exactly one name is set.
        Raises NotFound.
        """
        if self.user is not None and self.group is None:
            return {"user_id": accounts.find(session, User, self.user).id}
        if self.group is not None and self.user is None:
            return {"group_id": accounts.find(session, Group, self.group).id}
        raise Invalid("--user, --group: name either a user or a group")


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a role applies: in the system, or in a project; exactly one is set."""

    system: bool = False
    project: str | None = None  # name

    def project_id(self, session: Session) -> int | None:
        """
        Return the primary key of the project, or None for the system.

        Raises Invalid: not exactly one is set.
        Raises NotFound.
        """
        if self.system == (self.project is not None):
            raise Invalid("--system, --project: name either the system or a project")
        return None if self.project is None else accounts.find(session, Project, self.project).id


@dataclass(frozen=True, slots=True)
class Grant:
    """A role of a user, of the user's own or by a group."""

    role: str
    project_id: int | None  # None in the system
    project: str | None  # identifier: `owner` of nodes
    project_name: str | None


@dataclass(frozen=True, slots=True)
class Provided:
    """Groups that a token of the OpenID provider decides about: names of local groups."""

    managed: frozenset[str]  # all groups of `[oidc]group_map`
    names: frozenset[str]  # those that the token names, among `managed`


def grant(session: Session, role: Role, holder: Holder, scope: Scope) -> None:
    """
    Give a role; one that is given already stays.

    Raises Invalid, NotFound: see `Holder.columns` and `Scope.project_id`.
    """
    values = _columns(session, role, holder, scope)
    if session.scalar(select(RoleAssignment.id).filter_by(**values)) is None:
        session.add(RoleAssignment(**values))


def revoke(session: Session, role: Role, holder: Holder, scope: Scope) -> None:
    """
    Take a role away.

    Raises NotFound: it was not given, or a name is unknown.
    Raises Invalid: see `Holder.columns` and `Scope.project_id`.
    """
    values = _columns(session, role, holder, scope)
    ids = session.scalars(select(RoleAssignment.id).filter_by(**values)).all()
    if not ids:
        scope_name = scope.project or SYSTEM
        raise NotFound("role", role, "{kind} {ident} was not given to it in " + scope_name + ".")
    session.execute(delete(RoleAssignment).where(RoleAssignment.id.in_(ids)))


def _columns(session: Session, role: Role, holder: Holder, scope: Scope) -> dict[str, object]:
    """Return the columns of an assignment; its holder is locked, so that it is inserted once."""
    project = scope.project_id(session)
    return {"role": role.value, "project_id": project, **holder.columns(session)}


def assignments(session: Session) -> Iterator[dict[str, Any]]:
    """Yield all assignments: role, and the names of its user or group, and of its scope."""
    rows = session.execute(
        select(RoleAssignment.role, User.name, Group.name, Project.name)
        .outerjoin(User, RoleAssignment.user_id == User.id)
        .outerjoin(Group, RoleAssignment.group_id == Group.id)
        .outerjoin(Project, RoleAssignment.project_id == Project.id)
        .order_by(User.name, Group.name, Project.name, RoleAssignment.id)
    )
    for role, user, group, project in rows:
        yield {"role": role, "user": user, "group": group, "scope": project or SYSTEM}


_OWN = RoleAssignment.user_id == bindparam("user")
_MEMBER_OF = select(Membership.group_id).where(Membership.user_id == bindparam("user"))
_BY_GROUPS = RoleAssignment.group_id.in_(_MEMBER_OF)
#: As `_BY_GROUPS`, but a token decides about some of the groups.
_BY_OTHER_GROUPS = RoleAssignment.group_id.in_(
    _MEMBER_OF.join(Group).where(Group.name.not_in(bindparam("managed", expanding=True)))
)
_BY_TOKEN = RoleAssignment.group_id.in_(
    select(Group.id).where(Group.name.in_(bindparam("names", expanding=True)))
)
_GRANTS = select(RoleAssignment.role, Project.id, Project.ident, Project.name).outerjoin(
    Project, RoleAssignment.project_id == Project.id
)
_OF_USER = _GRANTS.where(or_(_OWN, _BY_GROUPS))
_OF_TOKEN = _GRANTS.where(or_(_OWN, _BY_OTHER_GROUPS, _BY_TOKEN))


def grants(connection: Connection, user: int, provided: Provided | None = None) -> list[Grant]:
    """
    Return the roles of a user (primary key), the user's own and those by groups.

    provided: of a request with a token of the OpenID provider.
    """
    if provided is None:
        return [Grant(*row) for row in connection.execute(_OF_USER, {"user": user})]
    groups = {"managed": sorted(provided.managed), "names": sorted(provided.names)}
    return [Grant(*row) for row in connection.execute(_OF_TOKEN, {"user": user, **groups})]


def in_system(grants: Iterable[Grant]) -> list[Grant]:
    return [grant for grant in grants if grant.project_id is None]


def in_project(grants: Iterable[Grant], project: str) -> list[Grant]:
    """Return the roles in a project. project: its identifier, or its name."""
    by_ident = [grant for grant in grants if grant.project == project]
    return by_ident or [grant for grant in grants if grant.project_name == project]


def scopes(grants: Iterable[Grant]) -> list[str]:
    """Return the scopes of roles: `SYSTEM` first, then the names of projects."""
    projects = sorted({grant.project_name for grant in grants if grant.project_name is not None})
    return [SYSTEM, *projects] if in_system(grants) else projects


def has_admin(session: Session) -> bool:
    """Whether an enabled user has the role admin of the system."""
    is_holder = or_(
        RoleAssignment.user_id == User.id,
        RoleAssignment.group_id.in_(
            select(Membership.group_id).where(Membership.user_id == User.id)
        ),
    )
    admin = exists().where(
        is_holder, RoleAssignment.role == Role.ADMIN.value, RoleAssignment.project_id.is_(None)
    )
    return session.scalar(select(User.id).where(User.enabled, admin).limit(1)) is not None
