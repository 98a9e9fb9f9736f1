"""
Beat: the clock of periodic work.

Celery's beat, whose leader is a leased row in the database and whose schedule is code: a second one
stands by and takes over within seconds, and nothing that Redis forgets is missed.
"""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar
from uuid import uuid4

from celery.beat import ScheduleEntry, Scheduler, Service
from sqlalchemy import Engine, bindparam, insert, or_, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from app import db, killpoints, log, queue
from app.broker import client
from app.db import after, now
from app.models import BeatLease
from app.prepared import Prepared
from app.runtime import Call
from app.settings import Settings
from workers import periodic
from workers.lost import Lookout
from workers.reconciler import Contact

logger = log.get(__name__)
seldom = log.Seldom(logger)

#: Seconds that a leader may be silent before another one leads.
LEASE = 5.0
#: Longest seconds between two ticks of a leader: two of them may be late before its lease runs out.
PACE = 2.0
#: Seconds between two looks of a beat that stands by.
STAND_BY = 1.0

_LEASE = BeatLease.__table__
_LEAD = Prepared(
    update(BeatLease)
    .where(
        _LEASE.c.id == 1,
        or_(_LEASE.c.holder == bindparam("leader"), _LEASE.c.until < now()),
    )
    .values(holder=bindparam("leader"), until=after(bindparam("seconds")))
    .returning(_LEASE.c.id)
)
_LED = Prepared(select(_LEASE.c.id))


def lead(engine: Engine, holder: str, seconds: float = LEASE) -> bool:
    """Take or keep the lead; whether `holder` has it now."""
    with db.writing(engine) as connection:
        if _LEAD.first(connection, {"leader": holder, "seconds": seconds}):
            return True
        if _LED.first(connection, {}):
            return False
        connection.execute(insert(BeatLease).values(id=1, holder=holder, until=after(seconds)))
    return True


def step_down(engine: Engine, holder: str) -> None:
    """Let the next one lead at once."""
    with db.transaction(engine) as session:
        session.execute(
            update(BeatLease)
            .where(BeatLease.id == 1, BeatLease.holder == holder)
            .values(until=now())
        )


class LeasedScheduler(Scheduler):
    """Sends what is due, as long as it leads."""

    engine: ClassVar[Engine]
    holder: ClassVar[str]
    send: ClassVar[Callable[[Call], bool]]
    lookout: ClassVar[Lookout]
    leading: ClassVar[bool] = False

    def setup_schedule(self) -> None:
        self.merge_inplace(self.app.conf.beat_schedule)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        killpoints.reach("beating")
        try:
            leading = lead(self.engine, self.holder)
        except IntegrityError:  # both saw no row; the other one was first
            leading = False
        except SQLAlchemyError as error:
            seldom.warning("beat.no_database", detail=db.reason(error))
            leading = False
        if leading != self.leading:
            type(self).leading = leading
            logger.info("beat.leads" if leading else "beat.stands_by", holder=self.holder)
        if not leading:
            return STAND_BY
        try:
            self.lookout.look()
        except SQLAlchemyError as error:
            seldom.warning("beat.no_database", detail=db.reason(error))
        end = time.monotonic() + PACE / 2  # then the lease is renewed first
        wait = float(super().tick(*args, **kwargs))
        while not wait and time.monotonic() < end:  # Celery sends one entry per tick
            wait = float(super().tick(*args, **kwargs))
        return min(wait, PACE)

    #: Celery's own would wait for the broker here, and for nothing else, however long it takes.
    producer = None

    def apply_entry(self, entry: ScheduleEntry, producer: None = None) -> None:
        """Send what is due, if the broker takes it; else its next turn comes."""
        type(self).send(Call(entry.task, entry.args, expires=entry.options["expires"]))


def main(settings: Settings) -> None:
    """Run until a signal says to stop."""
    killpoints.arm(settings.default.kill_points, "beat")
    application = queue.celery(settings)
    application.conf.beat_schedule = dict(periodic.schedule(settings))
    application.conf.beat_max_loop_interval = PACE
    LeasedScheduler.engine = db.connect(
        settings.database.connection, **settings.database.limits | {"max_pool_size": 1}
    )
    timeout, broker = settings.conductor.heartbeat_timeout, settings.broker
    LeasedScheduler.lookout = Lookout(
        LeasedScheduler.engine,
        client(broker.url, min(broker.connect_timeout, LEASE / 5)),
        broker.prefix,
        timeout,
        Contact(timeout),
    )
    LeasedScheduler.send = staticmethod(queue.sender(application))
    LeasedScheduler.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4()}"
    service = Service(application, max_interval=PACE, scheduler_cls=LeasedScheduler)
    import signal  # beat's service leaves signals to whoever runs it

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    service.start()
    with suppress(SQLAlchemyError):  # then the lease runs out
        step_down(LeasedScheduler.engine, LeasedScheduler.holder)
