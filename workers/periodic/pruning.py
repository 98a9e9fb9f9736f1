"""
Pruning: deletion of rows that are past their lifetime: history, answered requests, change events,
audit records, sanitation reports, API tokens, rollouts, recorded exchanges with BMCs, benchmarks,
conductors; and destruction of unused secrets of the vault.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, exists, func, literal_column, or_, select

from app.cluster import conductors
from app.config.settings import Settings
from app.db.clock import after, age, fixed
from app.engine.records import bmc_recordings
from app.models import (
    Answered,
    ApiToken,
    AuditCheckpoint,
    AuditRecord,
    Base,
    Benchmark,
    BmcExchanges,
    ChangeEvent,
    NodeHistory,
    Outcome,
    Rollout,
    RolloutNode,
    SanitationReport,
    WebhookFailure,
)
from app.observe import log
from app.runtime import Runtime
from app.vault import writing
from drivers.core.errors import SecretsUnavailable

logger = log.get(__name__)

#: Seconds for which the answer to a request with an Idempotency-Key is kept: a day, as long as a
#: client may be cut off and repeat a request. docs/api.md promises it.
ANSWERED_LIFETIME = 86_400.0
#: Most nodes whose history is pruned in one query.
NODES_BATCH = 200
#: Most rows that are deleted in one transaction.
ANSWERED_BATCH = 10_000
AUDIT_BATCH = EVENTS_BATCH = ROLLOUT_NODES_BATCH = BENCHMARKS_BATCH = 5000
REPORTS_BATCH = TOKENS_BATCH = 1000
ROLLOUTS_BATCH = EXCHANGES_BATCH = 100


def prune_history(runtime: Runtime) -> int:
    """
    Delete history entries beyond `[conductor]node_history_max_entries` per node; return how many.

    Entries younger than `[conductor]node_history_minimum_days` are kept.
    """
    max_entries = runtime.settings.conductor.node_history_max_entries
    batch = runtime.settings.conductor.node_history_cleanup_batch_count
    if not max_entries or not batch:
        return 0
    of_node = NodeHistory.node_id
    with runtime.reading() as session:
        query = select(of_node).group_by(of_node).having(func.count() > max_entries)
        nodes = list(session.scalars(query.order_by(of_node)))
    chunks = (nodes[start : start + NODES_BATCH] for start in range(0, len(nodes), NODES_BATCH))
    return sum(
        _delete(runtime, NodeHistory, _surplus(runtime.settings, chunk, max_entries), batch)
        for chunk in chunks
    )


def _surplus(settings: Settings, nodes: Sequence[int], max_entries: int) -> Select[object]:
    """Select the ids of old entries beyond the `most` newest of each node."""
    newest_first = NodeHistory.id.desc()
    rank = func.row_number().over(partition_by=NodeHistory.node_id, order_by=newest_first)
    ranked = (
        select(NodeHistory.id, NodeHistory.created_at, rank.label("rank"))
        .where(NodeHistory.node_id.in_(nodes))
        .subquery()
    )
    days = settings.conductor.node_history_minimum_days
    is_old = age(ranked.c.created_at) >= days * 86400
    return select(ranked.c.id).where(ranked.c.rank > max_entries, is_old)


def prune_answered(runtime: Runtime) -> int:
    """Delete requests older than `ANSWERED_LIFETIME`; return how many."""
    return _delete_older(runtime, Answered, ANSWERED_LIFETIME, ANSWERED_BATCH)


def prune_audit(runtime: Runtime) -> int:
    """
    Delete audit records older than `[audit]keep_days`; return how many.

    Of requests without success, delete also those beyond the newest `[audit]keep_refused`.
    """
    settings = runtime.settings.audit
    removed_count = 0
    if settings.keep_days:
        cutoff = fixed(after(-86400 * settings.keep_days))
        is_sealed = _in_ranges(AuditCheckpoint.newest_at < cutoff)
        old_rows = select(AuditRecord.id).where(AuditRecord.created_at < cutoff, is_sealed)
        by_age = old_rows.order_by(AuditRecord.created_at, AuditRecord.id)
        removed_count = _delete(runtime, AuditRecord, by_age, AUDIT_BATCH)
    if settings.keep_refused:
        is_refused = AuditRecord.outcome != literal_column(
            f"'{Outcome.SUCCESS}'"
        )  # as in its index
        newest_first = select(AuditRecord.id).where(is_refused).order_by(AuditRecord.id.desc())
        with runtime.reading() as session:
            oldest_kept_id = session.scalar(newest_first.offset(settings.keep_refused - 1).limit(1))
        if oldest_kept_id is not None:
            is_sealed = _in_ranges(AuditCheckpoint.last < oldest_kept_id)
            surplus_rows = select(AuditRecord.id).where(
                is_refused, AuditRecord.id < oldest_kept_id, is_sealed
            )
            oldest_first = surplus_rows.order_by(AuditRecord.id)
            removed_count += _delete(runtime, AuditRecord, oldest_first, AUDIT_BATCH)
    return removed_count


def _in_ranges(deleted: ColumnElement[bool]) -> ColumnElement[bool]:
    """
    Return the condition of the records that may be deleted without a loss of proofs.

    Those of whole ranges, and those that no checkpoint proves. deleted: condition of the ranges.
    """
    ends = select(func.max(AuditCheckpoint.last)).where(AuditCheckpoint.mac.is_not(None), deleted)
    starts = select(func.min(AuditCheckpoint.first))
    is_before = AuditRecord.id < func.coalesce(starts.scalar_subquery(), AuditRecord.id + 1)
    return or_(AuditRecord.id <= ends.scalar_subquery(), is_before)


def prune_sanitation(runtime: Runtime) -> int:
    """Delete sanitation reports older than `[sanitation]keep_days`; return how many."""
    lifetime = 86400 * runtime.settings.sanitation.keep_days
    return _delete_older(runtime, SanitationReport, lifetime, REPORTS_BATCH)


def prune_benchmarks(runtime: Runtime) -> int:
    """Delete measured numbers older than `[conductor]benchmarks_lifetime`; return how many."""
    oldest_rows = (
        select(Benchmark.id, Benchmark.recorded_at)
        .order_by(Benchmark.id)
        .limit(BENCHMARKS_BATCH)
        .subquery()
    )
    cutoff = fixed(after(-runtime.settings.conductor.benchmarks_lifetime))
    old_rows = select(oldest_rows.c.id).where(oldest_rows.c.recorded_at < cutoff)
    return _delete(runtime, Benchmark, old_rows, BENCHMARKS_BATCH)


def prune_tokens(runtime: Runtime) -> int:
    """
    Delete API tokens and sessions `[identity]ended_tokens_lifetime` after they expired or were
    revoked; return how many.
    """
    cutoff = fixed(after(-runtime.settings.identity.ended_tokens_lifetime))
    is_ended = or_(ApiToken.expires_at < cutoff, ApiToken.revoked_at < cutoff)
    by_index = select(ApiToken.id).where(is_ended)  # in an order, SQLite would read the whole table
    return _delete(runtime, ApiToken, by_index, TOKENS_BATCH)


def prune_change_events(runtime: Runtime) -> int:
    """
    Delete events older than `[conductor]change_events_lifetime`; return how many.

    Failures of webhooks whose events are all deleted cannot be replayed, and are deleted, too.
    """
    oldest_events = (
        select(ChangeEvent.id, ChangeEvent.sequence, ChangeEvent.created_at)
        .order_by(ChangeEvent.id)
        .limit(EVENTS_BATCH)
        .subquery()
    )
    # the next number follows the highest one, so its event is kept
    newest_sequence = select(func.max(ChangeEvent.sequence)).scalar_subquery()
    cutoff = fixed(after(-runtime.settings.conductor.change_events_lifetime))
    old_events = select(oldest_events.c.id).where(
        oldest_events.c.created_at < cutoff, oldest_events.c.sequence < newest_sequence
    )
    removed_count = _delete(runtime, ChangeEvent, old_events, EVENTS_BATCH)
    first_sequence = select(func.min(ChangeEvent.sequence)).scalar_subquery()
    unreplayable = select(WebhookFailure.id).where(WebhookFailure.last < first_sequence)
    _delete(runtime, WebhookFailure, unreplayable, EVENTS_BATCH)
    return removed_count


def prune_rollouts(runtime: Runtime) -> int:
    """
    Delete rollouts `[conductor]rollouts_lifetime` after their end; return how many.

    Their nodes are deleted first. A rollout whose nodes are left, because it has become old since,
    is deleted by the next run.
    """
    cutoff = fixed(after(-runtime.settings.conductor.rollouts_lifetime))
    is_old = Rollout.finished_at < cutoff
    nodes = select(RolloutNode.id).join(Rollout, Rollout.id == RolloutNode.rollout_id).where(is_old)
    _delete(runtime, RolloutNode, nodes, ROLLOUT_NODES_BATCH)
    has_nodes = exists().where(RolloutNode.rollout_id == Rollout.id)
    empty_rollouts = select(Rollout.id).where(is_old, ~has_nodes).order_by(Rollout.id)
    return _delete(runtime, Rollout, empty_rollouts, ROLLOUTS_BATCH)


def prune_bmc_exchanges(runtime: Runtime) -> int:
    """Delete recorded exchanges older than two days; return the number of steps that had them."""
    return _delete_older(runtime, BmcExchanges, bmc_recordings.KEPT, EXCHANGES_BATCH)


def _delete_older(runtime: Runtime, model: type[Base], lifetime: float, batch: int) -> int:
    """Delete the rows that were created over `lifetime` seconds ago, the oldest first."""
    columns = model.__table__.c
    is_old = columns.created_at < fixed(after(-lifetime))
    oldest_first = select(columns.id).where(is_old).order_by(columns.created_at)
    return _delete(runtime, model, oldest_first, batch)


def _delete(runtime: Runtime, model: type[Base], query: Select[Any], batch: int) -> int:
    """Delete the rows whose ids `query` selects, `batch` per transaction; return how many."""
    removed_count = 0
    while True:
        with runtime.transaction() as session:
            ids = list(session.scalars(query.limit(batch)))
            if ids:
                is_selected = model.id.in_(ids)  # type: ignore[attr-defined]
                session.execute(delete(model).where(is_selected))
        removed_count += len(ids)
        if len(ids) < batch:
            return removed_count


def forget_conductors(runtime: Runtime) -> int:
    """Delete conductors dead for over `[conductor]conductor_cleanup_timeout` s; return how many."""
    with runtime.transaction() as session:
        names = conductors.remove_silent(
            session, runtime.settings.conductor.conductor_cleanup_timeout
        )
    if names:
        logger.info("conductors.forgotten", conductors=names)
    return len(names)


def sweep_vault(runtime: Runtime) -> int:
    """Destroy secrets of the vault that no node refers to any more; return how many."""
    if runtime.vault is None:
        return 0
    try:
        count = writing.sweep(runtime.engine, runtime.vault)
    except SecretsUnavailable as error:  # the next run goes on
        logger.warning("vault.not_swept", detail=str(error))
        return 0
    if count:
        logger.info("vault.swept", secrets=count)
    return count
