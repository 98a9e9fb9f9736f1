"""
Database errors: their reason in one line, and whether the database or the statement is at fault.
"""

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.db import sqlite

RETRIED_SQLSTATES = {"40001", "40P01", "55P03"}  # serialization, deadlock, lock not available


#: A statement took too long: it may be that it waited for another transaction.
TOO_SLOW = "57014"


#: What is wrong with a database, by SQLSTATE, or by how SQLite's name of the error begins.
TROUBLES = {
    "25006": "takes no writes",
    "53100": "is full",
    "53300": "has no connection left",
    TOO_SLOW: "was too slow",
    sqlite.BUSY: "is locked by another program",
    "SQLITE_FULL": "is full",
    "SQLITE_READONLY": "takes no writes",
}


def reason(error: BaseException) -> str:
    """The first line of what is wrong; of a database's error, without the statement."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def trouble(error: SQLAlchemyError) -> str | None:
    """What is wrong with the database, to be said after "The database"; None: it is our defect."""
    if isinstance(error, PoolTimeout):
        return "has no connection left"
    if not isinstance(error, DBAPIError):
        return None
    code = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None)
    for known, told in TROUBLES.items():
        if (code or "").startswith(known):
            return told
    lost = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return "is out of reach" if lost else None


def is_away(error: SQLAlchemyError) -> bool:
    """Whether all transactions are to fail just now, not only this one for another one's sake."""
    code = getattr(getattr(error, "orig", None), "sqlstate", None)
    return trouble(error) is not None and code not in {*RETRIED_SQLSTATES, TOO_SLOW}
