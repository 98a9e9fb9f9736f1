"""
The administrator of a new service with local users, with a random password.

On a terminal the password is printed once, after the commit. Without a terminal, where output is
kept in a log, it is written to a private file before the commit, so that a crash cannot lose it.
"""

import secrets
import sys
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from app.config.settings import Settings
from app.db import connections
from app.db.diagnosis import reason
from app.identity import first_admin, passwords
from app.observe import log
from workers.supervisor.location import StartError

logger = log.get(__name__)

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
        if not first_admin.is_missing(engine):
            return
        has_terminal = sys.stdout.isatty()
        if not has_terminal:
            path.touch(mode=0o600)
            path.write_text(f"{password}\n")
        if not first_admin.create(engine, passwords.hashed(password)):
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
        print(f"user {first_admin.NAME}, password {password}", flush=True)  # noqa: T201 - once
    logger.info("admin.created", user=first_admin.NAME, file=None if has_terminal else str(path))
