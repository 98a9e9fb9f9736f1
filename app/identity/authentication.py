"""The caller that a user's credentials stand for, with the roles in one scope."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from app.errors import Forbidden, Invalid
from app.identity import accounts, roles, tokens
from app.identity.caller import Caller, with_implied
from app.identity.roles import Grant, Provided
from app.models import ApiToken, User
from app.text.sentences import enumerated

#: Header that names a project, by identifier or name, for requests with a password.
PROJECT = "X-Project-Id"
#: Most projects that an error lists.
LISTED = 10


@dataclass(frozen=True, slots=True)
class Account:
    """An enabled user."""

    id: int
    uuid: str
    name: str
    password_hash: str | None
    provided: Provided | None = None  # groups of the OpenID provider's token, if there is one


@dataclass(frozen=True, slots=True)
class Token:
    """A valid token of an enabled user."""

    id: int
    project_id: int | None  # None if the scope is the system
    role: str | None
    use_is_due: bool  # the use is to be recorded
    account: Account


_ACCOUNT = (User.id, User.uuid, User.name, User.password_hash)
_BY_NAME = select(*_ACCOUNT).where(User.name == bindparam("name"), User.enabled)
_BY_UUID = select(*_ACCOUNT).where(User.uuid == bindparam("uuid"), User.enabled)
_BY_DIGEST = (
    select(ApiToken.id, ApiToken.project_id, ApiToken.role, tokens.USE_IS_OLD, *_ACCOUNT)
    .join(User, ApiToken.user_id == User.id)
    .where(tokens.HAS_DIGEST, tokens.IS_VALID, User.enabled)
)


def account_of(connection: Connection, name: str) -> Account | None:
    """Return the enabled user of a name, if there is one."""
    if not accounts.is_name(name):
        return None
    row = connection.execute(_BY_NAME, {"name": name}).one_or_none()
    return row and Account(*row)


def account_with(connection: Connection, uuid: str, provided: Provided) -> Account | None:
    """Return the enabled user with a UUID, if any, for a token of the OpenID provider."""
    row = connection.execute(_BY_UUID, {"uuid": uuid}).one_or_none()
    return row and Account(*row, provided)


def token_of(connection: Connection, text: str) -> Token | None:
    """Return a token, or None if it is unknown, expired or revoked, or its user is disabled."""
    if not tokens.PATTERN.fullmatch(text):
        return None
    row = connection.execute(_BY_DIGEST, tokens.digests(connection, text)).one_or_none()
    return row and Token(*row[:3], bool(row[3]), Account(*row[4:]))


def with_token(connection: Connection, token: Token, request_id: str) -> Caller:
    """
    Return the caller of a token.

    Raises Forbidden: the user has no role in the token's scope any more, or has chosen no scope.
    """
    if token.role == tokens.NO_ROLE:
        raise Forbidden("The session has no scope yet: choose one by POST /v1/login/scope.")
    grants = roles.grants(connection, token.account.id)
    scope_grants = [grant for grant in grants if grant.project_id == token.project_id]
    role_names = None if token.role is None else with_implied([token.role])
    return caller_of(token.account, scope_grants, role_names, request_id)


def of_account(
    connection: Connection, account: Account, project: str | None, request_id: str
) -> Caller:
    """
    Return the caller of a user. project: value of `PROJECT`, if it is sent.

    Without it the scope is the system, if the user has a role there, else the user's only project.

    Raises Invalid: the user has several projects, so that the header is needed.
    Raises Forbidden: the user has no role, or none in this project.
    """
    grants = roles.grants(connection, account.id, account.provided)
    if project is None:
        scope_grants = roles.in_system(grants) or _only_project(account, grants)
    else:
        scope_grants = roles.in_project(grants, project)
        if not scope_grants:
            raise Forbidden(f"{PROJECT}: user {account.name} has no role in project {project}.")
    return caller_of(account, scope_grants, None, request_id)


def _only_project(account: Account, grants: list[Grant]) -> list[Grant]:
    names = sorted({str(grant.project_name) for grant in grants})
    if len(names) > 1:
        raise Invalid(
            f"{PROJECT}: user {account.name} has roles in several projects; name one of"
            f" {enumerated(names, LISTED)}"
        )
    return grants


def caller_of(
    account: Account, grants: Sequence[Grant], allowed_roles: Sequence[str] | None, request_id: str
) -> Caller:
    """
    Return the caller with these roles, all of one scope, as far as `allowed_roles` has them.

    Raises Forbidden: there are none.
    """
    names = with_implied(grant.role for grant in grants)
    names = tuple(name for name in names if allowed_roles is None or name in allowed_roles)
    if not names:
        raise Forbidden(
            f"User {account.name} has no role in this scope: an operator gives one with"
            " `ingot role grant`."
        )
    scope = grants[0]
    return Caller(
        user_id=account.uuid,
        user_name=account.name,
        project_id=scope.project,
        project_name=scope.project_name,
        system_scope="all" if scope.project_id is None else None,
        roles=names,
        request_id=request_id,
        restricted=True,
    )
