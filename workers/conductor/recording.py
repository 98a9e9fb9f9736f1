"""
Recording of an outcome, with its effects on operation and node, in one transaction.

A record is refused if the fence has been raised since the claim. An outcome that changes only the
cursor takes a single UPDATE (`advance`).
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from app.baselines.comparison import compare_recorded
from app.broker.outages import OUT_OF_REACH, PATIENCE, until_available
from app.db.clock import after
from app.db.diagnosis import database_problem
from app.db.transactions import call_after_commit
from app.engine import dispatch, operations, refreshes, timeouts, transitions, wake
from app.engine.records import driver_reports
from app.inventory import benchmarks
from app.metrics.table import REFUSALS
from app.models import (
    READING,
    AgentRecord,
    Node,
    Operation,
    OperationState,
    OperationStep,
    StepSource,
)
from app.observe import log
from drivers.core.errors import FailureCode, InspectionFailed, SecretsUnavailable
from drivers.core.steps import Done, Failed, Hold, Outcome, Wait
from drivers.net.tls import valid_pem
from workers.conductor import claims, results
from workers.conductor.claims import Attempt
from workers.conductor.conductor import Conductor

T = TypeVar("T")
logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Seconds between two tries to store secrets in the vault.
VAULT_PAUSE = 2.0

#: Reports with facts that baselines compare.
FACTS = frozenset({"findings", "bios_settings", "firmware", "inventory", benchmarks.REPORT})


def advance(conductor: Conductor, attempt: Attempt, outcome: Outcome) -> bool:
    """Record an outcome that only moves the cursor; False: `record` has to do it."""
    if not _is_plain(attempt, outcome):
        return False
    assert isinstance(outcome, Done)
    is_advanced = until_available(lambda: claims.advance(conductor, attempt, outcome.result))
    attempt.outcome = outcome if is_advanced else None
    return is_advanced


def _is_plain(attempt: Attempt, outcome: Outcome) -> bool:
    """Whether the step is done, and only the cursor changes."""
    step = attempt.step
    has_effects = (
        attempt.reports
        or step.event
        or step.collects
        or step.child
        or step.source == StepSource.TIDY
        or attempt.operation.kind in READING
    )
    return isinstance(outcome, Done) and attempt.has_next and not has_effects


def _changes_columns_only(attempt: Attempt, outcome: Outcome) -> bool:
    """Whether the step is done, and only columns of its node, operation and steps change."""
    step = attempt.step
    has_effects = step.collects or step.child or not attempt.operation.moves_node
    return (
        isinstance(outcome, Done)
        and not has_effects
        and driver_reports.concern_columns(attempt.reports)
    )


def record(conductor: Conductor, attempt: Attempt, outcome: Outcome) -> int | None:
    """
    Record an outcome; fail the step if the database refuses the driver's reports.

    Returns the position of the next step of the chain, or None if no step is due now, or if the
    plan was replaced and a new chain has been sent. None, too, if the operation was lost: then the
    node is lost as well, or in quarantine (`workers.restoration`).
    """
    try:
        return _until_stored(lambda: _stored(conductor, attempt, outcome))
    except operations.OperationLost:
        logger.warning("step.operation_lost")
        return None
    except SecretsUnavailable:
        claims.expire(conductor, attempt)  # the step runs again, as after a crash
        raise
    except Exception as error:
        if isinstance(error, OUT_OF_REACH) and database_problem(error) is not None:
            raise
        logger.exception("step.not_recorded")
        failed = results.failure(attempt.step.label, error)
    attempt.reports.clear()
    try:
        return until_available(lambda: _record(conductor, attempt, failed))
    except Exception:
        claims.expire(conductor, attempt)  # the reconciler takes over before the deadline
        raise


def _stored(conductor: Conductor, attempt: Attempt, outcome: Outcome) -> int | None:
    """Record an outcome, and store new secrets of its reports in the vault before."""
    return conductor.runtime.storing(lambda: _record(conductor, attempt, outcome))


def _until_stored(work: Callable[[], T]) -> T:
    """
    Run a transaction until database and vault are available.

    Raises SecretsUnavailable: the vault is not, after `PATIENCE` seconds.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return until_available(work)
        except SecretsUnavailable as error:
            if time.monotonic() > end:
                raise
            seldom.warning("vault.awaited", detail=str(error))
            time.sleep(VAULT_PAUSE)


def _record(conductor: Conductor, attempt: Attempt, outcome: Outcome) -> int | None:
    """Record an outcome in a transaction; return the same as `record`."""
    locked = operations.detached if _changes_columns_only(attempt, outcome) else operations.mapped
    ids = attempt.node.id, attempt.operation.id
    with conductor.transaction() as session, locked(session, *ids) as (node, operation):
        if claims.is_recorded(operation, attempt):
            attempt.outcome = attempt.outcome or outcome
            return operation.cursor if operation.state == OperationState.QUEUED else None
        if not claims.holds(session, operation, attempt):
            operation.refused += 1
            logger.warning("step.refused", fence=attempt.operation.fence, now=operation.fence)
            call_after_commit(session, lambda: REFUSALS.add("fence"))
            return None
        step = operations.current_step(session, operation)
        child = attempt.child and operations.lock(session, attempt.child.id)
        reading = refreshes.reading_of(session, node, operation, step, attempt.reports)
        reports = attempt.reports if reading is None else reading.reports
        outcome = _write_reports(
            conductor, session, child or node, reports,
            operation=operation, step=step, outcome=outcome,
        )  # fmt: skip
        if reading is not None:
            outcome = refreshes.record(session, node, operation, reading, outcome)
        outcome = timeouts.retry_transient(step, outcome)
        attempt.outcome = outcome = timeouts.charge_budget(
            session, node, step, outcome, attempt.charged_seconds
        )
        match outcome:
            case Done(result):
                continues = transitions.done(session, node, operation, step, result)
            case Failed():
                continues = transitions.fail(session, node, operation, step, outcome)
            case Hold():
                continues = transitions.hold(session, node, operation, step, outcome)
            case Wait():
                transitions.wait(session, node, operation, step, outcome)
                _watch(conductor, session, node, operation, outcome)
                return None
        if continues and (step.collects or isinstance(outcome, Failed)):
            operation.sends = 0
            dispatch.send(session, node, operation)
            return None
        return operation.cursor if continues else None


def _write_reports(
    conductor: Conductor,
    session: Session,
    node: Node,
    reports: Mapping[str, Any],
    *,
    operation: Operation,
    step: OperationStep,
    outcome: Outcome,
) -> Outcome:
    """
    Write the reports of the driver, and compare reported facts with the baselines.

    Return the outcome, or `Failed` if the findings of an inspection cannot be stored, or if a
    number that the step has measured is not as a baseline expects.
    """
    measured: frozenset[str] = frozenset()
    if benchmarks.REPORT in reports and isinstance(outcome, Done | Failed):
        report = reports[benchmarks.REPORT]
        measured = benchmarks.record(session, node, operation, step, report)
    try:
        driver_reports.apply(session, node, reports, conductor.incarnation)
    except InspectionFailed as error:
        return Failed(str(error), error.code)
    if not reports.keys() & FACTS:
        return outcome
    inspected = "findings" in reports
    reasons = compare_recorded(session, node, at_inspection=inspected, measured=measured)
    if reasons and isinstance(outcome, Done):
        return Failed("; ".join(reasons), FailureCode.BENCHMARK_FAILED)
    return outcome


def _watch(
    conductor: Conductor,
    session: Session,
    node: Node,
    operation: Operation,
    outcome: Wait,
) -> None:
    """Register a wait with this process's wait monitor once it is committed."""
    if operation.state != OperationState.WAITING:
        return
    operation_id, fence = operation.id, operation.fence
    if outcome.poll_after is not None:
        delay = outcome.poll_after
        call_after_commit(session, lambda: conductor.wait_monitor.poll(operation_id, fence, delay))
        return
    agent = session.get(AgentRecord, operation.node_id)
    if agent is not None and agent.url and outcome.progress.get("command"):
        url, token = agent.url, agent.token
        ca = valid_pem(agent.verify_ca) or node.driver_info.get("agent_verify_ca")
        if conductor.wait_monitor.running:
            operation.watched_until = after(wake.POLLING_PERIOD)
        call_after_commit(
            session, lambda: conductor.wait_monitor.watch(operation_id, fence, url, token, ca)
        )
