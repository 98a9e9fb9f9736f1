"""
Classify database errors: reason in one line, and whether the database or the statement is at fault.
"""

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.db import sqlite

RETRIED_SQLSTATES = {"40001", "40P01", "55P03"}  # serialization, deadlock, lock not available


#: SQLSTATE of a statement that exceeded its timeout, perhaps waiting for another transaction.
TOO_SLOW = "57014"


#: SQLSTATE, or prefix of SQLite's error name -> problem, as the end of a sentence "The database".
PROBLEMS = {
    "25006": "takes no writes",
    "53100": "is full",
    "53300": "has no connection left",
    TOO_SLOW: "was too slow",
    sqlite.BUSY: "is locked by another program",
    "SQLITE_FULL": "is full",
    "SQLITE_READONLY": "takes no writes",
}


def reason(error: BaseException) -> str:
    """First line of an error's text; of a database error, without the SQL statement."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def database_problem(error: SQLAlchemyError) -> str | None:
    """Problem of the database, as the end of a sentence "The database"; None for our own defect."""
    if isinstance(error, PoolTimeout):
        return "has no connection left"
    if not isinstance(error, DBAPIError):
        return None
    code = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None)
    for code_prefix, problem in PROBLEMS.items():
        if (code or "").startswith(code_prefix):
            return problem
    if code == sqlite.STATEMENT_ERROR:
        return None
    is_lost = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return "is out of reach" if is_lost else None


def is_unavailable(error: SQLAlchemyError) -> bool:
    """Whether the database is unavailable for all transactions, and not in conflict with one."""
    code = getattr(getattr(error, "orig", None), "sqlstate", None)
    return database_problem(error) is not None and code not in {*RETRIED_SQLSTATES, TOO_SLOW}
