"""
Circuit breaker for servers that a process needs: database, Redis, RabbitMQ.

A thread that waits for an unreachable server is blocked. So after a failure one thread tries the
server, and calls of the other threads fail at once until the next try. With a probe that is a
thread of its own, and no call waits.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.observe import log

logger = log.get(__name__)

#: Shortest and longest pause in seconds after a failed try; in between, as long as the try took.
#: The longest one delays the return of the server: it is reached again within three seconds.
PAUSE, LONGEST_PAUSE = 1.0, 2.0
#: Seconds without a call after which the probe ends; the next call tries the server itself.
UNUSED = 10.0
#: Most seconds during which the try of one thread keeps the others from trying.
TRY = 60.0
#: Seconds between log lines about one outage.
REMIND = 30.0


class CircuitBreaker:
    """
    Circuit breaker of one server.

    events: log events at the start and the end of an outage.
    failures: exceptions that mean the server does not answer.
    away: exception of refused calls; a subclass if the last try has failed with one.
    probe: tries the server, in a thread, until it answers; raises one of `failures`. Without a
    probe, calls try it.
    """

    def __init__(
        self,
        events: tuple[str, str],
        failures: tuple[type[Exception], ...],
        away: type[Exception],
        clock: Callable[[], float] = time.monotonic,
        probe: Callable[[], None] | None = None,
    ) -> None:
        self._probe, self._probing, self._called = probe, False, 0.0
        self._events, self._failures, self._away, self._clock = events, failures, away, clock
        self._lock = threading.Lock()
        self._again = away
        self._lost = self._logged = False
        self._next = self._since = 0.0
        self._log_next = float("-inf")

    @contextmanager
    def guard(self) -> Iterator[None]:
        """
        Watch a call to the server.

        Raises `away`: the server did not answer the last try, and the pause is not over.
        """
        start = self._called = self._clock()
        if self._lost:
            self._reserve_try(start)
        try:
            yield
        except self._failures as error:
            self._failed(start, error)
            raise
        if self._lost:
            self._answered()

    def _reserve_try(self, now: float) -> None:
        with self._lock:
            if self._lost and (self._probing or now < self._next):
                raise self._again("it did not answer a moment ago")
            self._next = now + TRY

    def _failed(self, start: float, error: Exception) -> None:
        now = self._clock()
        with self._lock:
            if not self._lost:
                self._lost, self._since = True, now
            self._again = type(error) if isinstance(error, self._away) else self._away
            self._next = now + min(max(now - start, PAUSE), LONGEST_PAUSE)
            if self._probe is not None and not self._probing:
                self._probing = True
                threading.Thread(target=self._try, name="probe", daemon=True).start()
            if now < self._log_next:
                return
            self._logged, self._log_next = True, now + REMIND
        detail = str(error) or type(error).__name__
        logger.warning(self._events[0], detail=detail)

    def _answered(self) -> None:
        with self._lock:
            self._lost, logged, self._logged = False, self._logged, False
            seconds = round(self._clock() - self._since, 1)
        if logged:
            logger.info(self._events[1], seconds=seconds)

    def _try(self) -> None:
        """Try the server until it answers, or until no call has come for a while."""
        assert self._probe is not None
        try:
            while self._clock() - self._called < UNUSED:
                time.sleep(PAUSE)
                start = self._clock()
                try:
                    self._probe()
                except self._failures as error:
                    self._failed(start, error)
                else:
                    self._answered()
                    return
        finally:
            self._probing = False
