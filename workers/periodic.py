"""
Periodic work: what there is, how often, and the tasks that do it.

Beat sends; the conductors' `now` processes do. Work that any conductor may do goes to the shared
queue; work on a conductor's own nodes is fanned out from there.
"""

from collections.abc import Callable, Mapping
from typing import Any

import redis
from celery import Celery
from sqlalchemy import delete, func, select

from app import log
from app.db import after
from app.models import Answered, NodeHistory
from app.queue import SHARED_QUEUE, now_queue_of, queue_of
from app.runtime import Runtime
from app.services import conductors, scheduling
from app.settings import Settings
from workers import power_sync, reconciler

logger = log.get(__name__)

RECONCILE = "ingot.reconcile"
FAN_OUT = "ingot.fan_out"
POWER_SYNC = "ingot.power_sync"
POWER_RECOVERY = "ingot.power_recovery"
PRUNE_HISTORY = "ingot.prune_history"
CHECK_ALLOCATIONS = "ingot.check_allocations"
PRUNE_ANSWERED = "ingot.prune_answered"
#: Seconds between two looks at what was answered, and how many rows go at once.
PRUNE_ANSWERED_EVERY, PRUNE_AT_ONCE = 600, 10_000


def schedule(settings: Settings) -> Mapping[str, dict[str, Any]]:
    """The beat's table: name -> task, seconds, arguments. A period of 0 switches a line off."""
    conductor = settings.conductor
    table = (
        (RECONCILE, conductor.reconcile_interval, ()),
        (FAN_OUT, conductor.sync_power_state_interval, (POWER_SYNC,)),
        (FAN_OUT, conductor.power_failure_recovery_interval, (POWER_RECOVERY,)),
        (PRUNE_HISTORY, conductor.node_history_cleanup_interval, ()),
        (CHECK_ALLOCATIONS, conductor.check_allocations_interval, ()),
        (PRUNE_ANSWERED, PRUNE_ANSWERED_EVERY, ()),
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


def declare(application: Celery, runtime: Runtime, conductor: str, broker: redis.Redis) -> None:
    """Register the tasks in the process that runs them for `conductor`."""
    contact = reconciler.Contact(runtime.settings.conductor.heartbeat_timeout)
    epoch = f"{runtime.settings.broker.prefix}:epoch"

    def backlog(name: str) -> int:
        return int(broker.llen(queue_of(name)))

    def reconcile() -> None:
        if not broker.exists(epoch):  # the broker was emptied: nothing sent is still under way
            count = reconciler.resend_all(runtime)
            broker.set(epoch, conductor, nx=True)
            logger.warning("broker.was_empty", resent=count)
        reconciler.reconcile(runtime, contact, backlog)

    def fan_out(task: str) -> None:
        for member in conductors.members(runtime):
            application.send_task(task, queue=now_queue_of(member.name), expires=60)

    def sync_power() -> None:
        power_sync.sync(runtime, conductor)

    def recover_power() -> None:
        power_sync.recover(runtime, conductor)

    def prune() -> None:
        prune_history(runtime)

    def forget_answers() -> None:
        prune_answered(runtime)

    def allocate(uuid: str) -> None:
        scheduling.seek(runtime, uuid)

    def check_allocations() -> None:
        scheduling.announce_due(runtime)

    tasks: Mapping[str, Callable[..., None]] = {
        RECONCILE: reconcile,
        FAN_OUT: fan_out,
        POWER_SYNC: sync_power,
        POWER_RECOVERY: recover_power,
        PRUNE_HISTORY: prune,
        CHECK_ALLOCATIONS: check_allocations,
        scheduling.TASK: allocate,
        PRUNE_ANSWERED: forget_answers,
    }
    for name, work in tasks.items():
        register = application.task(name=name, acks_late=False, ignore_result=True, shared=False)
        register(work)


def prune_history(runtime: Runtime) -> int:
    """Delete what nodes have beyond `[conductor]node_history_max_entries`, the oldest first."""
    most = runtime.settings.conductor.node_history_max_entries
    batch = runtime.settings.conductor.node_history_cleanup_batch_count
    if not most or not batch:
        return 0
    rank = func.row_number().over(partition_by=NodeHistory.node_id, order_by=NodeHistory.id.desc())
    ranked = select(NodeHistory.id, rank.label("rank")).subquery()
    with runtime.transaction() as session:
        query = select(ranked.c.id).where(ranked.c.rank > most).limit(batch)
        surplus = list(session.scalars(query))
        if surplus:
            session.execute(delete(NodeHistory).where(NodeHistory.id.in_(surplus)))
        return len(surplus)


def prune_answered(runtime: Runtime) -> int:
    """Forget requests older than `[api]idempotency_key_lifetime`; returns how many."""
    lifetime = runtime.settings.api.idempotency_key_lifetime
    with runtime.transaction() as session:
        old = select(Answered.id).where(Answered.created_at < after(-lifetime))
        keys = list(session.scalars(old.order_by(Answered.id).limit(PRUNE_AT_ONCE)))
        if keys:
            session.execute(delete(Answered).where(Answered.id.in_(keys)))
        return len(keys)
