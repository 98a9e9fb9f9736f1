"""The caller of a request: user, project and roles."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """Role of a user in the system or in a project."""

    ADMIN = "admin"
    MANAGER = "manager"
    MEMBER = "member"
    READER = "reader"
    SERVICE = "service"  # another service, such as Nova


#: Role -> role that it implies, from the most powerful one down.
IMPLIED_ROLES = {"admin": "manager", "manager": "member", "member": "reader"}


@dataclass(frozen=True, slots=True)
class Caller:
    """
    User on whose behalf a request is served.

    Without authentication, all fields but the request id have their defaults.
    """

    user_id: str | None = None
    user_name: str | None = None
    user_domain_id: str | None = None
    project_id: str | None = None
    project_name: str | None = None
    project_domain_id: str | None = None
    domain_id: str | None = None
    system_scope: str | None = None  # "all" for a system-scoped token
    is_admin_project: bool = True
    roles: tuple[str, ...] = ()  # names, lower case, with implied roles
    request_id: str | None = field(default=None, compare=False)
    restricted: bool = False  # policy rules apply; without them, the caller may do everything

    @property
    def tenant(self) -> str | None:
        """
        Client whose share of the service a request uses: a project, or a user of the system.

        None if the caller has no name.
        """
        if self.project_id is not None:
            return f"project {self.project_id}"
        return None if self.user_id is None else f"user {self.user_id}"

    @property
    def credentials(self) -> dict[str, Any]:
        """Attributes for policy rules, by oslo.policy's names, without those that are None."""
        attributes = {
            "user_id": self.user_id,
            "user_name": self.user_name,
            "user_domain_id": self.user_domain_id,
            "project_id": self.project_id,
            "project_name": self.project_name,
            "project_domain_id": self.project_domain_id,
            "domain_id": self.domain_id,
            "system_scope": self.system_scope,
            "is_admin_project": self.is_admin_project,
            "roles": list(self.roles),
        }
        return {name: value for name, value in attributes.items() if value is not None}


#: Caller of a request without authentication, and of the service's own work.
UNAUTHENTICATED = Caller()


def of_token(token: Mapping[str, Any], request_id: str) -> Caller:
    """Return the caller of a token: the object `token` of Keystone's validation (API version 3)."""
    user, project = token["user"], token.get("project") or {}
    return Caller(
        user_id=user["id"],
        user_name=user.get("name"),
        user_domain_id=(user.get("domain") or {}).get("id"),
        project_id=project.get("id"),
        project_name=project.get("name"),
        project_domain_id=(project.get("domain") or {}).get("id"),
        domain_id=(token.get("domain") or {}).get("id"),
        system_scope="all" if (token.get("system") or {}).get("all") else None,
        is_admin_project=token.get("is_admin_project", True),
        roles=with_implied(role["name"] for role in token.get("roles", ())),
        request_id=request_id,
        restricted=True,
    )


def with_implied(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of roles, in lower case, with the roles that they imply."""
    roles = {name.lower() for name in names}
    for role, implied in IMPLIED_ROLES.items():
        if role in roles:
            roles.add(implied)
    return tuple(sorted(roles))
