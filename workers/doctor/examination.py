"""
Examination of the service: runs every check twice and reports the findings of both runs.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import redis
from kombu.exceptions import OperationalError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from app.audit import audit_records
from app.broker import queue
from app.broker.redis_broker import client
from app.config.description import masked
from app.config.settings import Settings
from app.db.diagnosis import reason
from app.errors import ServiceError
from app.observe import log
from app.runtime import make
from workers.doctor import (
    database_checks,
    environment_checks,
    outside_checks,
)
from workers.doctor.checks import Check, Finding, Installation

logger = log.get(__name__)

#: Seconds between the two runs of a check; work in progress does not appear in both.
PAUSE = 1.0

CHECKS: Sequence[Check] = (
    Check("schema", environment_checks.schema),
    Check("clock skew", environment_checks.clocks),
    Check("future heartbeats", database_checks.future_heartbeats),
    Check("restored database", environment_checks.restored, broker=True),
    Check("unchecked nodes", database_checks.unchecked),
    Check("beat", database_checks.beat),
    Check("dead conductors", database_checks.lost),
    Check("impeded conductors", database_checks.impeded),
    Check("late periodic tasks", database_checks.late_passes),
    Check("duplicate names", environment_checks.names, broker=True, remote_control=True),
    Check("unserved nodes", database_checks.unserved),
    Check("orphan rows", database_checks.orphans, database_checks.delete_orphans),
    Check("inconsistent operations", database_checks.inconsistent, database_checks.fail),
    Check("stalled operations", database_checks.stalled, database_checks.reconcile),
    Check("stuck nodes", database_checks.stuck, database_checks.enter_failed),
    Check("orphan reservations", database_checks.reservations, database_checks.release),
    Check("orphan queues", environment_checks.queues, environment_checks.delete_queue, broker=True),
    Check("orphan leases", environment_checks.leases, environment_checks.delete_lease, broker=True),
    Check("silent servers", environment_checks.silent_servers, rows=False),
    Check("refused event subscriptions", database_checks.refused_subscriptions),
    Check("late notifications", database_checks.late_notifications),
    Check(
        "ended notifications",
        database_checks.ended_notifications,
        database_checks.forget_notifications,
    ),
    Check("late power updates", outside_checks.late_power_updates),
    Check("networks", outside_checks.networks, rows=False),
    Check("switches", outside_checks.unusable_switches),
    Check("vault", outside_checks.unusable_vault, rows=False),
    Check("authentication", environment_checks.unauthenticated, rows=False),
    Check("links", environment_checks.links, rows=False),
    Check("administrators", environment_checks.administrators),
    Check("encryption", environment_checks.keys),
    Check("unreadable secrets", environment_checks.unreadable),
    Check(
        "file permissions",
        environment_checks.readable_files,
        environment_checks.restrict,
        rows=False,
    ),
    Check("stale files", environment_checks.stale_files, environment_checks.delete_files),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the report."""

    check: str
    subject: str
    explanation: str
    repairable: bool
    repaired: bool = False  # and the check does not find it again


def examine(settings: Settings, *, fix: bool) -> list[Result]:
    """
    Run all checks, repair findings if `fix`, and return one result per finding.

    Settings without a URL of Redis mean that the service, which starts Redis itself, is stopped.
    """
    results: list[Result] = []
    url = settings.broker.url
    application = queue.celery(settings)
    installation = Installation(
        make(settings, queue.sender(application)),
        client(url, settings.broker.connect_timeout) if url else None,
        application,
    )
    try:
        has_rows = _reaches(results, "database", lambda: _ping_database(installation))
        has_broker = bool(url) and _reaches(results, "redis", lambda: _ping_redis(installation))
        checks = [
            check
            for check in CHECKS
            if check.applies(settings)
            and (has_rows or not check.rows)
            and (has_broker or not check.broker)
        ]
        if not has_broker:
            installation = Installation(installation.runtime, None, None)
        results += _examine(installation, checks, fix=fix)
    finally:
        installation.runtime.engine.dispose()
        application.close()
    return results


def scope(settings: Settings) -> list[str]:
    """Return the lines that describe the extent of an examination without findings."""
    url = settings.broker.url
    check_names = [check.name for check in CHECKS if check.applies(settings)]
    left_out = [check.name for check in CHECKS if check.name not in check_names]
    stopped = f"none, the service is stopped; not checked: {', '.join(left_out)}"
    return [
        f"database: {masked(settings.database.connection)}",
        f"Redis: {masked(url) if url else stopped}",
        f"data directory: {settings.default.data_dir}",
        f"checked: {', '.join(check_names)}",
    ]


def _examine(installation: Installation, checks: Sequence[Check], *, fix: bool) -> list[Result]:
    results: list[Result] = []
    for check in checks:
        if results and results[-1].check == "schema":
            break  # the rows cannot be read
        findings = _find(check, installation)
        if findings:
            time.sleep(PAUSE)
            subjects = {finding.subject for finding in findings}
            findings = [
                finding for finding in _find(check, installation) if finding.subject in subjects
            ]
        repaired = _repair(check, installation, findings) if fix and findings else set()
        results += [
            Result(
                check.name,
                finding.subject,
                finding.explanation,
                check.repair is not None,
                finding.subject in repaired,
            )
            for finding in findings
        ]
    return results


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
    remaining_subjects = {finding.subject for finding in _find(check, installation)}
    repaired = {finding.subject for finding in findings} - remaining_subjects
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
        audit_records.add_command(
            connection, installation.runtime.settings, action, finding.subject
        )


def _reaches(results: list[Result], server: str, ping: Callable[[], None]) -> bool:
    """Whether a server answers; if not, add a result that says so."""
    try:
        ping()
    except (SQLAlchemyError, redis.RedisError, OSError) as error:
        explanation = (
            f"it is unreachable, and the checks that need it were skipped: {reason(error)}"
        )
        results.append(Result(server, server, explanation, repairable=False))
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
