"""
The administrator of a new service with local users, with a random password.

On a terminal the password is printed once, after the commit. Without a terminal, where output is
kept in a log, it is written to a private file before the commit, so that a crash cannot lose it.
"""

import secrets
import sys
from pathlib import Path

from sqlalchemy import Engine, select
from sqlalchemy.exc import SQLAlchemyError

from app.config.settings import Settings
from app.db import connections, transactions
from app.db.diagnosis import reason
from app.errors import AlreadyExists
from app.identity import accounts, passwords, roles
from app.identity.caller import Role
from app.identity.roles import Holder, Scope
from app.models import User
from app.observe import log
from workers.supervisor.location import StartError

logger = log.get(__name__)

NAME = "admin"
#: File in the data directory.
PASSWORD = "admin-password"


def ensure(settings: Settings) -> None:
    """
    Create the administrator if there are no users.

    Raises StartError: the database or the data directory refuses.
    """
    engine = connections.connect(settings.database.connection, **settings.database.limits)
    path = Path(settings.default.data_dir, PASSWORD)
    password = secrets.token_urlsafe(18)
    try:
        if not _is_missing(engine):
            return
        has_terminal = sys.stdout.isatty()
        if not has_terminal:
            path.touch(mode=0o600)
            path.write_text(f"{password}\n")
        if not create(engine, passwords.hashed(password)):
            if not has_terminal:
                path.unlink()
            return
    except SQLAlchemyError as error:
        raise StartError(f"database: {reason(error)}") from None
    except OSError as error:
        raise StartError(f"{path}: {error.strerror}") from None
    finally:
        engine.dispose()
    if has_terminal:
        print(f"user {NAME}, password {password}", flush=True)  # noqa: T201 - once
    logger.info("admin.created", user=NAME, file=None if has_terminal else str(path))


def _is_missing(engine: Engine) -> bool:
    """Whether there are no users at all."""
    with transactions.reading(engine) as session:
        return session.scalar(select(User.id).limit(1)) is None


def create(engine: Engine, password_hash: str) -> bool:
    """
    Create the user `NAME` with the role admin in the system; False: there are users already.

    Of several processes at the same time, one creates it: its name is unique.
    """
    try:
        with transactions.transaction(engine) as session:
            if session.scalar(select(User.id).limit(1)) is not None:
                return False
            accounts.create_user(session, NAME, password_hash)
            roles.grant(session, Role.ADMIN, Holder(user=NAME), Scope(system=True))
    except AlreadyExists:
        return False
    return True
