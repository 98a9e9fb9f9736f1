"""
Beat: scheduler of periodic tasks.

Celery's beat with a lease of leadership in a database row, so a second beat stands by and takes
over within seconds. A beat leads only while it reaches both the database and the broker. The
schedule is code, so a loss of Redis data does not affect it.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import ClassVar
from uuid import uuid4

from celery.beat import ScheduleEntry, Scheduler, Service
from sqlalchemy import Engine, bindparam, insert, or_, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from app.broker import breakers, queue
from app.broker.backlog import messages_of
from app.broker.messages import TaskMessage
from app.broker.redis_broker import client
from app.cluster import periodic_passes
from app.config.settings import Settings
from app.db import diagnosis, transactions
from app.db.clock import after, now
from app.db.prepared import Prepared
from app.metrics import recording
from app.models import BeatLease
from app.observe import log
from app.process import kill_points, vital_signs
from app.runtime import connect
from workers.periodic import schedule
from workers.periodic.database_contact import Contact
from workers.periodic.lost_conductors import DeadConductorLog

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Seconds after which another beat may lead if the leader does not renew its lease.
LEASE = 5.0
#: Longest seconds between two ticks of a leader: two of them may be late before its lease runs out.
PACE = 2.0
#: Seconds by which entries may be late, to be sent in one tick: a tick writes to the database.
TOGETHER = 0.1
#: Seconds between two looks of a beat that stands by.
STAND_BY = 1.0

_LEASE = BeatLease.__table__
_LEAD = Prepared(
    update(BeatLease)
    .where(
        _LEASE.c.id == 1,
        or_(_LEASE.c.holder == bindparam("leader"), _LEASE.c.until < now()),
    )
    .values(
        holder=bindparam("leader"),
        until=after(bindparam("seconds")),
        sent_at=after(bindparam("sent")),
    )
    .returning(_LEASE.c.id)
)
_LED = Prepared(select(_LEASE.c.id))
_LEAD_FIRST = Prepared(
    insert(BeatLease).values(
        id=1,
        holder=bindparam("leader"),
        until=after(bindparam("seconds")),
        sent_at=after(bindparam("sent")),
    )
)


def lead(engine: Engine, holder: str, seconds: float = LEASE, silence: float = 0.0) -> bool:
    """
    Take or renew the leadership; whether `holder` leads now.

    silence: seconds since it last sent a message to the broker.
    """
    with transactions.write_connection(engine) as connection:
        leader = {"leader": holder, "seconds": seconds, "sent": -silence}
        if _LEAD.first(connection, leader):
            return True
        if _LED.first(connection, {}):
            return False
        _LEAD_FIRST.count(connection, leader)
    return True


def step_down(engine: Engine, holder: str) -> None:
    """End the leadership of `holder`, so that another beat leads at once."""
    with transactions.transaction(engine) as session:
        session.execute(
            update(BeatLease)
            .where(BeatLease.id == 1, BeatLease.holder == holder)
            .values(until=now())
        )


class LeasedScheduler(Scheduler):
    """Sends due tasks while this beat leads."""

    engine: ClassVar[Engine]
    holder: ClassVar[str]
    send: ClassVar[Callable[[TaskMessage], bool]]
    probe: ClassVar[Callable[[], None]]  # raises one of `breakers.FAILURES`: the broker is away
    lookout: ClassVar[DeadConductorLog]
    expected: ClassVar[Mapping[str, float]] = {}  # tasks that any conductor runs -> their periods
    leading: ClassVar[bool] = False
    has_expected_passes: ClassVar[bool] = (
        False  # whether this leader has expected the tasks' passes
    )
    #: Monotonic time of the first of the last failed sends; unset if the last send succeeded.
    silent_since: ClassVar[float | None] = None
    #: Monotonic time of the last successful send, or of the probe before the lead.
    last_sent_at: ClassVar[float] = 0.0
    #: Trouble of the present tick with the database or the broker, if there is any.
    outage: ClassVar[str] = ""
    #: Tasks that had no work when they were due, since that was recorded.
    idle: ClassVar[set[str]] = set()
    idle_recorded: ClassVar[float] = 0.0  # monotonic time
    resolution: ClassVar[float] = periodic_passes.RECORDED_EVERY  # seconds between these records

    def setup_schedule(self) -> None:
        self.merge_inplace(self.app.conf.beat_schedule)

    def tick(self, *args: object, **kwargs: object) -> float:
        type(self).outage = ""
        wait = self._tick(*args, **kwargs)
        vital_signs.work(self.outage or ("leads" if self.leading else "stands by"))
        return wait

    def _tick(self, *args: object, **kwargs: object) -> float:
        kill_points.reach("beating")
        leading = self._reaches_broker() and self._leads()
        if leading != self.leading:
            type(self).leading = leading
            logger.info("beat.leads" if leading else "beat.stands_by", holder=self.holder)
            type(self).has_expected_passes = False
        if not leading:
            return STAND_BY
        if not self.has_expected_passes:
            self._unless_away(self._begin)
        self._unless_away(self.lookout.check)
        if self.idle and time.monotonic() - self.idle_recorded >= self.resolution:
            self._unless_away(self._record_idle)
        end = time.monotonic() + PACE / 2  # then the lease is renewed first
        wait = float(super().tick(*args, **kwargs))
        while not wait and time.monotonic() < end:  # Celery sends one entry per tick
            wait = float(super().tick(*args, **kwargs))
        return min(max(wait, TOGETHER), PACE)

    def _unless_away(self, work: Callable[[], None]) -> None:
        """Run `work`; log it if the database is away."""
        try:
            work()
        except SQLAlchemyError as error:
            self._note_outage("beat.no_database", diagnosis.reason(error))

    def _note_outage(self, event: str, reason: str) -> None:
        type(self).outage = f"{event.rpartition('.')[2].replace('_', ' ')}: {reason}"
        seldom.warning(event, detail=reason)

    def _begin(self) -> None:
        """
        Begin to lead: expect passes of the scheduled tasks, and count their periods from the last.

        Celery counts from the start of the beat: a daily task would never run if beats live for
        less than a day.
        """
        with transactions.write_connection(self.engine) as connection:
            periodic_passes.expect(connection, self.expected)
            passes = periodic_passes.passes(connection, self.lookout.timeout)
        for entry in self.schedule.values():
            ages = [task_pass.seconds for task_pass in passes if task_pass.task == _task_of(entry)]
            if ages:
                last_run_at = schedule.beat_time() - timedelta(seconds=max(ages))
                entry.last_run_at = min(entry.last_run_at, last_run_at)
        self.populate_heap()
        type(self).has_expected_passes = True

    def _record_idle(self) -> None:
        """Record tasks without work as completed: to find nothing to do is all there is to do."""
        with transactions.write_connection(self.engine) as connection:
            periodic_passes.complete_of_all(connection, sorted(self.idle))
        self.idle.clear()
        type(self).idle_recorded = time.monotonic()

    def _leads(self) -> bool:
        """Take or renew the leadership; whether this beat leads now."""
        try:
            silence = time.monotonic() - self.last_sent_at
            return lead(self.engine, self.holder, silence=silence)
        except IntegrityError:  # two beats inserted the first row; the other one leads
            return False
        except SQLAlchemyError as error:
            self._note_outage("beat.no_database", diagnosis.reason(error))
            return False

    def _reaches_broker(self) -> bool:
        """
        Whether this beat can send; step down if it leads, and could not for a whole lease.

        A beat that stands by asks the broker before it leads.
        """
        if self.leading:
            if self.silent_since is None or time.monotonic() - self.silent_since < LEASE:
                return True
            with suppress(SQLAlchemyError):  # then the lease expires by itself
                step_down(self.engine, self.holder)
            return False
        try:
            type(self).probe()
        except breakers.FAILURES as error:
            self._note_outage("beat.no_broker", str(error) or type(error).__name__)
            return False
        type(self).silent_since, type(self).last_sent_at = None, time.monotonic()
        return True

    def adjust(self, n: float, drift: float = 0.0) -> float:
        """Return the wait for an entry: Celery's would end before the entry is due."""
        return n + drift

    #: None, as Celery's producer would block without a timeout while the broker is away.
    producer = None

    def apply_entry(self, entry: ScheduleEntry, producer: None = None) -> None:
        """
        Send a due task that has work.

        A task is skipped until it is due again if the database or the broker is away.
        """
        task = _task_of(entry)
        try:
            if not schedule.has_work(self.engine, task):
                self.idle.add(task)
                return
        except SQLAlchemyError as error:
            self._note_outage("beat.no_database", diagnosis.reason(error))
            return
        self.idle.discard(task)
        if type(self).send(TaskMessage(entry.task, entry.args)):
            type(self).silent_since, type(self).last_sent_at = None, time.monotonic()
        elif self.silent_since is None:
            type(self).silent_since = time.monotonic()


def _task_of(entry: ScheduleEntry) -> str:
    """Return the name of the task that an entry runs, also by the task that fans it out."""
    name: str = (entry.task, *entry.args)[-1]
    return name


class _Service(Service):
    """Celery's beat; a lookup of its scheduler by name would read the metadata of all packages."""

    def get_scheduler(self, lazy: bool = False, **_: object) -> LeasedScheduler:
        return LeasedScheduler(app=self.app, max_interval=self.max_interval, lazy=lazy)


def main(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT."""
    kill_points.arm(settings.default.kill_points, "beat")
    recording.start()
    application = queue.celery(settings)
    application.conf.beat_schedule = dict(schedule.schedule(settings))
    application.conf.beat_max_loop_interval = PACE
    LeasedScheduler.engine = connect(settings)
    LeasedScheduler.expected = schedule.periods(settings, each_conductor=False)
    timeout, broker = settings.conductor.heartbeat_timeout, settings.broker
    periods = (
        *LeasedScheduler.expected.values(),
        *schedule.periods(settings, each_conductor=True).values(),
    )
    LeasedScheduler.resolution = periodic_passes.resolution(min(periods, default=0.0), timeout)
    redis = client(broker.url, min(broker.connect_timeout, LEASE / 5))
    LeasedScheduler.probe = staticmethod(messages_of(application, settings, redis).probe)
    LeasedScheduler.lookout = DeadConductorLog(
        LeasedScheduler.engine,
        redis,
        broker.prefix,
        timeout,
        Contact(timeout),
    )
    LeasedScheduler.send = staticmethod(queue.sender(application))
    LeasedScheduler.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4()}"
    service = _Service(application, max_interval=PACE)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    service.start()
    vital_signs.stop("ends its lead")
    with suppress(SQLAlchemyError):  # the lease expires by itself
        step_down(LeasedScheduler.engine, LeasedScheduler.holder)
