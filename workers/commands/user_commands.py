"""
Commands for users, groups and projects.
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.commands.account_commands import Accounts, UserName, command, group

if TYPE_CHECKING:  # slow to import
    from sqlalchemy.orm import Session

users = group("user", "Users")
groups = group("group", "Groups of users")
projects = group("project", "Projects, which own and lease nodes")

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of a group")]
ProjectName = Annotated[str, typer.Argument(metavar="PROJECT", help="Name of a project")]


def _new_password() -> str:
    """
    Read a password: twice from a terminal, without echo, else the first line of standard input.

    It is no argument, because all users of a host can see the arguments of a process.
    """
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\r\n")


@command(users, "create")
def create_user(
    accounts: Accounts,
    name: UserName,
    *,
    no_password: Annotated[bool, typer.Option("--no-password", help="For API tokens only")] = False,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject",
            help="Claim `sub` of a person at the OpenID provider, who signs in there; no password",
        ),
    ] = None,
) -> None:
    """Create a user; the password is read from the terminal or standard input."""
    from app.identity import accounts as rows
    from app.identity import oidc_users, passwords

    oidc_uuid = (
        None if subject is None else oidc_users.uuid_of(accounts.settings.oidc.issuer, subject)
    )
    stored = None if no_password or oidc_uuid else passwords.hashed(_new_password())
    uuid = accounts.change(lambda session: rows.create_user(session, name, stored, oidc_uuid).uuid)
    accounts.output.result({"name": name, "uuid": uuid}, f"user {name} was created: {uuid}")


@command(users, "list")
def list_users(accounts: Accounts) -> None:
    """List all users."""
    from app.identity import accounts as rows
    from app.models import User

    users = accounts.read(lambda session: [_user(user) for user in rows.everything(session, User)])
    accounts.output.items(users, ("name", "uuid", "enabled", "has_password"))


@command(users, "show")
def show_user(accounts: Accounts, name: UserName) -> None:
    """Show a user with groups and roles."""
    from app.identity import accounts as rows
    from app.identity import roles
    from app.models import User

    def work(session: "Session") -> dict[str, Any]:
        document = _user(rows.find(session, User, name))
        document["groups"] = groups = list(rows.groups_of(session, name))
        document["roles"] = [
            f"{assignment['role']} in {assignment['scope']}"
            + (f", by group {assignment['group']}" if assignment["group"] else "")
            for assignment in roles.assignments(session)
            if assignment["user"] == name or assignment["group"] in groups
        ]
        return document

    accounts.output.item(accounts.read(work))


def _user(user: Any) -> dict[str, Any]:
    return {
        "name": user.name,
        "uuid": user.uuid,
        "enabled": user.enabled,
        "has_password": user.password_hash is not None,
        "created_at": user.created_at.isoformat(),
    }


@command(users, "set-password")
def set_password(
    accounts: Accounts,
    name: UserName,
    *,
    keep_sessions: Annotated[
        bool, typer.Option("--keep-sessions", help="Leave the user's browsers signed in")
    ] = False,
) -> None:
    """
    Replace a user's password, read from the terminal or standard input.

    The sessions of the user's browsers end. API tokens stay valid.
    """
    from app.identity import accounts as rows
    from app.identity import tokens
    from app.models import User

    password = _new_password()

    def work(session: "Session") -> int:
        rows.set_password(session, name, password)
        if keep_sessions:
            return 0
        return tokens.end_sessions(session, rows.find(session, User, name).id)

    session_count = accounts.change(work)
    text = f"the password of {name} was replaced; sessions that ended: {session_count}"
    accounts.output.result({"name": name, "ended_sessions": session_count}, text)


@command(users, "enable")
def enable_user(accounts: Accounts, name: UserName) -> None:
    """Let a disabled user send requests again."""
    from app.identity import accounts as rows

    accounts.change(lambda session: rows.set_enabled(session, name, enabled=True))
    accounts.output.result({"name": name, "enabled": True}, f"user {name} is enabled")


@command(users, "disable")
def disable_user(accounts: Accounts, name: UserName) -> None:
    """
    Refuse all requests of a user, by password and by token, and end the user's sessions.

    It prints the work that was begun for the user, and its fate.
    """
    from app.identity import accounts as rows
    from app.identity import delegated_work, tokens
    from app.models import User

    def work(session: "Session") -> list[dict[str, Any]]:
        user = rows.find(session, User, name)
        delegated_items = list(delegated_work.of_user(session, user))
        rows.set_enabled(session, name, enabled=False)
        tokens.end_sessions(session, user.id)
        return delegated_items

    delegated_items = accounts.change(work)
    lines = [
        f"{item['kind']} {item['uuid']} ({item['about']}): {item['then']}"
        for item in delegated_items
    ]
    text = "\n".join([f"user {name} is disabled", *lines])
    accounts.output.result({"name": name, "enabled": False, "work": delegated_items}, text)


@command(users, "delete")
def delete_user(accounts: Accounts, name: UserName) -> None:
    """Delete a user, with roles and tokens."""
    from app.models import User

    _delete(accounts, User, name)


@command(groups, "create")
def create_group(accounts: Accounts, name: GroupName) -> None:
    """Create a group without users."""
    from app.identity import accounts as rows

    accounts.change(lambda session: rows.create_group(session, name))
    accounts.output.result({"name": name}, f"group {name} was created")


@command(groups, "list")
def list_groups(accounts: Accounts) -> None:
    """List all groups."""
    from app.identity import accounts as rows
    from app.models import Group

    group_names = accounts.read(
        lambda session: [group.name for group in rows.everything(session, Group)]
    )
    accounts.output.items([{"name": group_name} for group_name in group_names], ("name",))


@command(groups, "show")
def show_group(accounts: Accounts, name: GroupName) -> None:
    """Show the users of a group."""
    from app.identity import accounts as rows

    members = accounts.read(lambda session: list(rows.members(session, name)))
    accounts.output.item({"name": name, "users": members})


@command(groups, "add-user")
def add_user(accounts: Accounts, group: GroupName, user: UserName) -> None:
    """Add a user to a group."""
    from app.identity import accounts as rows

    accounts.change(lambda session: rows.add_member(session, group, user))
    accounts.output.result({"group": group, "user": user}, f"{user} is in {group}")


@command(groups, "remove-user")
def remove_user(accounts: Accounts, group: GroupName, user: UserName) -> None:
    """Remove a user from a group."""
    from app.identity import accounts as rows

    accounts.change(lambda session: rows.remove_member(session, group, user))
    accounts.output.result({"group": group, "user": user}, f"{user} is not in {group} any more")


@command(groups, "delete")
def delete_group(accounts: Accounts, name: GroupName) -> None:
    """Delete a group with its roles; its users remain."""
    from app.models import Group

    _delete(accounts, Group, name)


@command(projects, "create")
def create_project(
    accounts: Accounts,
    name: ProjectName,
    *,
    ident: Annotated[
        str | None, typer.Option("--id", help="`owner` and `lessee` of its nodes; default: a UUID")
    ] = None,
) -> None:
    """Create a project."""
    from app.identity import accounts as rows

    project_id = accounts.change(lambda session: rows.create_project(session, name, ident).ident)
    accounts.output.result(
        {"name": name, "id": project_id}, f"project {name} was created: {project_id}"
    )


@command(projects, "list")
def list_projects(accounts: Accounts) -> None:
    """List all projects."""
    from app.identity import accounts as rows
    from app.models import Project

    projects = accounts.read(
        lambda session: [
            {"name": project.name, "id": project.ident}
            for project in rows.everything(session, Project)
        ]
    )
    accounts.output.items(projects, ("name", "id"))


@command(projects, "delete")
def delete_project(accounts: Accounts, name: ProjectName) -> None:
    """Delete a project with its roles and tokens; its nodes keep their owner and lessee."""
    from app.models import Project

    _delete(accounts, Project, name)


def _delete(accounts: Accounts, model: Any, name: str) -> None:
    from app.identity import accounts as rows
    from app.models.base import kind_of

    accounts.change(lambda session: rows.remove(session, model, name))
    accounts.output.result({"name": name}, f"{kind_of(model)} {name} was deleted")
