"""
Tasks of a conductor's control process: each periodic task, spaced, limited, recorded and measured.
"""

import math
import threading
import time
from collections.abc import Callable
from functools import partial

import redis
from celery import Celery

from app.broker import backlog, outages
from app.broker.queue import queues_of, send_task
from app.cluster import conductors, periodic_passes
from app.inventory import scheduling
from app.metrics.table import BROKER_LOSSES, PERIODIC_RUNS
from app.observe import log
from app.runtime import Runtime
from workers.periodic import reconciler, schedule, webhooks
from workers.periodic.bmc_network import BmcNetwork
from workers.periodic.consoles import Consoles
from workers.periodic.database_contact import Contact
from workers.periodic.notifications import Notifications
from workers.periodic.power_updates import PowerUpdates
from workers.restoration.restore_guard import RestoreGuard

logger = log.get(__name__)


def register_tasks(
    application: Celery,
    runtime: Runtime,
    conductor: str,
    broker: redis.Redis,
    network: BmcNetwork | None = None,
) -> None:
    """Register the tasks in the control process of `conductor`."""
    reconcile = _reconciler_pass(application, runtime, conductor, broker)
    is_on = runtime.settings.default.notification_level is not None
    notifications = Notifications(runtime, conductor) if is_on else None
    control = schedule.Control(
        runtime, conductor, reconcile, webhooks.Webhooks(runtime), notifications, network,
        PowerUpdates(runtime) if runtime.settings.nova.is_on else None,
    )  # fmt: skip
    spacing = {task.name: task.period(runtime.settings) or 0.0 for task in schedule.PERIODIC}

    def send_to_all(task: str) -> None:
        for member in conductors.members(runtime):
            send_task(application, task, (), queues_of(application).now(member.name))

    fanned = {
        task.name: _spaced(spacing[task.name], partial(send_to_all, task.name))
        for task in schedule.PERIODIC
        if task.each_conductor
    }

    def fan_out(task: str) -> None:
        if task not in fanned:
            logger.warning("message.malformed", detail=f"no conductor runs {task!r} for itself")
            return
        fanned[task]()

    tasks: dict[str, Callable[..., object]] = {
        schedule.FAN_OUT: fan_out,
        scheduling.TASK: partial(scheduling.allocate, runtime),
    }
    for task in schedule.PERIODIC:
        run: Callable[[], object] = partial(task.run, control)
        holder = conductor if task.each_conductor else periodic_passes.ANY
        timeout = runtime.settings.conductor.heartbeat_timeout
        resolution = periodic_passes.resolution(spacing[task.name], timeout)
        run = _recorded(partial(_record, runtime, task.name, holder), run, resolution)
        if task.at_most is not None:
            run = _at_most(task.at_most, run)
        tasks[task.name] = _spaced(spacing[task.name], run)
    for name, function in tasks.items():
        register = application.task(name=name, acks_late=False, ignore_result=True, shared=False)
        register(_watched(name, function))


def _reconciler_pass(
    application: Celery, runtime: Runtime, conductor: str, broker: redis.Redis
) -> Callable[[], None]:
    contact = Contact(runtime.settings.conductor.heartbeat_timeout)
    messages = backlog.messages_of(application, runtime.settings, broker)
    reach = application.breakers.of_reads()
    witness = RestoreGuard(broker, runtime.settings.broker.prefix, reach)
    consoles = Consoles(runtime)

    def reconcile() -> None:
        if not messages.marked():  # the broker was emptied: all sent messages are lost
            had_work = reconciler.has_had_work(runtime)
            count = reconciler.resend_all(runtime) if had_work else 0
            messages.mark(conductor)
            if had_work:  # a new service has a new broker; that is no loss
                logger.warning("broker.was_empty", resent=count)
                BROKER_LOSSES.add()
        reconciler.reconcile(runtime, contact, messages.backlog)
        consoles.restore()
        witness.check(runtime)

    return reconcile


def _record(runtime: Runtime, task: str, conductor: str) -> None:
    with runtime.write_connection() as connection:
        periodic_passes.complete(connection, task, conductor)


def _recorded(
    record: Callable[[], None],
    work: Callable[[], object],
    resolution: float,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[], None]:
    """
    Return a function that runs `work`, and records that it has ended without an error.

    resolution: seconds between two records of passes in quick succession.
    """
    recorded_at = -math.inf

    def run() -> None:
        nonlocal recorded_at
        work()
        if clock() - recorded_at >= resolution:
            recorded_at = clock()
            record()

    return run


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


def _spaced(
    seconds: float, work: Callable[[], object], clock: Callable[[], float] = time.monotonic
) -> Callable[[], None]:
    """
    Return a function that runs `work`, unless a run began less than half a period ago.

    Messages accumulate while no conductor takes them; of those the first runs. Their ages say less:
    they are differences between the clocks of two hosts.

    seconds: the period.
    """
    lock = threading.Lock()
    last_start = -seconds

    def run() -> None:
        nonlocal last_start
        with lock:
            if clock() - last_start < seconds / 2:
                return
            last_start = clock()
        work()

    return run


def _watched(name: str, work: Callable[..., object]) -> Callable[..., None]:
    """Return a function that runs a task, logs outages, and measures its duration."""

    def run(*arguments: object) -> None:
        started = time.monotonic()
        try:
            with outages.log_outages(name):
                work(*arguments)
        finally:
            PERIODIC_RUNS.observe(time.monotonic() - started, name)

    return run
