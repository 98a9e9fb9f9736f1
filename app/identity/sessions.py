"""Sessions of browsers: API tokens of one scope with a short life."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.transactions import connection_of
from app.errors import Unauthorized
from app.identity import callers, tokens
from app.identity.callers import Account
from app.kit.caller import Caller
from app.models import User

#: Name of the tokens.
NAME = "session"
#: Parameter that selects the scope.
PROJECT = "project"


def create(
    session: Session, account: Account, project: str | None, seconds: float, request_id: str
) -> tuple[Caller, str]:
    """
    Create a session; return its caller, and the text of its token, which cannot be read again.

    project: identifier or name; None: the scope is the system, if the user has a role there, else
    the user's only project. seconds: its lifetime.

    Raises Unauthorized: the user has been disabled or deleted meanwhile.
    Raises Invalid, Forbidden: see `callers.roles_in`.
    """
    enabled = select(User.id).where(User.id == account.id, User.enabled).with_for_update()
    if session.scalar(enabled) is None:
        raise Unauthorized(f"User {account.name} is disabled.")
    found = callers.roles_in(connection_of(session), account, project, PROJECT)
    caller = callers.caller_of(account, found, None, request_id)
    _, text = tokens.issue(session, account.id, found[0].project_id, name=NAME, seconds=seconds)
    return caller, text
