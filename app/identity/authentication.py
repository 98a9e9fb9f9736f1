"""The caller that a user's credentials stand for, with the roles in one scope."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, or_, select

from app.db.clock import now
from app.errors import Forbidden, Invalid
from app.identity import accounts, roles, tokens
from app.identity.caller import Caller, with_implied
from app.identity.roles import Grant, Provided
from app.models import ApiToken, User

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
    provided: Provided | None = None  # groups of the OpenID provider's token; None: no such token


@dataclass(frozen=True, slots=True)
class Token:
    """A valid token of an enabled user."""

    id: int
    project_id: int | None  # None: the scope is the system
    role: str | None
    use_is_due: bool  # the use is to be recorded
    account: Account


_ACCOUNT = (User.id, User.uuid, User.name, User.password_hash)
_BY_NAME = select(*_ACCOUNT).where(User.name == bindparam("name"), User.enabled)
_BY_UUID = select(*_ACCOUNT).where(User.uuid == bindparam("uuid"), User.enabled)
_BY_DIGEST = (
    select(ApiToken.id, ApiToken.project_id, ApiToken.role, tokens.USE_IS_OLD, *_ACCOUNT)
    .join(User, ApiToken.user_id == User.id)
    .where(
        tokens.HAS_DIGEST,
        ApiToken.revoked_at.is_(None),
        or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > now()),
        User.enabled,
    )
)


def account_of(connection: Connection, name: str) -> Account | None:
    """Return the enabled user of a name; None: there is none."""
    if not accounts.is_name(name):
        return None
    row = connection.execute(_BY_NAME, {"name": name}).one_or_none()
    return row and Account(*row)


def account_with(connection: Connection, uuid: str, provided: Provided) -> Account | None:
    """Return the enabled user with a UUID, for a token of the OpenID provider; None: no such."""
    row = connection.execute(_BY_UUID, {"uuid": uuid}).one_or_none()
    return row and Account(*row, provided)


def token_of(connection: Connection, text: str) -> Token | None:
    """Return a token; None: it is unknown, expired or revoked, or its user is disabled."""
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
    found = roles.grants(connection, token.account.id)
    mine = [each for each in found if each.project_id == token.project_id]
    allowed = None if token.role is None else with_implied([token.role])
    return caller_of(token.account, mine, allowed, request_id)


def of_account(
    connection: Connection, account: Account, project: str | None, request_id: str
) -> Caller:
    """
    Return the caller of a user. project: value of `PROJECT`; None: it is not sent.

    Without it the scope is the system, if the user has a role there, else the user's only project.

    Raises Invalid: the user has several projects, so that the header is needed.
    Raises Forbidden: the user has no role, or none in this project.
    """
    found = roles.grants(connection, account.id, account.provided)
    if project is None:
        mine = roles.in_system(found) or _only_project(account, found)
    else:
        mine = roles.in_project(found, project)
        if not mine:
            raise Forbidden(f"{PROJECT}: user {account.name} has no role in project {project}.")
    return caller_of(account, mine, None, request_id)


def _only_project(account: Account, found: list[Grant]) -> list[Grant]:
    names = sorted({str(each.project_name) for each in found})
    if len(names) > 1:
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        raise Invalid(
            f"{PROJECT}: user {account.name} has roles in several projects; name one of"
            f" {', '.join(names[:LISTED])}{more}"
        )
    return found


def caller_of(
    account: Account, mine: Sequence[Grant], allowed: Sequence[str] | None, request_id: str
) -> Caller:
    """
    Return the caller with these roles, all of one scope, as far as `allowed` has them.

    Raises Forbidden: there are none.
    """
    names = with_implied(each.role for each in mine)
    names = tuple(each for each in names if allowed is None or each in allowed)
    if not names:
        raise Forbidden(
            f"User {account.name} has no role in this scope: an operator gives one with"
            " `ingot role grant`."
        )
    scope = mine[0]
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
