"""
Periodic tasks, one row each, and their schedule.

The beat sends the tasks, and the conductors' control processes run them
(`workers.periodic.control_tasks`). A task for any conductor goes to the shared queue; a task for
the nodes of each conductor is fanned out from there.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.schedules import schedule as period
from sqlalchemy import Engine

from app.agents import silent_boots
from app.baselines import comparison
from app.config.settings import Settings
from app.db import transactions
from app.db.prepared import Prepared
from app.inventory import bmc_events, holds, scheduling
from app.rollouts import rollout_waves, rollouts
from app.runtime import Runtime
from workers.periodic import (
    bmc_event_reads,
    boot_files,
    event_subscriptions,
    power_sync,
    proofs,
    pruning,
    sealing,
    sensor_sweep,
    switch_ports,
    webhooks,
)
from workers.periodic.bmc_network import BmcNetwork, Sweep
from workers.periodic.notifications import Notifications
from workers.periodic.power_updates import PowerUpdates

RECONCILE = "ingot.reconcile"
FAN_OUT = "ingot.fan_out"
#: Seconds between searches for events to deliver to webhooks, RabbitMQ or Nova: without one, a
#: search is one statement by an index.
DELIVERY_INTERVAL = 2.0
#: Seconds between searches for BMCs to subscribe to, or to leave.
SUBSCRIPTION_INTERVAL = 60.0


#: Returns the period of a task in seconds; 0 or None disables it.
Period = Callable[[Settings], float | None]


@dataclass(frozen=True, slots=True)
class Control:
    """A conductor's control process, which runs the tasks."""

    runtime: Runtime
    conductor: str  # name
    reconcile: Callable[[], None]  # one pass of the reconciler
    webhooks: webhooks.Webhooks
    notifications: Notifications | None  # None: they are off
    network: BmcNetwork | None = None  # None: it is not judged
    power_updates: PowerUpdates | None = None  # None: they are off

    def sync_power(self) -> None:
        """Compare the power states of this conductor's nodes, and judge its path to the BMCs."""
        sweep = Sweep()
        power_sync.sync(self.runtime, self.conductor, sweep.watch)
        if self.network is not None:
            self.network.judge(sweep)


@dataclass(frozen=True, slots=True)
class Periodic:
    """Declaration of a periodic task."""

    name: str
    run: Callable[[Control], object]
    period: Period
    each_conductor: bool = False  # run by each conductor, for its own nodes or files; else by one
    at_most: int | None = None  # runs at once in a process; None: no limit
    # selects a row while there is work, so that beat sends no other messages; without it, beat
    # always sends
    work: Prepared | None = None


def by_one(name: str, run: Callable[[Runtime], object], period: Period, **options: Any) -> Periodic:
    """Declare a task that any conductor runs. options: `at_most` and `work`."""
    return Periodic(name, lambda control: run(control.runtime), period, **options)


def by_each(
    name: str, run: Callable[[Runtime, str], object], period: Period, work: Prepared
) -> Periodic:
    """Declare a task that each conductor, by its name, runs for its own nodes, once at a time."""
    return Periodic(
        name,
        lambda control: run(control.runtime, control.conductor),
        period,
        each_conductor=True,
        at_most=1,
        work=work,
    )


PERIODIC = (
    Periodic(RECONCILE, lambda control: control.reconcile(),
             lambda settings: settings.conductor.reconcile_interval,
             # a blocked pass does not stop the next, and threads remain for other tasks
             at_most=2),
    Periodic("ingot.power_sync", lambda control: control.sync_power(),
             lambda settings: settings.conductor.sync_power_state_interval,
             each_conductor=True, at_most=1, work=power_sync.NODE_ONE),
    by_each("ingot.power_recovery", power_sync.recover,
            lambda settings: settings.conductor.power_failure_recovery_interval,
            power_sync.NODE_ONE),
    by_each("ingot.read_sensors", sensor_sweep.sweep,
            lambda settings: (
                settings.sensor_data.interval if settings.sensor_data.send_sensor_data else None
            ),
            power_sync.NODE_ONE),
    by_each("ingot.subscribe_to_events", event_subscriptions.check,
            lambda settings: (
                min(SUBSCRIPTION_INTERVAL, settings.redfish.event_check_interval)
                if settings.redfish.event_receiver_url
                else None
            ),
            power_sync.NODE_ONE),
    by_each("ingot.leave_bmcs", event_subscriptions.leave,
            lambda settings: min(SUBSCRIPTION_INTERVAL, settings.redfish.event_check_interval),
            event_subscriptions.ROW_ONE),
    by_each("ingot.read_bmc_changes", bmc_event_reads.read_changes,
            lambda settings: DELIVERY_INTERVAL if settings.redfish.event_receiver_url else None,
            bmc_events.HINT_ONE),
    by_one("ingot.prune_history", pruning.prune_history,
           lambda settings: settings.conductor.node_history_cleanup_interval),
    by_one("ingot.check_allocations", scheduling.resend_due,
           lambda settings: settings.conductor.check_allocations_interval,
           work=scheduling.DUE_ONE),
    by_one("ingot.compare_baselines", comparison.compare_due,
           lambda settings: 5 if settings.conductor.check_baselines_interval else None,
           at_most=1, work=comparison.DUE_ONE),
    by_one("ingot.end_expired_holds", holds.end_expired, lambda _settings: 5,
           at_most=1, work=holds.EXPIRED_ONE),
    by_one("ingot.advance_rollouts", rollout_waves.advance_all, lambda _settings: 1,
           at_most=1, work=rollouts.UNENDED_ONE),
    by_one("ingot.prune_answered", pruning.prune_answered, lambda _settings: 600),
    by_one("ingot.prune_audit", pruning.prune_audit, lambda _settings: 600, at_most=1),
    by_one("ingot.prune_sanitation", pruning.prune_sanitation,
           lambda settings: 3600 if settings.sanitation.keep_days else None, at_most=1),
    by_one("ingot.prune_benchmarks", pruning.prune_benchmarks,
           lambda settings: 3600 if settings.conductor.benchmarks_lifetime else None, at_most=1),
    by_one("ingot.prove_audit", proofs.prove,
           lambda settings: 60 if settings.audit.enabled else None, at_most=1),
    by_one("ingot.prune_tokens", pruning.prune_tokens,
           lambda settings: 600 if settings.identity.ended_tokens_lifetime else None),
    by_one("ingot.prune_change_events", pruning.prune_change_events,
           lambda settings: 600 if settings.conductor.change_events_lifetime else None),
    by_one("ingot.prune_rollouts", pruning.prune_rollouts,
           lambda settings: 600 if settings.conductor.rollouts_lifetime else None),
    by_one("ingot.prune_bmc_exchanges", pruning.prune_bmc_exchanges, lambda _settings: 3600),
    Periodic("ingot.deliver_webhooks", lambda control: control.webhooks.start_due(),
             lambda _settings: DELIVERY_INTERVAL, at_most=1, work=webhooks.DUE_ONE),
    Periodic("ingot.send_notifications",
             lambda control: control.notifications.start_due() if control.notifications else None,
             lambda settings: DELIVERY_INTERVAL if settings.default.notification_level else None,
             at_most=1),
    Periodic("ingot.send_power_updates",
             lambda control: control.power_updates.start_due() if control.power_updates else None,
             lambda settings: DELIVERY_INTERVAL if settings.nova.is_on else None, at_most=1),
    by_each("ingot.check_switch_ports", switch_ports.check,
            lambda settings: settings.switch.check_interval, switch_ports.SWITCH_ONE),
    by_one("ingot.forget_conductors", pruning.forget_conductors,
           lambda settings: settings.conductor.conductor_cleanup_interval),
    by_one("ingot.seal_older_rows", sealing.seal_older_rows,
           lambda settings: 60 if settings.database.has_key else None, at_most=1),
    by_one("ingot.sweep_vault", pruning.sweep_vault,
           lambda settings: 60 if settings.vault.address else None, at_most=1),
    by_one("ingot.boot_again", silent_boots.retry_silent_boots,
           lambda settings: (
               settings.pxe.boot_retry_timeout and settings.pxe.boot_retry_check_interval
           )),
    Periodic("ingot.sweep_boot_files", lambda control: boot_files.sweep(control.runtime),
             lambda _settings: 300, each_conductor=True),
)  # fmt: skip

_WORK = {task.name: task.work for task in PERIODIC}
#: Time 0 of the beat's clock, see `beat_time`.
_ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)


def beat_time() -> datetime:
    """
    Return the time by which the beat sends tasks: it advances with the monotonic clock.

    By the host's clock, all tasks would stop for an hour when that is set back by an hour.
    """
    return _ORIGIN + timedelta(seconds=time.monotonic())


def has_work(engine: Engine, task: str) -> bool:
    """Whether a periodic task has work, as far as one statement can tell."""
    query = _WORK.get(task)
    if query is None:
        return True
    with transactions.read_connection(engine) as connection:
        return query.first(connection, {}) is not None


def schedule(settings: Settings) -> Mapping[str, dict[str, object]]:
    """Return the beat's schedule, by entry name."""
    entries = {}
    for task in PERIODIC:
        seconds = task.period(settings)
        if not seconds:
            continue
        called = (FAN_OUT, task.name) if task.each_conductor else (task.name,)
        entries[".".join(called)] = {
            "task": called[0],
            "schedule": period(seconds, nowfun=beat_time),
            "args": called[1:],
        }
    return entries


def periods(settings: Settings, *, each_conductor: bool) -> Mapping[str, float]:
    """Return the periods in seconds of the tasks that run, by name; each_conductor: of which."""
    tasks = [task for task in PERIODIC if task.each_conductor == each_conductor]
    return {task.name: seconds for task in tasks if (seconds := task.period(settings))}
