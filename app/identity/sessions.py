"""
Sessions of browsers: API tokens of one scope with a short life.

A user with several scopes chooses one after the login. Until then the session has no rights.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from app.db.transactions import connection_of
from app.errors import Forbidden, Unauthorized
from app.identity import authentication, roles, tokens
from app.identity.accounts import SYSTEM
from app.identity.authentication import Account
from app.identity.caller import Caller
from app.identity.roles import Grant
from app.models import User


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A valid session."""

    caller: Caller
    scope: str | None  # name of a project, or `SYSTEM`; None: not chosen yet
    scopes: list[str]  # those in which the user has a role


def of(connection: Connection, text: str, request_id: str) -> BrowserSession | None:
    """Return the session of a text; None: it has ended, or the user has no role in its scope."""
    token = authentication.token_of(connection, text)
    if token is None:
        return None
    found = roles.grants(connection, token.account.id)
    if token.role == tokens.NO_ROLE:
        return _without_scope(token.account, found, request_id)
    mine = [each for each in found if each.project_id == token.project_id]
    return _in_scope(token.account, found, mine, request_id) if mine else None


def create(
    session: Session, account: Account, scope: str | None, seconds: float, request_id: str
) -> tuple[BrowserSession, str]:
    """
    Create a session; return it, and the text of its token, which cannot be read again.

    scope: see `_chosen`; None: the user's only one, or one that is chosen later. seconds: its
    lifetime.

    Raises Unauthorized: the user has been disabled or deleted meanwhile.
    Raises Forbidden: the user has no role, or none in this scope.
    """
    enabled = select(User.id).where(User.id == account.id, User.enabled).with_for_update()
    if session.scalar(enabled) is None:
        raise Unauthorized(f"User {account.name} is disabled.")
    found = roles.grants(connection_of(session), account.id, account.provided)
    project, role = None, None
    if scope is None and len(roles.scopes(found)) > 1:
        made, role = _without_scope(account, found, request_id), tokens.NO_ROLE
    else:
        mine = found if scope is None else _chosen(account, found, scope)
        made = _in_scope(account, found, mine, request_id)
        project = mine[0].project_id
    _, text = tokens.issue(
        session, account.id, project, name=tokens.SESSION, role=role, seconds=seconds
    )
    return made, text


def change_scope(
    session: Session, text: str, scope: str, request_id: str
) -> tuple[BrowserSession, str]:
    """
    Move a session to another scope; return it, and the new text of its token: the old one ends.

    Raises Unauthorized: there is no such session, or it has ended.
    Raises Forbidden: the user has no role in this scope.
    """
    connection = connection_of(session)
    token = authentication.token_of(connection, text)
    if token is None:
        raise Unauthorized("The session has ended.")
    found = roles.grants(connection, token.account.id)
    mine = _chosen(token.account, found, scope)
    renewed = tokens.move(session, text, mine[0].project_id)
    if renewed is None:
        raise Unauthorized("The token is no session, or another request has changed its scope.")
    return _in_scope(token.account, found, mine, request_id), renewed


def _chosen(account: Account, found: list[Grant], scope: str) -> list[Grant]:
    """
    Return the roles in a scope: `SYSTEM`, or the identifier or name of a project.

    Raises Forbidden: there are none.
    """
    mine = roles.in_system(found) if scope == SYSTEM else roles.in_project(found, scope)
    if not mine:
        where = "the system" if scope == SYSTEM else f"project {scope}"
        raise Forbidden(f"scope: user {account.name} has no role in {where}.")
    return mine


def _in_scope(
    account: Account, found: list[Grant], mine: list[Grant], request_id: str
) -> BrowserSession:
    """
    Return a session in the scope of `mine`.

    Raises Forbidden: the user has no role.
    """
    caller = authentication.caller_of(account, mine, None, request_id)
    return BrowserSession(caller, caller.project_name or SYSTEM, roles.scopes(found))


def _without_scope(account: Account, found: list[Grant], request_id: str) -> BrowserSession:
    caller = Caller(
        user_id=account.uuid, user_name=account.name, request_id=request_id, restricted=True
    )
    return BrowserSession(caller, None, roles.scopes(found))
