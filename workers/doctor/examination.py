"""
Examination of the service: runs every check twice and reports the findings of both runs.
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
from app.config.description import masked
from app.config.settings import Settings
from app.db.diagnosis import reason
from app.errors import ServiceError
from app.kit import audit
from app.runtime import make
from workers.doctor import openstack, rows, surroundings
from workers.doctor.checks import Check, Finding, Installation

logger = log.get(__name__)

#: Seconds between the two runs of a check; work in progress does not appear in both.
PAUSE = 1.0

CHECKS: Sequence[Check] = (
    Check("schema", surroundings.schema),
    Check("clock skew", surroundings.clocks),
    Check("future heartbeats", rows.future_heartbeats),
    Check("restored database", surroundings.restored, broker=True),
    Check("unchecked nodes", rows.unchecked),
    Check("beat", rows.beat),
    Check("dead conductors", rows.lost),
    Check("impeded conductors", rows.impeded),
    Check("late periodic tasks", rows.late_passes),
    Check("duplicate names", surroundings.names, broker=True, remote_control=True),
    Check("unserved nodes", rows.unserved),
    Check("orphan rows", rows.orphans, rows.delete_orphans),
    Check("inconsistent operations", rows.inconsistent, rows.fail),
    Check("stalled operations", rows.stalled, rows.reconcile),
    Check("stuck nodes", rows.stuck, rows.enter_failed),
    Check("orphan reservations", rows.reservations, rows.release),
    Check("orphan queues", surroundings.queues, surroundings.delete_queue, broker=True),
    Check("orphan leases", surroundings.leases, surroundings.delete_lease, broker=True),
    Check("late notifications", rows.late_notifications),
    Check("ended notifications", rows.ended_notifications, rows.forget_notifications),
    Check("late power updates", openstack.late_power_updates),
    Check("networks", openstack.networks, rows=False),
    Check("authentication", surroundings.unauthenticated, rows=False),
    Check("links", surroundings.links, rows=False),
    Check("administrators", surroundings.administrators),
    Check("encryption", surroundings.keys),
    Check("file permissions", surroundings.readable_files, surroundings.restrict, rows=False),
    Check("stale files", surroundings.stale_files, surroundings.delete_files),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the report."""

    check: str
    subject: str
    explanation: str
    repairable: bool
    repaired: bool = False  # and the check does not find it again

    def document(self) -> dict[str, Any]:
        return asdict(self)


def examine(settings: Settings, *, fix: bool) -> list[Result]:
    """
    Run all checks, repair findings if `fix`, and return one result per finding.

    Settings without a URL of Redis mean that the service, which starts Redis itself, is stopped.
    """
    found: list[Result] = []
    url = settings.broker.url
    application = queue.celery(settings)
    installation = Installation(
        make(settings, queue.sender(application)),
        client(url, settings.broker.connect_timeout) if url else None,
        application,
    )
    try:
        has_rows = _reaches(found, "database", lambda: _ping_database(installation))
        has_broker = bool(url) and _reaches(found, "redis", lambda: _ping_redis(installation))
        checks = [
            each
            for each in CHECKS
            if each.applies(settings)
            and (has_rows or not each.rows)
            and (has_broker or not each.broker)
        ]
        if not has_broker:
            installation = Installation(installation.runtime, None, None)
        found += _examine(installation, checks, fix=fix)
    finally:
        installation.runtime.engine.dispose()
        application.close()
    return found


def scope(settings: Settings) -> list[str]:
    """Return the lines that describe the extent of an examination without findings."""
    url = settings.broker.url
    done = [each.name for each in CHECKS if each.applies(settings)]
    left_out = [each.name for each in CHECKS if each.name not in done]
    stopped = f"none, the service is stopped; not checked: {', '.join(left_out)}"
    return [
        f"database: {masked(settings.database.connection)}",
        f"Redis: {masked(url) if url else stopped}",
        f"data directory: {settings.default.data_dir}",
        f"checked: {', '.join(done)}",
    ]


def _examine(installation: Installation, checks: Sequence[Check], *, fix: bool) -> list[Result]:
    found: list[Result] = []
    for check in checks:
        if found and found[-1].check == "schema":
            break  # the rows cannot be read
        findings = _find(check, installation)
        if findings:
            time.sleep(PAUSE)
            known = {each.subject for each in findings}
            findings = [each for each in _find(check, installation) if each.subject in known]
        repaired = _repair(check, installation, findings) if fix and findings else set()
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


def _find(check: Check, installation: Installation) -> list[Finding]:
    try:
        return list(check.find(installation))
    except (SQLAlchemyError, redis.RedisError, OperationalError, OSError) as error:
        return [Finding(check.name, f"the check failed: {reason(error)}")]


def _repair(check: Check, installation: Installation, findings: Sequence[Finding]) -> set[str]:
    """Repair findings, run the check again, and return the repaired subjects."""
    if check.repair is None:
        return set()
    for finding in findings:
        try:
            _record(installation, check, finding)
            check.repair(installation, finding)
        except (ServiceError, SQLAlchemyError, redis.RedisError, OSError) as error:
            logger.warning(
                "doctor.failed", check=check.name, subject=finding.subject, detail=str(error)
            )
    left = {each.subject for each in _find(check, installation)}
    repaired = {each.subject for each in findings} - left
    for finding in findings:
        if finding.subject in repaired:
            logger.warning(
                "doctor.repaired",
                check=check.name,
                subject=finding.subject,
                was=finding.explanation,
            )
    return repaired


def _record(installation: Installation, check: Check, finding: Finding) -> None:
    """Record a repair for the audit, before it begins."""
    action = f"repair/{check.name.replace(' ', '_')}"
    with installation.runtime.write_connection() as connection:
        audit.add_command(connection, installation.runtime.settings, action, finding.subject)


def _reaches(found: list[Result], server: str, ping: Callable[[], None]) -> bool:
    """Whether a server answers; if not, add a result that says so."""
    try:
        ping()
    except (SQLAlchemyError, redis.RedisError, OSError) as error:
        why = f"it is unreachable, and the checks that need it were skipped: {reason(error)}"
        found.append(Result(server, server, why, repairable=False))
        return False
    return True


def _ping_database(installation: Installation) -> None:
    url = installation.runtime.engine.url
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        raise FileNotFoundError(f"{url.database}: no such file")
    with installation.runtime.engine.connect().execution_options(writes=False) as connection:
        connection.execute(text("SELECT 1"))


def _ping_redis(installation: Installation) -> None:
    assert installation.broker is not None
    installation.broker.ping()
