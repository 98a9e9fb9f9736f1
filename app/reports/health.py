"""
Health of the service for `GET /healthcheck`: not that its processes live, but that they work.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import false, func, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.cluster import conductors, periodic_passes
from app.cluster.periodic_passes import Pass
from app.db.diagnosis import database_problem
from app.db.transactions import connection_of
from app.models import Conductor
from app.reports import fleet_counts, stalled_operations
from app.reports.listeners import Listener, hangs, listeners
from app.runtime import Runtime, runtime_of

OK = "OK"
#: Seconds after which a message should have been claimed, although it was sent again.
UNCLAIMED = 120.0
#: Periodic tasks whose last passes are shown while all complete.
SHOWN = ("ingot.reconcile", "ingot.power_sync")
#: Seconds for which the result of a trial, such as a write to the database, is kept.
TRIAL_KEPT = 5.0
#: Seconds after which a write that has not completed is a problem.
TRIAL_WAIT = 1.0
#: Problem of a server that accepts connections and does not answer.
HANGS = "it takes connections and does not answer"
_trials = threading.Lock()


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
    """
    Check that the parts of the service do their work. Without names: callers need no
    authentication.
    """
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    live_conductors = len(conductors.alive(session, timeout))
    leads = conductors.beat_leads(session)
    passes = periodic_passes.passes(connection_of(session), timeout)
    return [
        _database(runtime_of(session), suspected=not (live_conductors and leads)),
        _conductors(session, timeout, live_conductors),
        _beat(session, passes, leads=leads),
        _periodic_tasks(passes),
        _messages(session),
        _operations(session),
        *map(partial(_server, runtime_of(session)), listeners(runtime_of(session).settings)),
    ]


def _conductors(session: Session, timeout: float, live_conductors: int) -> Part:
    total = session.scalar(select(func.count()).select_from(Conductor)) or 0
    lost, impeded, drained = (
        len(of_kind(session, timeout))
        for of_kind in (conductors.lost, conductors.impeded, conductors.drained)
    )
    problems = [f"{lost} lost"] * bool(lost) + [f"{impeded} impeded"] * bool(impeded)
    return Part(
        "conductors",
        ", ".join(problems) or OK if live_conductors else _without_conductors(drained),
        f"{live_conductors} of {total} alive, {lost} without a heartbeat"
        + (f", {impeded} with an impediment" if impeded else "")
        + (f", {drained} drained" if drained else ""),
    )


def _without_conductors(drained: int) -> str:
    return "all conductors are drained" if drained else "no conductor is alive"


def _beat(session: Session, passes: Sequence[Pass], *, leads: bool) -> Part:
    """Return the health of the beat: it leads, and has sent what was due."""
    details, silence = "it schedules periodic tasks", conductors.beat_silence(session)
    bounds = [
        task_pass.bound for task_pass in passes
    ]  # one task at least is due within the shortest
    if silence is None or not leads:
        return Part("beat", OK if leads else "no beat leads", details)
    is_late = bool(bounds) and silence > min(bounds)
    return Part(
        "beat",
        "it sends nothing" if is_late else OK,
        f"{details}; the last message was sent {silence:.0f} s ago",
    )


def _periodic_tasks(passes: Sequence[Pass]) -> Part:
    """Return the health of the periodic tasks: each has completed a pass within its bound."""
    oldest = periodic_passes.oldest(passes)
    late_passes = [task_pass for task_pass in oldest.values() if task_pass.is_late]
    if not late_passes:
        completions = [
            f"{task} {oldest[task].seconds:.0f} s ago" for task in SHOWN if task in oldest
        ]
        return Part(
            "periodic tasks", OK, f"last completed: {', '.join(completions) or 'none is expected'}"
        )
    details = (
        f"{task_pass.task} has not completed for {task_pass.seconds:.0f} s, and should within"
        f" {task_pass.bound:.0f}: {task_pass.without}"
        for task_pass in late_passes
    )
    reason = f"{late_passes[0].task} does not complete"
    if len(late_passes) > 1:
        reason = f"{len(late_passes)} tasks do not complete"
    return Part("periodic tasks", reason, "; ".join(details))


def _messages(session: Session) -> Part:
    """Return the health of the conductors' queues: messages are claimed in time."""
    oldest = max(fleet_counts.oldest_messages(session).values(), default=0.0)
    problem = "conductors leave messages unclaimed" if oldest > UNCLAIMED else OK
    return Part(
        "messages", problem, f"the oldest one that no conductor has claimed is {oldest:.0f} s old"
    )


def _operations(session: Session) -> Part:
    """Return the health of the operations: each of them makes progress within its bound."""
    grace = stalled_operations.grace(runtime_of(session).settings)
    stalled = stalled_operations.count(session, grace)
    problem = f"{stalled} without progress" if stalled else OK
    return Part("operations", problem, "`ingot doctor` lists those beyond their bounds")


def _server(runtime: Runtime, listener: Listener) -> Part:
    """Return the health of a server of files or metrics: it does not hang."""
    trial = _recent_trial(runtime, listener.name, lambda: HANGS if hangs(listener) else None)
    problem = HANGS if trial.problem() == HANGS else OK
    return Part(listener.name, problem, OK if problem == OK else listener.without)


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
    Try to write; return the problem, if any, as the end of a sentence "The database".

    For a service whose heartbeats are old: conductors that cannot write theirs appear dead. Takes a
    second at most, while a write may hang for much longer.
    """
    return _recent_trial(runtime, "write", lambda: _tried_write(runtime)).problem()


def _recent_trial(runtime: Runtime, name: str, work: Callable[[], str | None]) -> "_Trial":
    """Return the last trial of this name in this process, or a new one after TRIAL_KEPT."""
    with _trials:
        trial: _Trial | None = runtime.cache.get(f"{name} trial")
        if trial is None or trial.is_old:
            trial = runtime.cache[f"{name} trial"] = _Trial(work)
        return trial


class _Trial:
    """Work in a thread of its own; one per process and name at a time, because it may hang."""

    def __init__(self, work: Callable[[], str | None]) -> None:
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._problem: str | None = None
        threading.Thread(target=self._run, args=(work,), name="trial", daemon=True).start()

    def _run(self, work: Callable[[], str | None]) -> None:
        try:
            self._problem = work()
        finally:
            self._ended.set()

    @property
    def is_old(self) -> bool:
        return self._ended.is_set() and time.monotonic() - self._started > TRIAL_KEPT

    def problem(self) -> str | None:
        """Return the problem that the work has found, after TRIAL_WAIT at most."""
        if self._ended.wait(max(self._started + TRIAL_WAIT - time.monotonic(), 0.0)):
            return self._problem
        return f"has not completed a write for {time.monotonic() - self._started:.0f} s"


def _tried_write(runtime: Runtime) -> str | None:
    try:
        with runtime.write_connection() as connection:
            connection.execute(update(Conductor).where(false()).values(online=Conductor.online))
            if connection.dialect.name == "postgresql":
                # in the write-ahead log: else the commit waits for no synchronous standby
                connection.execute(select(func.pg_logical_emit_message(True, "ingot", "trial")))
    except SQLAlchemyError as error:
        return database_problem(error) or "refuses writes"
    return None
