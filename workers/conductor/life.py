"""Life of a conductor: its registration, its heartbeats, what impedes it, and its drain."""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.cluster import conductors, periodic_passes
from app.db import diagnosis
from app.db.transactions import connection_of
from app.lifecycle.operation_states import Actor
from app.observe import log
from app.process import vital_signs
from app.text.sentences import counted
from workers.conductor import drain
from workers.conductor.conductor import Conductor
from workers.conductor.promotion import Timeline
from workers.periodic import schedule
from workers.restoration import restore

T = TypeVar("T")
logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Seconds between two rounds of redispatch while the conductor drains.
REDISPATCH_INTERVAL = 0.2
#: Seconds for the last round.
REDISPATCH_TIMEOUT = 5.0
#: Most operations that a drained conductor redispatches between two heartbeats.
REDISPATCHED = 100
#: Seconds until a failed heartbeat is retried, and between heartbeats of a conductor that takes no
#: work.
HEARTBEAT_RETRY = 1.0


class Life:
    """
    Registration, heartbeats and drain of the conductor.

    internal_impediments, external_impediments: functions that return why this conductor can do no
    new work, or nothing if it can. Another incarnation would not have the internal ones, so with
    them a heartbeat is no vital sign.
    """

    def __init__(
        self,
        conductor: Conductor,
        control: int,
        internal_impediments: Sequence[Callable[[], str | None]] = (),
        external_impediments: Sequence[Callable[[], str | None]] = (),
    ) -> None:
        self.conductor = conductor
        # the broker first: without it no echo is answered, which looks like an internal one
        self._impediments = (
            (self._of_broker, False),
            *((impediment, True) for impediment in internal_impediments),
            *((impediment, False) for impediment in external_impediments),
        )
        self._impeded = False
        self._drained = False  # by an operator
        self._stopping = False
        self.control = control  # pid of the control process
        #: Set when the conductor is registered, and its database is known to be the newest.
        self.registered = threading.Event()
        #: Monotonic time of the last answer of the broker.
        self._broker_answered = time.monotonic()
        self._timeline = Timeline(conductor)
        self._ended = threading.Event()
        self._redispatching: threading.Thread | None = None

    def start(self, **_: object) -> None:
        """Register the conductor, now that its worker consumes its queue; send heartbeats."""
        threading.Thread(target=self._run, name="life", daemon=True).start()

    def _run(self) -> None:
        interval = self.conductor.runtime.settings.conductor.heartbeat_interval
        while not self._ended.is_set():
            if os.waitpid(self.control, os.WNOHANG)[0]:
                self._stop("conductor.control_died")
                return
            try:
                if not self.registered.is_set():
                    self._register()
                elif not self._heartbeat():
                    self._stop("conductor.replaced")
                    return
                is_idle = self._impeded or self._drained
                if self._drained:
                    self._hand_over(REDISPATCHED)
                # more often while it takes no work, so that the end of that is noticed at once
                self._ended.wait(min(interval, HEARTBEAT_RETRY) if is_idle else interval)
                continue
            except SQLAlchemyError as error:
                reason = diagnosis.reason(error)
                seldom.warning("conductor.no_database", detail=reason)
                self._sign(f"the database does not answer: {reason}")
            except RedisError as error:
                seldom.warning("broker.unreachable", detail=str(error))
                self._sign(f"the broker does not answer: {error}")
            except Exception:  # without heartbeats, other conductors take over its nodes
                self._stop("conductor.crashed", exc_info=True)
                return
            self._ended.wait(min(interval, HEARTBEAT_RETRY))

    def _register(self) -> None:
        runtime, name = self.conductor.runtime, self.conductor.name
        incarnation = self.conductor.incarnation
        interfaces = {
            hardware_type: {kind: list(by_name) for kind, by_name in kinds.items()}
            for hardware_type, kinds in runtime.drivers.types.items()
        }
        group = runtime.settings.conductor.conductor_group.lower()
        checked, watermark = time.monotonic(), self.conductor.witness.recall()

        def register(session: Session) -> tuple[int, bool]:
            conductors.register(session, name, incarnation, group, interfaces)
            self._expect_passes(session)
            return restore.advance(session, watermark), conductors.is_drained(session, name)

        mark, is_drained = self._in_newest(register)
        self.conductor.set_watermark(mark, checked)
        self._set_drained(is_drained)  # before it runs a step
        self._timeline.look()
        self.registered.set()
        self._sign(None)
        logger.info("conductor.registered", incarnation=incarnation, group=group)

    def _expect_passes(self, session: Session) -> None:
        settings = self.conductor.runtime.settings
        tasks = schedule.periods(settings, each_conductor=True)
        periodic_passes.expect_of(connection_of(session), self.conductor.name, tasks)

    def _heartbeat(self) -> bool:
        """
        Send a heartbeat; False: another incarnation has registered with this name.

        Compares the database's watermark with the highest one in Redis. While Redis does not
        answer, the conductor's mark is sufficient as long as it is valid.
        """
        conductor, checked = self.conductor, time.monotonic()
        watermark, valid = conductor.watermark, conductor.has_valid_watermark(checked)
        try:
            watermark, valid = max(watermark, conductor.witness.recall()), True
            self._broker_answered = time.monotonic()
        except RedisError as error:
            seldom.warning("broker.unreachable", detail=str(error))
        impediment, is_internal = self._impediment()
        returns = self._impeded and impediment is None

        def beat(session: Session) -> tuple[int | None, bool]:
            if not conductors.heartbeat(session, conductor.name, conductor.incarnation, impediment):
                return None, self._drained
            is_drained = conductors.is_drained(session, conductor.name)
            if returns or (self._drained and not is_drained):
                self._expect_passes(session)
            return restore.advance(session, watermark), is_drained

        mark, is_drained = self._in_newest(beat)
        if mark is not None and valid:
            conductor.set_watermark(mark, checked)
        self._set_drained(is_drained)
        self._note(impediment)
        self._sign(impediment and f"impeded: {impediment}", works=not is_internal)
        if mark is not None:
            self._timeline.look()
        return mark is not None

    def _impediment(self) -> tuple[str | None, bool]:
        """Return why this conductor can do no new work, if so, and whether that is internal."""
        for find, is_internal in self._impediments:
            if impediment := find():
                return impediment, is_internal
        return None, False

    def _sign(self, trouble: str | None, *, works: bool = True) -> None:
        """
        Give a vital sign; trouble: if there is any.

        works: whether another incarnation would work no better: it would not without a database.
        """
        status = trouble or self._progress()
        (vital_signs.work if works and self.registered.is_set() else vital_signs.report)(status)

    def _progress(self) -> str:
        return f"{counted(len(self.conductor.attempts), 'step')} in progress"

    def _note(self, impediment: str | None) -> None:
        """Log the begin and the end of impediments."""
        if impediment and not self._impeded:
            logger.warning("conductor.impeded", reason=impediment)
        elif self._impeded and not impediment:
            logger.info("conductor.able")
        self._impeded = impediment is not None

    def _set_drained(self, is_drained: bool) -> None:
        """Follow an operator's request: claim no more steps, or claim them again."""
        if is_drained and not self._drained:
            self.conductor.draining.set()
            logger.info("conductor.drained")
        elif self._drained and not is_drained:
            self.conductor.draining.clear()
            if self._stopping:  # set before `draining`, which was perhaps just cleared
                self.conductor.draining.set()
            logger.info("conductor.undrained")
        self._drained = is_drained

    def _of_broker(self) -> str | None:
        """
        Return the impediment of a conductor that does not reach Redis; None: it does.

        Without it, it gets no messages: operations that it has not begun are sent to others.
        """
        silent = time.monotonic() - self._broker_answered
        if silent < self.conductor.runtime.settings.conductor.heartbeat_timeout / 2:
            return None
        return f"the broker has not answered for {silent:.0f} s"

    def _in_newest(self, work: Callable[[Session], T]) -> T:
        """Run a transaction; if the database turns out to be restored, declare that first."""
        runtime = self.conductor.runtime
        while True:
            try:
                with runtime.transaction(Actor.CONDUCTOR) as session:
                    return work(session)
            except restore.DatabaseRewound as found:
                self.conductor.witness.declare_restored(runtime, found)

    def _stop(self, event: str, **facts: object) -> None:
        """Stop this process as by a signal: it drains, and its supervisor starts a new one."""
        logger.error(event, **facts)
        os.kill(os.getpid(), signal.SIGTERM)

    def drain(self, **_: object) -> None:
        """Unregister the conductor, and redispatch its operations while running steps complete."""
        conductor = self.conductor
        if self._stopping:
            return
        self._stopping = True
        vital_signs.stop(f"drains, {self._progress()}")
        try:
            with conductor.runtime.transaction() as session:
                conductors.mark_offline(session, conductor.name, conductor.incarnation)
        except SQLAlchemyError as error:  # the others see that the heartbeats stop
            seldom.warning("conductor.no_database", detail=diagnosis.reason(error))
        conductor.draining.set()
        # in a thread, as the worker is about to wait for the running steps
        self._redispatching = threading.Thread(target=self._redispatch, name="drain", daemon=True)
        self._redispatching.start()

    def _redispatch(self) -> None:
        """Redispatch unclaimed operations, and resume those that wait for agents, until the end."""
        is_last = False
        while not is_last:
            is_last = self._ended.is_set()
            self._hand_over()
            self._ended.wait(REDISPATCH_INTERVAL)

    def _hand_over(self, limit: int | None = None) -> None:
        """Redispatch unclaimed operations, `limit` at most, and resume waits for agents."""
        drain.redispatch_all(self.conductor, limit)
        try:
            self.conductor.wait_monitor.resume_all()
        except SQLAlchemyError as error:  # heartbeats resume the operations, a little later
            seldom.warning("conductor.no_database", detail=diagnosis.reason(error))

    def end(self) -> None:
        self._ended.set()
        self.drain()
        if self._redispatching is not None:
            self._redispatching.join(REDISPATCH_TIMEOUT)
