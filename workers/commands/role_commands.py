"""
Commands for roles and API tokens.
"""

from typing import Annotated

import typer

from app.identity.caller import Role
from workers.commands.account_commands import Accounts, OfUser, UserName, command, group

grants = group("role", "Roles of users and groups")
api_tokens = group("token", "API tokens of users")

RoleName = Annotated[Role, typer.Argument(metavar="ROLE", help=", ".join(Role))]
OfGroup = Annotated[str | None, typer.Option("--group", help="Name of a group")]
InSystem = Annotated[bool, typer.Option("--system", help="In the system: all projects")]
InProject = Annotated[str | None, typer.Option("--project", help="In the project of this name")]


#: Of the role `service` in a project: Ironic's default rules ask for the role alone.
_OF_SERVICES = (
    "the role service is one of OpenStack's services, in any project: it reads and changes the"
    " nodes and runbooks of all projects. Give people member or manager"
)


def _changing(name: str, help_text: str, verb: str) -> None:
    """Add a command that changes a role by the function of `app.identity.roles` of its name."""

    def change(
        accounts: Accounts,
        role: RoleName,
        *,
        user: OfUser = None,
        group: OfGroup = None,
        system: InSystem = False,
        project: InProject = None,
    ) -> None:
        from app.identity import roles
        from app.identity.roles import Holder, Scope

        apply, scope = getattr(roles, name), Scope(system, project)
        accounts.change(lambda session: apply(session, role, Holder(user, group), scope))
        holder, role_scope = user or group, project or "system"
        document = {"role": role.value, "holder": holder, "scope": role_scope}
        accounts.output.result(document, f"{holder} {verb} the role {role} in {role_scope}")
        if role is Role.SERVICE and project and name == "grant":
            typer.echo(f"ingot: {_OF_SERVICES}", err=True)

    change.__doc__ = help_text
    command(grants, name)(change)


_changing("grant", "Give a role to a user or a group, in the system or in a project.", "has")
_changing("revoke", "Take a role from a user or a group.", "has no longer")


@command(grants, "list")
def list_roles(accounts: Accounts) -> None:
    """List all roles of users and groups."""
    from app.identity import roles

    assignments = accounts.read(lambda session: list(roles.assignments(session)))
    accounts.output.items(assignments, ("role", "user", "group", "scope"))


@command(api_tokens, "create")
def create_token(
    accounts: Accounts,
    user: UserName,
    *,
    system: InSystem = False,
    project: InProject = None,
    role: Annotated[
        Role | None,
        typer.Option("--role", help="Most that the token may do; default: the user's roles"),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Purpose of the token")] = None,
    days: Annotated[int, typer.Option("--days", help="Days until it expires; 0: never")] = 90,
) -> None:
    """Create an API token, and print it. It cannot be printed again."""
    from app.identity import tokens
    from app.identity.roles import Scope

    uuid, text = accounts.change(
        lambda session: tokens.create(
            session, user, Scope(system, project), name=name, role=role, days=days
        )
    )
    accounts.output.item({"uuid": uuid, "token": text})


@command(api_tokens, "list")
def list_tokens(accounts: Accounts, *, user: OfUser = None) -> None:
    """List API tokens, without their texts."""
    from app.identity import tokens

    token_rows = accounts.read(lambda session: list(tokens.listed(session, user)))
    columns = ("uuid", "name", "user", "scope", "role", "expires_at", "used_at", "revoked_at")
    accounts.output.items(token_rows, columns)


@command(api_tokens, "revoke")
def revoke_token(
    accounts: Accounts,
    uuid: Annotated[str, typer.Argument(metavar="TOKEN", help="UUID of the token")],
) -> None:
    """Revoke an API token at once."""
    from app.identity import tokens

    accounts.change(lambda session: tokens.revoke(session, uuid))
    accounts.output.result({"uuid": uuid}, f"token {uuid} is revoked")
