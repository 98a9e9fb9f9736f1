"""
The database: engine, transactions, and the database's own clock.

All times are naive UTC. Whatever decides about liveness or a deadline compares them with `now()`,
the database's clock, never with the clock of the host that asks.
"""

import fcntl
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, DateTime, Engine, Float, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import FunctionElement

T = TypeVar("T")
AFTER_COMMIT = "after_commit"
MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"
RETRIED_SQLSTATES = {"40001", "40P01", "55P03"}  # serialization, deadlock, lock not available


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
    return f"strftime('{_SQLITE_TIME}', 'now', ({seconds}) || ' seconds')"


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


def connect(url: str, *, pool_size: int = 5) -> Engine:
    """An engine for a SQLite or PostgreSQL URL, set up as the service needs it."""
    options: dict[str, Any] = {
        "json_serializer": lambda value: orjson.dumps(value).decode(),
        "json_deserializer": orjson.loads,
    }
    if url.startswith("sqlite"):
        engine = create_engine(url, connect_args={"timeout": 30}, **options)
        _GATES[engine] = _Gate(engine.url.database)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    return create_engine(
        url, pool_size=pool_size, max_overflow=pool_size, pool_pre_ping=True, **options
    )


class _Gate:
    """
    Writers of one SQLite file, one after the other, across threads and processes.

    SQLite itself lets waiting writers poll, which costs time and is unfair; here the kernel wakes
    the next one. A process that dies lets go. It is a matter of speed only: the database's own
    lock is what keeps writers apart.
    """

    def __init__(self, path: str | None) -> None:
        self._thread = threading.Lock()
        self._path = f"{path}.writer" if path and path != ":memory:" else None
        self._file: int | None = None
        self._pid = 0

    def __enter__(self) -> None:
        self._thread.acquire()
        if self._path is None:
            return
        if self._pid != os.getpid():  # a forked process needs a lock of its own
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            self._pid = os.getpid()
        assert self._file is not None
        fcntl.flock(self._file, fcntl.LOCK_EX)
        os.pwrite(self._file, f"{self._pid:<10}".encode(), 0)

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.pwrite(self._file, f"{0:<10}".encode(), 0)
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._thread.release()


def writer(url: str) -> int | None:
    """The pid of the process that is writing to a SQLite file just now, if any."""
    path = Path(f"{url.removeprefix('sqlite:///')}.writer")
    if not url.startswith("sqlite:///") or not path.exists():
        return None
    return int(path.read_text() or 0) or None


_GATES: "weakref.WeakKeyDictionary[Engine, _Gate]" = weakref.WeakKeyDictionary()


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    for pragma in (
        "busy_timeout=30000",
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Any) -> None:
    """A writer takes the write lock at once: a reader that turns writer could only fail."""
    writes = connection.get_execution_options().get("writes", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A writing transaction without a session: half the cost, for the few hottest statements."""
    with _GATES.get(engine, nullcontext()), engine.begin() as connection:
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
def reading(engine: Engine) -> Iterator[Session]:
    """A transaction that only reads."""
    with (
        engine.connect().execution_options(writes=False) as connection,
        Session(connection, expire_on_commit=False) as session,
    ):
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
