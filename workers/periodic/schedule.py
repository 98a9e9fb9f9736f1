"""
Periodic tasks: their schedule and their functions.

The beat sends the tasks, and the conductors' control processes run them. A task for any conductor
goes to the shared queue; a task for the nodes of each conductor is fanned out from there.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import redis
from celery import Celery
from sqlalchemy import Select, delete, func, select

from app import log
from app.broker import backlog
from app.broker.queue import SHARED_QUEUE, now_queue_of, send_task
from app.config.settings import Settings
from app.db.clock import after, age
from app.engine import silent_boots
from app.inventory import scheduling
from app.kit import conductors
from app.models import Answered, NodeHistory
from app.runtime import Runtime
from workers import retry
from workers.periodic import boot_files, power_sync, reconciler
from workers.restore_guard import Witness

logger = log.get(__name__)

RECONCILE = "ingot.reconcile"
FAN_OUT = "ingot.fan_out"
POWER_SYNC = "ingot.power_sync"
POWER_RECOVERY = "ingot.power_recovery"
PRUNE_HISTORY = "ingot.prune_history"
CHECK_ALLOCATIONS = "ingot.check_allocations"
PRUNE_ANSWERED = "ingot.prune_answered"
FORGET_CONDUCTORS = "ingot.forget_conductors"
BOOT_AGAIN = "ingot.boot_again"
SWEEP_BOOT_FILES = "ingot.sweep_boot_files"
#: Most passes of the reconciler at once in a process: more than one, so that a blocked pass does
#: not stop the next; few, so that threads remain for other tasks.
PASSES = 2
#: Seconds between two runs of `prune_answered`, and most rows that are deleted in one transaction.
PRUNE_ANSWERED_INTERVAL, PRUNE_BATCH = 600, 10_000
#: Most nodes whose history is pruned in one query.
NODES_BATCH = 200


def schedule(settings: Settings) -> Mapping[str, dict[str, Any]]:
    """Return the beat's schedule, by entry name; a period of 0 seconds disables an entry."""
    conductor, pxe = settings.conductor, settings.pxe
    table = (
        (RECONCILE, conductor.reconcile_interval, ()),
        (FAN_OUT, conductor.sync_power_state_interval, (POWER_SYNC,)),
        (FAN_OUT, conductor.power_failure_recovery_interval, (POWER_RECOVERY,)),
        (PRUNE_HISTORY, conductor.node_history_cleanup_interval, ()),
        (CHECK_ALLOCATIONS, conductor.check_allocations_interval, ()),
        (PRUNE_ANSWERED, PRUNE_ANSWERED_INTERVAL, ()),
        (FORGET_CONDUCTORS, conductor.conductor_cleanup_interval, ()),
        (BOOT_AGAIN, pxe.boot_retry_check_interval if pxe.boot_retry_timeout else 0, ()),
        (FAN_OUT, pxe.boot_file_sweep_interval, (SWEEP_BOOT_FILES,)),
    )
    return {
        ".".join((task, *arguments)): {
            "task": task,
            "schedule": seconds,
            "args": arguments,
            "options": {"queue": SHARED_QUEUE, "expires": max(seconds, 1.0)},
        }
        for task, seconds, arguments in table
        if seconds > 0
    }


def register_tasks(
    application: Celery, runtime: Runtime, conductor: str, broker: redis.Redis
) -> None:
    """Register the tasks in the control process of `conductor`."""
    contact = reconciler.Contact(runtime.settings.conductor.heartbeat_timeout)
    held = backlog.messages_of(application, runtime.settings, broker)
    witness = Witness(broker, runtime.settings.broker.prefix)

    def reconcile() -> None:
        if not held.marked():  # the broker was emptied: all sent messages are lost
            had_work = reconciler.has_had_work(runtime)
            count = reconciler.resend_all(runtime)
            held.mark(conductor)
            if had_work:  # a new service has a new broker; that is no loss
                logger.warning("broker.was_empty", resent=count)
        reconciler.reconcile(runtime, contact, held.backlog)
        witness.look(runtime)

    def fan_out(task: str) -> None:
        for member in conductors.members(runtime):
            send_task(application, task, (), now_queue_of(member.name), expires=60)

    tasks: Mapping[str, Callable[..., object]] = {
        RECONCILE: _at_most(PASSES, reconcile),
        FAN_OUT: fan_out,
        POWER_SYNC: _at_most(1, partial(power_sync.sync, runtime, conductor)),
        POWER_RECOVERY: _at_most(1, partial(power_sync.recover, runtime, conductor)),
        PRUNE_HISTORY: partial(prune_history, runtime),
        CHECK_ALLOCATIONS: partial(scheduling.resend_due, runtime),
        scheduling.TASK: partial(scheduling.allocate, runtime),
        PRUNE_ANSWERED: partial(prune_answered, runtime),
        FORGET_CONDUCTORS: partial(forget_conductors, runtime),
        BOOT_AGAIN: partial(silent_boots.retry_silent_boots, runtime),
        SWEEP_BOOT_FILES: partial(boot_files.sweep, runtime),
    }
    for name, work in tasks.items():
        register = application.task(name=name, acks_late=False, ignore_result=True, shared=False)
        register(_logging_outages(name, work))


def _at_most(limit: int, work: Callable[[], object]) -> Callable[[], None]:
    """Return a function that runs `work`, or does nothing while `limit` runs are in progress."""
    free = threading.BoundedSemaphore(limit)

    def run() -> None:
        if not free.acquire(blocking=False):
            return
        try:
            work()
        finally:
            free.release()

    return run


def _logging_outages(name: str, work: Callable[..., object]) -> Callable[..., None]:
    def run(*arguments: Any) -> None:
        with retry.log_outages(name):
            work(*arguments)

    return run


def prune_history(runtime: Runtime) -> int:
    """
    Delete history entries beyond `[conductor]node_history_max_entries` per node; return how many.

    Entries younger than `[conductor]node_history_minimum_days` are kept.
    """
    most = runtime.settings.conductor.node_history_max_entries
    batch = runtime.settings.conductor.node_history_cleanup_batch_count
    if not most or not batch:
        return 0
    of_node = NodeHistory.node_id
    with runtime.reading() as session:
        query = select(of_node).group_by(of_node).having(func.count() > most)
        nodes = list(session.scalars(query.order_by(of_node)))
    chunks = (nodes[at : at + NODES_BATCH] for at in range(0, len(nodes), NODES_BATCH))
    return sum(
        _delete(runtime, NodeHistory, _surplus(runtime.settings, chunk, most), batch)
        for chunk in chunks
    )


def _surplus(settings: Settings, nodes: Sequence[int], most: int) -> Select[Any]:
    """Select the ids of old entries beyond the `most` newest of each node."""
    newest_first = NodeHistory.id.desc()
    rank = func.row_number().over(partition_by=NodeHistory.node_id, order_by=newest_first)
    ranked = (
        select(NodeHistory.id, NodeHistory.created_at, rank.label("rank"))
        .where(NodeHistory.node_id.in_(nodes))
        .subquery()
    )
    days = settings.conductor.node_history_minimum_days
    old = age(ranked.c.created_at) >= days * 86400
    return select(ranked.c.id).where(ranked.c.rank > most, old)


def prune_answered(runtime: Runtime) -> int:
    """Delete requests older than `[api]idempotency_key_lifetime`; return how many."""
    lifetime = runtime.settings.api.idempotency_key_lifetime
    since = select(after(-lifetime)).scalar_subquery()  # a subquery, so that the index is used
    old = select(Answered.id).where(Answered.created_at < since).order_by(Answered.created_at)
    return _delete(runtime, Answered, old, PRUNE_BATCH)


def _delete(
    runtime: Runtime, model: type[NodeHistory | Answered], query: Select[Any], batch: int
) -> int:
    """Delete the rows whose ids `query` selects, `batch` per transaction; return how many."""
    removed = 0
    while True:
        with runtime.transaction() as session:
            ids = list(session.scalars(query.limit(batch)))
            if ids:
                session.execute(delete(model).where(model.id.in_(ids)))
        removed += len(ids)
        if len(ids) < batch:
            return removed


def forget_conductors(runtime: Runtime) -> int:
    """Delete conductors dead for over `[conductor]conductor_cleanup_timeout` s; return how many."""
    with runtime.transaction() as session:
        names = conductors.remove_silent(
            session, runtime.settings.conductor.conductor_cleanup_timeout
        )
    if names:
        logger.info("conductors.forgotten", conductors=names)
    return len(names)
