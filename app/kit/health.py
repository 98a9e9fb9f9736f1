"""
Health of the service: database, conductors and beat, for `GET /healthcheck`.
"""

import threading
import time
from dataclasses import dataclass

from sqlalchemy import false, func, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.db.diagnosis import database_problem
from app.kit import conductors
from app.models import Conductor
from app.runtime import Runtime, runtime_of

OK = "OK"
#: Seconds for which the result of a write to the database is kept.
WRITE_KEPT = 5.0
_writing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Part:
    """Health of one part of the service."""

    part: str  # its name
    reason: str  # OK, or the problem in a few words
    details: str  # a sentence for operators

    @property
    def is_healthy(self) -> bool:
        return self.reason == OK


def examine(session: Session) -> list[Part]:
    """Check database, conductors and beat. Without names: callers need no authentication."""
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    known = session.scalar(select(func.count()).select_from(Conductor)) or 0
    alive, lost = len(conductors.alive(session, timeout)), len(conductors.lost(session, timeout))
    impeded = len(conductors.impeded(session, timeout))
    leads = conductors.beat_leads(session)
    return [
        _database(runtime_of(session), suspected=not (alive and leads)),
        Part(
            "conductors",
            OK if alive else "no conductor is alive",
            f"{alive} of {known} alive, {lost} without a heartbeat"
            + (f", {impeded} with an impediment" if impeded else ""),
        ),
        Part("beat", OK if leads else "no beat leads", "it schedules periodic tasks"),
    ]


def _database(runtime: Runtime, *, suspected: bool) -> Part:
    """
    Return the health of the database.

    suspected: no heartbeat is recent. Then a write is tried: conductors and beat that cannot write
    their heartbeats appear dead, and the database is the cause.
    """
    problem = write_problem(runtime) if suspected else None
    if problem is None:
        return Part("database", OK, "it answers")
    return Part(
        "database", f"it {problem}", "it answers reads; heartbeats of conductors and beat are lost"
    )


def write_problem(runtime: Runtime) -> str | None:
    """
    Try to write; return the problem as the end of a sentence "The database", None: none.

    For a service whose heartbeats are old: conductors that cannot write theirs appear dead.
    """
    if _writing.acquire(blocking=False):  # one thread tries, and may wait for the lock of SQLite
        try:
            tried, _ = runtime.cache.get("write problem", (None, None))
            if tried is None or time.monotonic() - tried > WRITE_KEPT:
                found = _tried_write(runtime)
                runtime.cache["write problem"] = (time.monotonic(), found)
        finally:
            _writing.release()
    problem: str | None = runtime.cache.get("write problem", (None, None))[1]
    return problem


def _tried_write(runtime: Runtime) -> str | None:
    try:
        with runtime.write_connection() as connection:
            connection.execute(update(Conductor).where(false()).values(online=Conductor.online))
    except SQLAlchemyError as error:
        return database_problem(error) or "refuses writes"
    return None
