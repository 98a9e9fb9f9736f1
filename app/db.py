"""
The database: engine, transactions, and the database's own clock.

All times are naive UTC. Whatever decides about liveness or a deadline compares them with `now()`,
the database's clock, never with the clock of the host that asks.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, DateTime, Engine, Float, create_engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import FunctionElement

from app import sqlite

T = TypeVar("T")
AFTER_COMMIT = "after_commit"
MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"
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


class now(FunctionElement[datetime]):  # noqa: N801 - reads as SQL
    """The time of the database's clock when the statement runs."""

    type = DateTime()
    inherit_cache = True


class after(FunctionElement[datetime]):  # noqa: N801 - reads as SQL
    """`now()` plus a number of seconds."""

    type = DateTime()
    inherit_cache = True


class age(FunctionElement[float]):  # noqa: N801 - reads as SQL
    """Seconds between a time and `now()`."""

    type = Float()
    inherit_cache = True


#: SQLite's clock has milliseconds; the last digit keeps a time from being shown without a fraction.
_SQLITE_TIME = "%Y-%m-%d %H:%M:%f001"


@compiles(now, "sqlite")
def _now_sqlite(_element: now, _compiler: Any, **_kw: Any) -> str:
    return f"strftime('{_SQLITE_TIME}', 'now')"


@compiles(now, "postgresql")
def _now_postgresql(_element: now, _compiler: Any, **_kw: Any) -> str:
    return "(clock_timestamp() AT TIME ZONE 'utc')"


@compiles(after, "sqlite")
def _after_sqlite(element: after, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"strftime('{_SQLITE_TIME}', 'now', printf('%.6f seconds', {seconds}))"


@compiles(after, "postgresql")
def _after_postgresql(element: after, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"(clock_timestamp() AT TIME ZONE 'utc' + ({seconds}) * interval '1 second')"


@compiles(age, "sqlite")
def _age_sqlite(element: age, compiler: Any, **kw: Any) -> str:
    then = compiler.process(element.clauses, **kw)
    return f"((julianday('now') - julianday({then})) * 86400.0)"


@compiles(age, "postgresql")
def _age_postgresql(element: age, compiler: Any, **kw: Any) -> str:
    then = compiler.process(element.clauses, **kw)
    return f"extract(epoch FROM clock_timestamp() AT TIME ZONE 'utc' - {then})"


def utcnow() -> datetime:
    """This host's clock, for times that are only shown."""
    return datetime.now(UTC).replace(tzinfo=None)


def connect(
    url: str,
    *,
    max_pool_size: int = 5,
    max_overflow: int = 5,
    pool_timeout: float = 30,
    busy_timeout: float = 10,
    connect_timeout: float = 5,
    statement_timeout: float = 15,
) -> Engine:
    """
    An engine for a SQLite or PostgreSQL URL, set up as the service needs it.

    The limits are those of the group [database]; of a SQLite file, only `busy_timeout` matters.
    """
    options: dict[str, Any] = {
        "json_serializer": lambda value: orjson.dumps(value).decode(),
        "json_deserializer": orjson.loads,
    }
    if url.startswith("sqlite"):
        engine = create_engine(url, connect_args={"timeout": busy_timeout}, **options)
        sqlite.prepare(engine, busy_timeout)
        return engine
    from app import postgresql  # needs psycopg, which SQLite does not

    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://", 1),
        pool_size=max_pool_size,
        max_overflow=max_overflow,
        pool_timeout=pool_timeout,
        pool_pre_ping=True,
        **options,
    )
    postgresql.never_wait_for_ever(engine, connect_timeout, statement_timeout)
    return engine


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


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A writing transaction without a session: half the cost, for the few hottest statements."""
    with sqlite.gate(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """
    A writing transaction; what `call_after_commit` was given runs once it is committed.

    Nothing is flushed before the end, or before the caller says so.

    The caller may be repeated by `retrying`, so it must have no effect outside the database.
    """
    with (
        writing(engine) as connection,
        Session(connection, expire_on_commit=False, autoflush=False) as session,
    ):
        yield session
        session.flush()
    for call in session.info.pop(AFTER_COMMIT, ()):
        call()


@contextmanager
def looking(engine: Engine) -> Iterator[Connection]:
    """
    A transaction that only reads, without a session: for what is asked for all the time.

    On PostgreSQL each statement is a transaction: under READ COMMITTED each has a snapshot of its
    own anyway, and a BEGIN and a ROLLBACK would be two more round trips.
    """
    on_postgresql = engine.dialect.name == "postgresql"
    level = {"isolation_level": "AUTOCOMMIT"} if on_postgresql else {}
    with engine.connect().execution_options(writes=False, **level) as connection:
        connection.begin()  # and never committed: there is nothing to lose
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A transaction that only reads."""
    with looking(engine) as connection, Session(connection, expire_on_commit=False) as session:
        yield session


def call_after_commit(session: Session, call: Callable[[], None]) -> None:
    """Run `call` when the transaction of `session` is committed; never if it is rolled back."""
    session.info.setdefault(AFTER_COMMIT, []).append(call)


def retrying(work: Callable[[], T], attempts: int = 5) -> T:
    """
    Run a transaction, again when the database gave up on it for another one's sake.

    Only a deadlock, a serialization failure or a lost connection is tried again.
    """
    for attempt in range(1, attempts + 1):
        try:
            return work()
        except DBAPIError as error:
            if attempt == attempts or not _worth_retrying(error):
                raise
            time.sleep(0.05 * 2**attempt * random.random())  # noqa: S311 - spreads retries
    raise AssertionError("unreachable")


def _worth_retrying(error: DBAPIError) -> bool:
    if error.connection_invalidated:
        return True
    return getattr(error.orig, "sqlstate", None) in RETRIED_SQLSTATES


def is_away(error: SQLAlchemyError) -> bool:
    """Whether all transactions are to fail just now, not only this one for another one's sake."""
    code = getattr(getattr(error, "orig", None), "sqlstate", None)
    return trouble(error) is not None and code not in {*RETRIED_SQLSTATES, TOO_SLOW}


def upgrade(url: str) -> None:
    """
    Bring the schema to the newest revision; two that do so at once wait for each other.

    Raises alembic's CommandError when the database knows revisions that this code does not.
    """
    from alembic import command  # costs start-up time and is needed once
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url
    command.upgrade(config, "head")
