"""
The database: engine, transactions, and the database's own clock.

All times are naive UTC. Whatever decides about liveness or a deadline compares them with `now()`,
the database's clock, never with the clock of the host that asks.
"""

import fcntl
import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, DateTime, Engine, Float, create_engine, event, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import FunctionElement

from app.prepared import Prepared
from app.reach import Reach

T = TypeVar("T")
AFTER_COMMIT = "after_commit"
MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"
RETRIED_SQLSTATES = {"40001", "40P01", "55P03"}  # serialization, deadlock, lock not available
#: A statement took too long: it may be that it waited for another transaction.
TOO_SLOW = "57014"
#: A transaction that is left open for so many seconds is the server's to end: it has locks.
IDLE_IN_TRANSACTION = 10
#: Seconds for which nobody waits for a SQLite file that another program has kept locked.
LOCKED_PAUSE = 3.0
#: How the log tells of an outage.
OUTAGE = ("database.unreachable", "database.reached_again")
#: How a server, or a pooler before it, says to who connects that it has too many connections. The
#: SQLSTATE is lost there.
CROWDED = ("too many clients", "too many connections", "slots are reserved", "no more connections")
#: What is wrong with a database, by SQLSTATE, or by how SQLite's name of the error begins.
TROUBLES = {
    "25006": "takes no writes",
    "53100": "is full",
    "53300": "has no connection left",
    TOO_SLOW: "was too slow",
    "SQLITE_BUSY": "is locked by another program",
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
        _GATES[engine] = _Gate(engine.url.database, busy_timeout)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://", 1),
        pool_size=max_pool_size,
        max_overflow=max_overflow,
        pool_timeout=pool_timeout,
        pool_pre_ping=True,
        **options,
    )
    _never_wait_for_ever(engine, connect_timeout, statement_timeout)
    return engine


def _never_wait_for_ever(engine: Engine, connect_timeout: float, statement_timeout: float) -> None:
    """Whatever becomes of a PostgreSQL server or of the way to it, its clients are told in time."""
    import psycopg  # not needed for SQLite

    class Patient(psycopg.Connection[Any]):
        """The server gives up a statement in time; if it is silent, then so is this end."""

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            if statement_timeout:
                timeout = timeout or statement_timeout + 1
            try:
                return super().wait(gen, interval, timeout)
            except psycopg.errors._WaitTimeout:
                self.close()
                raise psycopg.OperationalError("the server does not answer") from None

    reach = Reach(OUTAGE, (psycopg.Error,), psycopg.OperationalError)
    limits = {
        "statement_timeout": statement_timeout,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION if statement_timeout else 0,
    }
    limits_sql = "; ".join(f"SET {name} = {int(value * 1000)}" for name, value in limits.items())
    patience = {
        "connect_timeout": max(int(connect_timeout), 1),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": int(statement_timeout * 1000),
    }

    def reached(
        _dialect: Any, _record: Any, arguments: list[Any], named: dict[str, Any]
    ) -> psycopg.Connection[Any]:
        with reach.trying():
            try:
                connection = Patient.connect(*arguments, **patience | named)
            except psycopg.OperationalError as error:
                if any(words in str(error) for words in CROWDED):
                    raise psycopg.errors.TooManyConnections(str(error)) from None
                raise
            connection.execute(limits_sql)
            connection.commit()
        return connection

    event.listen(engine, "do_connect", reached)
    event.listen(engine, "handle_error", _look_for_another)


def _look_for_another(context: Any) -> None:
    """A server that takes no writes may not be the one any more that does: connect anew."""
    if getattr(context.original_exception, "sqlstate", None) == "25006":
        context.is_disconnect = True


def reason(error: SQLAlchemyError) -> str:
    """The first line of what the database says, without the statement."""
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


class _Gate:
    """
    Writers of one SQLite file, one after the other, across threads and processes.

    SQLite itself lets waiting writers poll, which costs time and is unfair; here the kernel wakes
    the next one. A process that dies lets go. It is a matter of speed only: the database's own
    lock is what keeps writers apart.

    The gate's file says who writes, and until when nobody is to wait for the database's lock: who
    has found it kept by another program for all of `patience` seconds spares the others that.
    """

    def __init__(self, path: str | None, patience: float) -> None:
        self._thread = threading.Lock()
        self._path = f"{path}.writer" if path and path != ":memory:" else None
        self._file: int | None = None
        self._pid = 0
        self._patience = patience

    def __enter__(self) -> None:
        if not self._thread.acquire(timeout=self._patience):
            raise _locked()
        try:
            self._pass()
        except BaseException:
            self._leave()
            raise

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, DBAPIError) and trouble(error) == TROUBLES["SQLITE_BUSY"]:
            self._note(f"{time.monotonic() + LOCKED_PAUSE:<20.3f}", 10)
        self._leave()

    def _pass(self) -> None:
        if self._path is None:
            return
        with suppress(OSError):  # then without: see above
            if self._pid != os.getpid():  # a forked process needs a lock of its own
                self._file = None
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
                self._pid = os.getpid()
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX)
                if time.monotonic() < float(os.pread(self._file, 20, 10) or 0):
                    raise _locked()
        self._note(f"{self._pid:<10}", 0)

    def _leave(self) -> None:
        self._note(f"{0:<10}", 0)
        if self._file is not None:
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
        self._thread.release()

    def _note(self, text: str, offset: int) -> None:
        if self._file is not None:
            with suppress(OSError):  # the file system may be full
                os.pwrite(self._file, text.encode(), offset)


def _locked() -> OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorname = "SQLITE_BUSY"
    return OperationalError("BEGIN IMMEDIATE", None, error)


def writer(url: str) -> int | None:
    """The pid of the process that is writing to a SQLite file just now, if any."""
    path = Path(f"{url.removeprefix('sqlite:///')}.writer")
    if not url.startswith("sqlite:///") or not path.exists():
        return None
    return int(path.read_text()[:10] or 0) or None


#: Where writers need not wait for each other.
_OPEN = nullcontext()
_GATES: "weakref.WeakKeyDictionary[Engine, _Gate]" = weakref.WeakKeyDictionary()


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


_BEGIN_WRITING, _BEGIN_READING = Prepared(text("BEGIN IMMEDIATE")), Prepared(text("BEGIN"))


def _begin_sqlite(connection: Any) -> None:
    """A writer takes the write lock at once: a reader that turns writer could only fail."""
    writes = connection.get_execution_options().get("writes", True)
    (_BEGIN_WRITING if writes else _BEGIN_READING).first(connection, {})


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A writing transaction without a session: half the cost, for the few hottest statements."""
    with _GATES.get(engine, _OPEN), engine.connect() as connection, connection.begin():
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
    """A transaction that only reads, without a session: for what is asked for all the time."""
    with engine.connect().execution_options(writes=False) as connection:
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
