"""
The examination: every check in turn; what is found twice is a finding.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import redis
from kombu.exceptions import OperationalError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from app import log
from app.broker import queue
from app.broker.redis_broker import client
from app.config.settings import Settings, masked
from app.db.diagnosis import reason
from app.runtime import make
from workers.doctor import rows, surroundings
from workers.doctor.checks import Check, Finding, Patient

logger = log.get(__name__)

#: Seconds between two looks: what was only under way is gone by then.
PAUSE = 1.0

CHECKS: Sequence[Check] = (
    Check("schema", surroundings.schema),
    Check("clock skew", surroundings.clocks),
    Check("signs of life", rows.signs_of_life),
    Check("restored database", surroundings.restored, broker=True),
    Check("unchecked nodes", rows.unchecked),
    Check("beat", rows.beat),
    Check("dead conductors", rows.lost),
    Check("duplicate names", surroundings.names, broker=True),
    Check("unserved nodes", rows.unserved),
    Check("orphan rows", rows.orphans, rows.delete_orphans),
    Check("misfit operations", rows.misfits, rows.give_up),
    Check("undriven operations", rows.undriven, rows.drive),
    Check("transient nodes", rows.transient, rows.enter_failed),
    Check("orphan reservations", rows.reservations, rows.free),
    Check("queues of the dead", surroundings.queues, surroundings.drop_queue, broker=True),
    Check("leases of nobody", surroundings.leases, surroundings.drop_lease, broker=True),
    Check("open files", surroundings.wide_files, surroundings.tighten, rows=False),
    Check("stale files", surroundings.useless_files, surroundings.delete_files),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the report. repaired: it was, and is not found any more."""

    check: str
    subject: str
    explanation: str
    repairable: bool
    repaired: bool = False

    def document(self) -> dict[str, Any]:
        return asdict(self)


def examine(settings: Settings, *, fix: bool) -> list[Result]:
    """
    Look, and, if `fix`, repair what can be; everything that was found.

    Without a broker's URL Redis is the service's own, and the service is stopped.
    """
    found: list[Result] = []
    url = settings.broker.url
    application = queue.celery(settings)
    patient = Patient(
        make(settings, queue.sender(application)),
        client(url, settings.broker.connect_timeout) if url else None,
        application,
    )
    try:
        rows_there = _reaches(found, "database", lambda: _ask_database(patient))
        broker_there = bool(url) and _reaches(found, "redis", lambda: _ask_redis(patient))
        checks = [
            each
            for each in CHECKS
            if (rows_there or not each.rows) and (broker_there or not each.broker)
        ]
        if not broker_there:
            patient = Patient(patient.runtime, None, None)
        found += _examine(patient, checks, fix=fix)
    finally:
        patient.runtime.engine.dispose()
        application.close()
    return found


def scope(settings: Settings) -> list[str]:
    """Lines that say what was looked at where nothing was found: all of it was within reach."""
    url = settings.broker.url
    done = [each.name for each in CHECKS if url or not each.broker]
    left_out = [each.name for each in CHECKS if each.name not in done]
    stopped = f"none, the service is stopped; not checked: {', '.join(left_out)}"
    return [
        f"database: {masked(settings.database.connection)}",
        f"Redis: {masked(url) if url else stopped}",
        f"data directory: {settings.default.data_dir}",
        f"checked: {', '.join(done)}",
    ]


def _examine(patient: Patient, checks: Sequence[Check], *, fix: bool) -> list[Result]:
    found: list[Result] = []
    for check in checks:
        if found and found[-1].check == "schema":
            break  # the rows cannot be read
        findings = _look(check, patient)
        if findings:
            time.sleep(PAUSE)
            known = {each.subject for each in findings}
            findings = [each for each in _look(check, patient) if each.subject in known]
        repaired = _repair(check, patient, findings) if fix and findings else set()
        found += [
            Result(
                check.name,
                each.subject,
                each.explanation,
                check.repair is not None,
                each.subject in repaired,
            )
            for each in findings
        ]
    return found


def _look(check: Check, patient: Patient) -> list[Finding]:
    try:
        return list(check.looks(patient))
    except (SQLAlchemyError, redis.RedisError, OperationalError, OSError) as error:
        return [Finding(check.name, f"it could not be examined: {reason(error)}")]


def _repair(check: Check, patient: Patient, findings: Sequence[Finding]) -> set[str]:
    """Repair, and look again; the subjects that are well now."""
    if check.repair is None:
        return set()
    for finding in findings:
        try:
            check.repair(patient, finding)
        except (SQLAlchemyError, redis.RedisError, OSError) as error:
            logger.warning(
                "doctor.failed", check=check.name, subject=finding.subject, detail=str(error)
            )
    left = {each.subject for each in _look(check, patient)}
    well = {each.subject for each in findings} - left
    for finding in findings:
        if finding.subject in well:
            logger.warning(
                "doctor.repaired",
                check=check.name,
                subject=finding.subject,
                was=finding.explanation,
            )
    return well


def _reaches(found: list[Result], what: str, ask: Callable[[], None]) -> bool:
    try:
        ask()
    except (SQLAlchemyError, redis.RedisError, OSError) as error:
        why = f"it is out of reach, and what depends on it was not examined: {reason(error)}"
        found.append(Result(what, what, why, repairable=False))
        return False
    return True


def _ask_database(patient: Patient) -> None:
    url = patient.runtime.engine.url
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        raise FileNotFoundError(f"{url.database}: no such file")
    with patient.runtime.engine.connect().execution_options(writes=False) as connection:
        connection.execute(text("SELECT 1"))


def _ask_redis(patient: Patient) -> None:
    assert patient.broker is not None
    patient.broker.ping()
