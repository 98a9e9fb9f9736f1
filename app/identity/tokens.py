"""
API tokens: creation, list, revocation, and the record of their use.

A token is 256 random bits, so its digest, which is all that the database has, needs no slow hash:
it cannot be guessed. That of a browser's session is keyed, so that a writer of the database who
lacks the master key makes no session; other tokens are made by the owner of the tables alone.
"""

import hashlib
import re
import secrets
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from app.db.clock import after, age, now
from app.db.sealing import keyring_of
from app.db.transactions import connection_of
from app.errors import Invalid, NotFound
from app.identity import accounts
from app.identity.accounts import SYSTEM
from app.identity.caller import Role
from app.identity.roles import Scope
from app.models import ApiToken, Project, User

#: Texts that can be tokens; others are refused without a query. The prefix is for secret scanners.
PATTERN = re.compile("ingot_[A-Za-z0-9_-]{43}")
#: Most days until a token expires.
LONGEST_DAYS = 3650
#: Name of the tokens of browsers' sessions, which other tokens cannot have: their scope is changed.
SESSION = "session"
#: Role of a session whose user has not chosen a scope: it has no rights.
NO_ROLE = "none"
#: Seconds between two records of a token's use.
USE_RECORDED = 60


def digest(text: str) -> str:
    """Return the digest of a token, that is no session, by which the database finds it."""
    return hashlib.sha256(text.encode()).hexdigest()


def session_digest(connection: Connection, text: str) -> str:
    """Return the digest of a session; without data keys it is that of a token."""
    keyed = keyring_of(connection.dialect).proof(f"session {text}".encode())
    return keyed or digest(text)


#: Condition of the tokens that are neither revoked nor expired.
IS_VALID = and_(
    ApiToken.revoked_at.is_(None), or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > now())
)

#: Condition of the token whose digests are the parameters `of_token` and `of_session`.
HAS_DIGEST = or_(
    and_(ApiToken.digest == bindparam("of_token"), func.coalesce(ApiToken.name, "") != SESSION),
    and_(ApiToken.digest == bindparam("of_session"), ApiToken.name == SESSION),
)


def digests(connection: Connection, text: str) -> dict[str, str]:
    """Return the parameters of `HAS_DIGEST`."""
    return {"of_token": digest(text), "of_session": session_digest(connection, text)}


def create(
    session: Session, user: str, scope: Scope, *, name: str | None, role: Role | None, days: int
) -> tuple[str, str]:
    """
    Create a token of a user; return its UUID, and its text, which cannot be read again.

    role: limits the roles of the user in the scope; all of them by default. days: until it
    expires; 0 for never.

    Raises Invalid: a value is malformed, or out of its range.
    Raises NotFound: user or project.
    """
    if not 0 <= days <= LONGEST_DAYS:
        raise Invalid(f"--days: expected 0 (no expiry) to {LONGEST_DAYS}")
    if name is not None and not accounts.is_name(name):
        raise Invalid(f"--name: expected 1 to {accounts.LONGEST_NAME} printable characters")
    if name == SESSION:
        raise Invalid(f"--name: {SESSION} is the name of browsers' sessions")
    project = scope.project_id(session)  # locked before the user, as in `roles`
    owner = accounts.find(session, User, user).id
    limit = role and role.value
    return issue(session, owner, project, name=name, role=limit, seconds=days * 86400)


def issue(
    session: Session,
    user: int,
    project: int | None,
    *,
    name: str | None,
    role: str | None = None,
    seconds: float,
) -> tuple[str, str]:
    """
    Insert a token; return its UUID and its text.

    user, project: primary keys; without a project the scope is the system. seconds: its lifetime;
    with 0 it does not expire.
    """
    text, uuid = _new_text(), str(uuid4())
    row = ApiToken(
        uuid=uuid,
        digest=session_digest(connection_of(session), text) if name == SESSION else digest(text),
        name=name,
        user_id=user,
        project_id=project,
        role=role,
        created_at=now(),
        expires_at=after(seconds) if seconds else None,
    )
    session.add(row)
    return uuid, text


def listed(session: Session, user: str | None) -> Iterator[dict[str, Any]]:
    """
    Yield the tokens of a user, or of all users (None), without their texts.

    Raises NotFound.
    """
    query = (
        select(ApiToken, User.name, Project.name)
        .join(User, ApiToken.user_id == User.id)
        .outerjoin(Project, ApiToken.project_id == Project.id)
        .order_by(User.name, ApiToken.id)
    )
    if user is not None:
        query = query.where(ApiToken.user_id == accounts.find(session, User, user).id)
    for token, owner, project in session.execute(query):
        yield {
            "uuid": token.uuid,
            "name": token.name,
            "user": owner,
            "scope": project or SYSTEM,
            "role": token.role,
            "created_at": token.created_at.isoformat(),
            **{
                field: moment and moment.isoformat()
                for field in ("expires_at", "used_at", "revoked_at")
                for moment in (getattr(token, field),)
            },
        }


def revoke(session: Session, uuid: str) -> None:
    """
    Revoke a token; a revoked one stays so.

    Raises NotFound.
    """
    token = session.scalar(select(ApiToken).filter_by(uuid=uuid).with_for_update())
    if token is None:
        raise NotFound("token", uuid)
    if token.revoked_at is None:
        token.revoked_at = now()


def move(session: Session, text: str, project: int | None) -> str | None:
    """
    Move the session of a text to another scope; return its new text, the old one ends.

    project: primary key, or None for the system. Returns None if there is no such session, or it
    has ended.
    """
    new_text = _new_text()
    connection = connection_of(session)
    of_text = ApiToken.digest == session_digest(connection, text)
    statement = update(ApiToken).where(of_text, ApiToken.name == SESSION, IS_VALID)
    values = {"digest": session_digest(connection, new_text), "project_id": project, "role": None}
    moved = session.scalar(statement.values(values).returning(ApiToken.id))
    return None if moved is None else new_text


def end_session(session: Session, text: str) -> None:
    """End the session of a text, if there is one; another token stays."""
    _end(session, ApiToken.digest == session_digest(connection_of(session), text))


def end_sessions(session: Session, user: int) -> int:
    """End all sessions of a user (primary key), and return their number."""
    return _end(session, ApiToken.user_id == user)


def _end(session: Session, which: ColumnElement[bool]) -> int:
    sessions = update(ApiToken).where(which, ApiToken.name == SESSION, IS_VALID)
    statement = sessions.values(revoked_at=now())
    return len(session.scalars(statement.returning(ApiToken.id)).all())


def _new_text() -> str:
    return f"ingot_{secrets.token_urlsafe(32)}"


def end(session: Session, text: str) -> None:
    """Revoke the token of a text, if there is one."""
    valid = ApiToken.revoked_at.is_(None)
    statement = update(ApiToken).where(HAS_DIGEST, valid).values(revoked_at=now())
    options = {"synchronize_session": False}
    session.execute(statement, digests(connection_of(session), text), execution_options=options)


#: Condition of a use that is due to be recorded.
USE_IS_OLD = or_(ApiToken.used_at.is_(None), age(ApiToken.used_at) >= USE_RECORDED)


def record_use(connection: Connection, token: int) -> None:
    """Record that a token (primary key) is used now, unless that was done within a minute."""
    connection.execute(
        update(ApiToken).where(ApiToken.id == token, USE_IS_OLD).values(used_at=now())
    )
