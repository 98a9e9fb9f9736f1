"""
Periodic work: what there is, how often, and the tasks that do it.

Beat sends; the conductors' `now` processes do. Work that any conductor may do goes to the shared
queue; work on a conductor's own nodes is fanned out from there.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import redis
from celery import Celery
from sqlalchemy import delete, func, select

from app import log, messages
from app.db import after, age
from app.models import Answered, NodeHistory
from app.queue import SHARED_QUEUE, now_queue_of, send_task
from app.runtime import Runtime
from app.services import booting, conductors, scheduling
from app.settings import Settings
from workers import boot_files, outages, power_sync, reconciler, witness

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
#: Passes of the reconciler in a process at once: one that is held up does not keep the next from
#: its turn, and all together leave threads to what else is to be done.
PASSES = 2
#: Seconds between two looks at what was answered, and how many rows go at once.
PRUNE_ANSWERED_EVERY, PRUNE_AT_ONCE = 600, 10_000


def schedule(settings: Settings) -> Mapping[str, dict[str, Any]]:
    """The beat's table: name -> task, seconds, arguments. A period of 0 switches a line off."""
    conductor, pxe = settings.conductor, settings.pxe
    table = (
        (RECONCILE, conductor.reconcile_interval, ()),
        (FAN_OUT, conductor.sync_power_state_interval, (POWER_SYNC,)),
        (FAN_OUT, conductor.power_failure_recovery_interval, (POWER_RECOVERY,)),
        (PRUNE_HISTORY, conductor.node_history_cleanup_interval, ()),
        (CHECK_ALLOCATIONS, conductor.check_allocations_interval, ()),
        (PRUNE_ANSWERED, PRUNE_ANSWERED_EVERY, ()),
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


def declare(application: Celery, runtime: Runtime, conductor: str, broker: redis.Redis) -> None:
    """Register the tasks in the process that runs them for `conductor`."""
    contact = reconciler.Contact(runtime.settings.conductor.heartbeat_timeout)
    held = messages.of(application, runtime.settings, broker)
    passes = threading.BoundedSemaphore(PASSES)

    def reconcile() -> None:
        if not passes.acquire(blocking=False):
            return
        try:
            look()
        finally:
            passes.release()

    def look() -> None:
        if not held.marked():  # the broker was emptied: nothing sent is still under way
            count = reconciler.resend_all(runtime)
            held.mark(conductor)
            logger.warning("broker.was_empty", resent=count)
        reconciler.reconcile(runtime, contact, held.backlog)
        witness.write_down(runtime, broker)

    def fan_out(task: str) -> None:
        for member in conductors.members(runtime):
            send_task(application, task, (), now_queue_of(member.name), expires=60)

    def sync_power() -> None:
        power_sync.sync(runtime, conductor)

    def recover_power() -> None:
        power_sync.recover(runtime, conductor)

    def prune() -> None:
        prune_history(runtime)

    def forget_answers() -> None:
        prune_answered(runtime)

    def forget() -> None:
        forget_conductors(runtime)

    def allocate(uuid: str) -> None:
        scheduling.seek(runtime, uuid)

    def check_allocations() -> None:
        scheduling.announce_due(runtime)

    def boot_again() -> None:
        booting.boot_silent_again(runtime)

    def sweep_boot_files() -> None:
        boot_files.sweep(runtime)

    tasks: Mapping[str, Callable[..., None]] = {
        RECONCILE: reconcile,
        FAN_OUT: fan_out,
        POWER_SYNC: sync_power,
        POWER_RECOVERY: recover_power,
        PRUNE_HISTORY: prune,
        CHECK_ALLOCATIONS: check_allocations,
        scheduling.TASK: allocate,
        PRUNE_ANSWERED: forget_answers,
        FORGET_CONDUCTORS: forget,
        BOOT_AGAIN: boot_again,
        SWEEP_BOOT_FILES: sweep_boot_files,
    }
    for name, work in tasks.items():
        register = application.task(name=name, acks_late=False, ignore_result=True, shared=False)
        register(_bearing_outages(name, work))


def _bearing_outages(name: str, work: Callable[..., None]) -> Callable[..., None]:
    def bear(*arguments: Any) -> None:
        with outages.borne(name):
            work(*arguments)

    return bear


def prune_history(runtime: Runtime) -> int:
    """
    Delete what nodes have beyond `[conductor]node_history_max_entries`, the oldest first, but for
    what is not older than `node_history_minimum_days`.
    """
    most = runtime.settings.conductor.node_history_max_entries
    batch = runtime.settings.conductor.node_history_cleanup_batch_count
    if not most or not batch:
        return 0
    rank = func.row_number().over(partition_by=NodeHistory.node_id, order_by=NodeHistory.id.desc())
    ranked = select(NodeHistory.id, NodeHistory.created_at, rank.label("rank")).subquery()
    days = runtime.settings.conductor.node_history_minimum_days
    old = age(ranked.c.created_at) >= days * 86400
    with runtime.transaction() as session:
        query = select(ranked.c.id).where(ranked.c.rank > most, old).limit(batch)
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


def forget_conductors(runtime: Runtime) -> int:
    """Remove the conductors dead longer than `[conductor]conductor_cleanup_timeout`; how many."""
    with runtime.transaction() as session:
        names = conductors.forget(session, runtime.settings.conductor.conductor_cleanup_timeout)
    if names:
        logger.info("conductors.forgotten", conductors=names)
    return len(names)
