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
    scope: str | None  # name of a project, or `SYSTEM`; None until it is chosen
    scopes: list[str]  # all scopes with a role of the user


def of(connection: Connection, text: str, request_id: str) -> BrowserSession | None:
    """Return the session of a text, unless it has ended, or the user has no role in its scope."""
    token = authentication.token_of(connection, text)
    if token is None:
        return None
    grants = roles.grants(connection, token.account.id)
    if token.role == tokens.NO_ROLE:
        return _without_scope(token.account, grants, request_id)
    scope_grants = [grant for grant in grants if grant.project_id == token.project_id]
    return _in_scope(token.account, grants, scope_grants, request_id) if scope_grants else None


def create(
    session: Session, account: Account, scope: str | None, seconds: float, request_id: str
) -> tuple[BrowserSession, str]:
    """
    Create a session; return it, and the text of its token, which cannot be read again.

    scope: see `_chosen`; by default the user's only one, or one that is chosen later. seconds:
    its lifetime.

    Raises Unauthorized: the user has been disabled or deleted meanwhile.
    Raises Forbidden: the user has no role, or none in this scope.
    """
    enabled = select(User.id).where(User.id == account.id, User.enabled).with_for_update()
    if session.scalar(enabled) is None:
        raise Unauthorized(f"User {account.name} is disabled.")
    grants = roles.grants(connection_of(session), account.id, account.provided)
    project, role = None, None
    if scope is None and len(roles.scopes(grants)) > 1:
        browser_session, role = _without_scope(account, grants, request_id), tokens.NO_ROLE
    else:
        scope_grants = grants if scope is None else _chosen(account, grants, scope)
        browser_session = _in_scope(account, grants, scope_grants, request_id)
        project = scope_grants[0].project_id
    _, text = tokens.issue(
        session, account.id, project, name=tokens.SESSION, role=role, seconds=seconds
    )
    return browser_session, text


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
    grants = roles.grants(connection, token.account.id)
    scope_grants = _chosen(token.account, grants, scope)
    new_text = tokens.move(session, text, scope_grants[0].project_id)
    if new_text is None:
        raise Unauthorized("The token is no session, or another request has changed its scope.")
    return _in_scope(token.account, grants, scope_grants, request_id), new_text


def _chosen(account: Account, grants: list[Grant], scope: str) -> list[Grant]:
    """
    Return the roles in a scope: `SYSTEM`, or the identifier or name of a project.

    Raises Forbidden: there are none.
    """
    scope_grants = roles.in_system(grants) if scope == SYSTEM else roles.in_project(grants, scope)
    if not scope_grants:
        scope_name = "the system" if scope == SYSTEM else f"project {scope}"
        raise Forbidden(f"scope: user {account.name} has no role in {scope_name}.")
    return scope_grants


def _in_scope(
    account: Account, grants: list[Grant], scope_grants: list[Grant], request_id: str
) -> BrowserSession:
    """
    Return a session in the scope of `scope_grants`.

    Raises Forbidden: the user has no role.
    """
    caller = authentication.caller_of(account, scope_grants, None, request_id)
    return BrowserSession(caller, caller.project_name or SYSTEM, roles.scopes(grants))


def _without_scope(account: Account, grants: list[Grant], request_id: str) -> BrowserSession:
    caller = Caller(
        user_id=account.uuid, user_name=account.name, request_id=request_id, restricted=True
    )
    return BrowserSession(caller, None, roles.scopes(grants))
