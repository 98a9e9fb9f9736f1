"""
SQLite engines: setup, and a lock that lets writers of all threads and processes wait in order.
"""

import fcntl
import os
import signal
import sqlite3
import threading
import time
import weakref
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from app.db.prepared import Prepared
from app.observe import log

logger = log.get(__name__)

#: Prefix of SQLite's error names that mean: another connection has the lock.
BUSY = "SQLITE_BUSY"
#: SQLite's error name of a statement that is wrong, such as one of a table that does not exist.
STATEMENT_ERROR = "SQLITE_ERROR"
#: Seconds during which writers fail at once after another program has kept the file locked.
LOCKED_PAUSE = 3.0


class _WriterLock:
    """
    Lock for the writers of one SQLite file, across threads and processes.

    SQLite lets waiting writers poll, which costs time and is unfair; with this lock the kernel
    wakes the next one. A process that dies releases it. For transactions it only saves time:
    correctness rests on the lock of the database itself. Upgrades of the schema, which are several
    transactions, hold it from the first connection to the end.

    The lock file contains the pid of the writer, and the time until which writers fail at once:
    set after another program has kept the database locked for the whole `timeout`, so that the
    other writers do not wait as long.
    """

    def __init__(self, path: str | None, timeout: float) -> None:
        self._thread = threading.Lock()
        self._path = f"{path}.writer" if path and path != ":memory:" else None
        self._file: int | None = None
        self._pid = 0
        self._timeout = timeout

    def __enter__(self) -> None:
        if not self._thread.acquire(timeout=self._timeout):
            raise _locked()
        try:
            self._lock_file()
        except BaseException:
            self._release()
            raise

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, DBAPIError) and _is_busy(error):
            self._write(f"{time.monotonic() + LOCKED_PAUSE:<20.3f}", 10)
        self._release()

    def _lock_file(self) -> None:
        if self._path is None:
            return
        with suppress(OSError):  # without the file, SQLite's lock is enough
            if self._pid != os.getpid():  # a forked process must open the file itself
                self._file = None
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
                self._pid = os.getpid()
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX)
                if time.monotonic() < float(os.pread(self._file, 20, 10) or 0):
                    raise _locked()
        self._write(f"{self._pid:<10}", 0)

    def _release(self) -> None:
        self._write(f"{0:<10}", 0)
        if self._file is not None:
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
        self._thread.release()

    def _write(self, text: str, offset: int) -> None:
        if self._file is not None:
            with suppress(OSError):  # the file system may be full
                os.pwrite(self._file, text.encode(), offset)


def _locked() -> OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorname = BUSY
    return OperationalError("BEGIN IMMEDIATE", None, error)


def _is_busy(error: DBAPIError) -> bool:
    return str(getattr(error.orig, "sqlite_errorname", "")).startswith(BUSY)


_NO_LOCK = nullcontext()
_LOCKS: "weakref.WeakKeyDictionary[Engine, _WriterLock]" = weakref.WeakKeyDictionary()


def writer_lock(engine: Engine) -> AbstractContextManager[None]:
    """Return the lock that a writing transaction must hold; no lock if the engine is not SQLite."""
    return _LOCKS.get(engine, _NO_LOCK)


def prepare(engine: Engine, busy_timeout: float) -> None:
    """Set up a SQLite engine. A writer waits at most `busy_timeout` seconds for the lock."""
    _LOCKS[engine] = _WriterLock(engine.url.database, busy_timeout)
    event.listen(engine, "connect", _connected)
    event.listen(engine, "begin", _begin)


def _connected(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # `_begin` sends BEGIN, not the sqlite3 module
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


_BEGIN_WRITING, _BEGIN_READING = Prepared(text("BEGIN IMMEDIATE")), Prepared(text("BEGIN"))


def _begin(connection: Connection) -> None:
    """
    Begin a transaction; a writing one takes the write lock at once.

    A reading transaction that starts to write fails if another one has written meanwhile.
    """
    writes = connection.get_execution_options().get("writes", True)
    (_BEGIN_WRITING if writes else _BEGIN_READING).count(connection, {})


def writer(url: str) -> int | None:
    """Return the pid of the process that holds the writer lock of a SQLite file, if any."""
    path = Path(f"{url.removeprefix('sqlite:///')}.writer")
    if not url.startswith("sqlite:///") or not path.exists():
        return None
    return int(path.read_text()[:10] or 0) or None


def release_stopped_writer(url: str, timeout: float = 0.5) -> bool:
    """
    Release the lock of a process that was stopped (SIGSTOP) while it wrote to SQLite.

    The process may run until the end of its transaction, at most `timeout` seconds, and is stopped
    again. Returns whether there was such a process.
    """
    pid = writer(url)
    if pid is None or not _is_stopped(pid):
        return False
    logger.warning("database.held_by_a_stopped_process", pid=pid)
    end = time.monotonic() + timeout
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
        while writer(url) == pid and time.monotonic() < end:
            time.sleep(0.0005)
        os.kill(pid, signal.SIGSTOP)
    return True


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
