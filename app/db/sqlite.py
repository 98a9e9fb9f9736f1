"""
SQLite: one writer at a time, over threads and processes, each of which waits for its turn.
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
from typing import Any

from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DBAPIError, OperationalError

from app import log
from app.db.prepared import Prepared

logger = log.get(__name__)

#: How SQLite's names begin for: another has the lock.
BUSY = "SQLITE_BUSY"
#: Seconds for which nobody waits for a SQLite file that another program has kept locked.
LOCKED_PAUSE = 3.0


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
        if isinstance(error, DBAPIError) and _is_busy(error):
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
    error.sqlite_errorname = BUSY
    return OperationalError("BEGIN IMMEDIATE", None, error)


def _is_busy(error: DBAPIError) -> bool:
    return str(getattr(error.orig, "sqlite_errorname", "")).startswith(BUSY)


#: Where writers need not wait for each other.
_OPEN = nullcontext()
_GATES: "weakref.WeakKeyDictionary[Engine, _Gate]" = weakref.WeakKeyDictionary()


def gate(engine: Engine) -> AbstractContextManager[None]:
    """What a writing transaction passes; open where the database is none of SQLite's."""
    return _GATES.get(engine, _OPEN)


def prepare(engine: Engine, busy_timeout: float) -> None:
    """Set up an engine of SQLite. busy_timeout: seconds that a writer waits for its turn."""
    _GATES[engine] = _Gate(engine.url.database, busy_timeout)
    event.listen(engine, "connect", _connected)
    event.listen(engine, "begin", _begin)


def _connected(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


_BEGIN_WRITING, _BEGIN_READING = Prepared(text("BEGIN IMMEDIATE")), Prepared(text("BEGIN"))


def _begin(connection: Any) -> None:
    """A writer takes the write lock at once: a reader that turns writer could only fail."""
    writes = connection.get_execution_options().get("writes", True)
    (_BEGIN_WRITING if writes else _BEGIN_READING).first(connection, {})


def writer(url: str) -> int | None:
    """The pid of the process that is writing to a SQLite file just now, if any."""
    path = Path(f"{url.removeprefix('sqlite:///')}.writer")
    if not url.startswith("sqlite:///") or not path.exists():
        return None
    return int(path.read_text()[:10] or 0) or None


def free_database(url: str, patience: float = 0.5) -> bool:
    """
    Let a process that was stopped (SIGSTOP) while it wrote to SQLite finish its transaction, and
    stop it again: it would keep all others from writing. Whether there was one.
    """
    pid = writer(url)
    if pid is None or not _is_stopped(pid):
        return False
    logger.warning("database.held_by_a_stopped_process", pid=pid)
    end = time.monotonic() + patience
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
