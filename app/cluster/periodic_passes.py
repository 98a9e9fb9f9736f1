"""
Completed passes of periodic tasks: the evidence that the service does its work.

A heartbeat proves that a process lives, not that its work is done. So each task has a row with the
time of its last completed pass, by the database's clock: one row for a task that any conductor
runs, one for each conductor for a task that it runs for its own nodes. A pass that fails, hangs, or
is never started leaves the row as it is, and the row grows old.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, func, insert, literal, select, update

from app.db.clock import age, now
from app.db.prepared import Prepared
from app.models import Conductor, PeriodicPass

#: Conductor of the row of a task that any conductor runs.
ANY = ""
#: Most seconds between two records of passes of one task, while each is completed.
RECORDED_EVERY = 5.0
#: Task -> what stops without it.
WITHOUT: Mapping[str, str] = {
    "ingot.reconcile": "lost messages are not sent again, nothing is taken over from dead"
    " conductors, and no deadline ends an operation",
    "ingot.power_sync": "power states, health and boot modes are not read, and no machine is"
    " corrected",
    "ingot.read_sensors": "sensors are not read, and their metrics end",
    "ingot.subscribe_to_events": "subscriptions to events of BMCs are not ordered and not renewed",
    "ingot.leave_bmcs": "BMCs of deleted nodes keep the subscriptions to their events",
    "ingot.read_bmc_changes": "changes that BMCs report are found by the sweeps alone",
    "ingot.power_recovery": "nodes stay in maintenance after their BMC is back",
    "ingot.prune_history": "the history of nodes grows",
    "ingot.check_allocations": "allocations stay in the state allocating",
    "ingot.compare_baselines": "machines that differ from their baselines are not seen",
    "ingot.check_switch_ports": "changes of switch ports by other hands are not seen",
    "ingot.end_expired_holds": "expired holds still bind their nodes",
    "ingot.advance_rollouts": "rollouts stand still",
    "ingot.prune_answered": "records of idempotency keys accumulate",
    "ingot.prune_audit": "audit records accumulate",
    "ingot.prune_sanitation": "sanitation reports accumulate",
    "ingot.prune_benchmarks": "measured numbers accumulate",
    "ingot.prove_audit": "the removal of newer audit records is not seen, and they accumulate",
    "ingot.prune_tokens": "ended tokens accumulate",
    "ingot.prune_change_events": "change events accumulate",
    "ingot.prune_rollouts": "ended rollouts accumulate",
    "ingot.prune_bmc_exchanges": "recorded exchanges with BMCs accumulate",
    "ingot.deliver_webhooks": "webhooks get no events",
    "ingot.send_notifications": "no notifications are sent",
    "ingot.send_power_updates": "Nova learns no change of the power",
    "ingot.forget_conductors": "conductors that are gone for good stay listed",
    "ingot.seal_older_rows": "secrets of older rows stay in plain text",
    "ingot.sweep_vault": "secrets in the vault accumulate that no node refers to",
    "ingot.boot_again": "machines that have not booted the agent are not booted again",
    "ingot.sweep_boot_files": "unused boot files and cached images fill the disk",
}

_TABLE = PeriodicPass.__table__
_ROW = (_TABLE.c.task == bindparam("of_task"), _TABLE.c.conductor == bindparam("by"))
_COMPLETE = Prepared(update(PeriodicPass).where(*_ROW).values(completed_at=now()))
_COMPLETE_OF_ALL = Prepared(
    update(PeriodicPass).where(_TABLE.c.task == bindparam("of_task")).values(completed_at=now())
)
_SILENT = age(Conductor.heartbeat_at)
_AGES = Prepared(
    select(
        _TABLE.c.task,
        _TABLE.c.conductor,
        _TABLE.c.period,
        age(func.coalesce(_TABLE.c.completed_at, _TABLE.c.expected_at)),
    )
    .outerjoin(Conductor, Conductor.hostname == _TABLE.c.conductor)
    .where(
        (_TABLE.c.conductor == literal(ANY))
        | (
            Conductor.online
            & Conductor.impediment.is_(None)
            & Conductor.drained_at.is_(None)
            & (_SILENT < bindparam("timeout"))
        )
    )
    .order_by(_TABLE.c.task, _TABLE.c.conductor)
)


@dataclass(frozen=True, slots=True)
class Pass:
    """The last completed pass of a task."""

    task: str  # name
    conductor: str  # that runs it for its own nodes; ANY
    seconds: float  # since its completion; without one, since passes are expected
    bound: float  # seconds after which the task counts as stopped

    @property
    def is_late(self) -> bool:
        return self.seconds > self.bound

    @property
    def without(self) -> str:
        """The work that stops without the task."""
        return WITHOUT.get(self.task, "its work is not done")

    def __str__(self) -> str:
        place = f" on conductor {self.conductor}" if self.conductor else ""
        return f"{self.task}{place} has not completed for {self.seconds:.0f} s"


def bound(period: float, timeout: float) -> float:
    """
    Return the seconds after which a task of a period counts as stopped.

    Two passes may be missed, in addition to the time of a takeover. timeout: seconds without a
    heartbeat after which a conductor counts as dead.
    """
    return 3 * period + 2 * timeout


def resolution(period: float, timeout: float) -> float:
    """
    Return the seconds between two records of passes: few records, and short against the bound.
    """
    return min(RECORDED_EVERY, bound(period, timeout) / 4)


def expect(connection: Connection, tasks: Mapping[str, float]) -> None:
    """
    Expect passes of the tasks that any conductor runs, and of no other ones.

    tasks: name -> period in seconds. Times of rows that exist are kept: no pass is completed
    because a beat is started.
    """
    rows = select(PeriodicPass.task).where(PeriodicPass.conductor == ANY)
    recorded_tasks = set(connection.scalars(rows))
    is_shared = PeriodicPass.conductor == ANY
    connection.execute(delete(PeriodicPass).where(is_shared, PeriodicPass.task.not_in(tasks)))
    for task in sorted(recorded_tasks & tasks.keys()):
        row = update(PeriodicPass).where(is_shared, PeriodicPass.task == task)
        connection.execute(row.values(period=tasks[task]))
    _insert(connection, {task: tasks[task] for task in tasks.keys() - recorded_tasks}, ANY)


def expect_of(connection: Connection, conductor: str, tasks: Mapping[str, float]) -> None:
    """Expect passes of the tasks of a conductor from now on: it has begun to do its work."""
    forget(connection, [conductor])
    _insert(connection, tasks, conductor)


def _insert(connection: Connection, tasks: Mapping[str, float], conductor: str) -> None:
    for task, period in sorted(tasks.items()):
        row = {"task": task, "conductor": conductor, "period": period, "expected_at": now()}
        connection.execute(insert(PeriodicPass).values(**row))


def forget(connection: Connection, conductors: Iterable[str]) -> None:
    """Delete the rows of conductors."""
    connection.execute(delete(PeriodicPass).where(PeriodicPass.conductor.in_(list(conductors))))


def complete(connection: Connection, task: str, conductor: str) -> None:
    """Record that a pass was completed now; conductor: ANY, or whose nodes it was about."""
    _COMPLETE.count(connection, {"of_task": task, "by": conductor})


def complete_of_all(connection: Connection, tasks: Iterable[str]) -> None:
    """Record that tasks have nothing to do, for any conductor."""
    _COMPLETE_OF_ALL.many(connection, [{"of_task": task} for task in tasks])


def passes(connection: Connection, timeout: float) -> list[Pass]:
    """
    Return the last completed passes, by task and conductor.

    Those of conductors that take no new work are left out: others do it. timeout: seconds without a
    heartbeat after which a conductor counts as dead.
    """
    return [
        Pass(task, conductor, max(float(seconds), 0.0), bound(period, timeout))
        for task, conductor, period, seconds in _AGES.all(connection, {"timeout": timeout})
    ]


def oldest(passes: Iterable[Pass]) -> dict[str, Pass]:
    """Return the oldest pass of each task, by its name: of the conductor that is behind."""
    return {
        task_pass.task: task_pass
        for task_pass in sorted(passes, key=lambda task_pass: task_pass.seconds)
    }
