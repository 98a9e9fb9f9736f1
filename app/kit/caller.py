"""Who asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: A role, and the one that it contains.
CONTAINS = {"admin": "manager", "manager": "member", "member": "reader"}


@dataclass(frozen=True, slots=True)
class Caller:
    """
    The one on whose behalf a request is served; without authentication, all but the request id
    are None or empty.

    roles: by name, and those that they contain. system_scope: "all" for a token of the whole
    system. restricted: what the caller may do is a matter of policy; without, it is everything.
    """

    user_id: str | None = None
    user_name: str | None = None
    user_domain_id: str | None = None
    project_id: str | None = None
    project_name: str | None = None
    project_domain_id: str | None = None
    domain_id: str | None = None
    system_scope: str | None = None
    is_admin_project: bool = True
    roles: tuple[str, ...] = ()
    request_id: str | None = field(default=None, compare=False)
    restricted: bool = False

    @property
    def credentials(self) -> dict[str, Any]:
        """What the rules of the policy compare, by oslo.policy's names; nothing that is None."""
        named = {
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
        return {name: value for name, value in named.items() if value is not None}


def of_token(token: Mapping[str, Any], request_id: str) -> Caller:
    """The caller that Keystone describes: `token` of the answer to a validation, version 3."""
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
        roles=_whole(role["name"] for role in token.get("roles", ())),
        request_id=request_id,
        restricted=True,
    )


def _whole(names: Any) -> tuple[str, ...]:
    roles = {name.lower() for name in names}
    for role, contained in CONTAINS.items():  # from the greatest to the least
        if role in roles:
            roles.add(contained)
    return tuple(sorted(roles))
