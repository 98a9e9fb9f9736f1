"""
Circuit breaker for servers that a process needs: database, Redis, RabbitMQ.

A thread that waits for an unreachable server is blocked. So after a failure all calls fail at once,
while a thread of the breaker tries the server, with limits of its own, until it answers.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.observe import log

logger = log.get(__name__)

#: Seconds before each try. With a try of two seconds, a server is found within three of its return.
PAUSE = 1.0
#: Seconds without a call after which the tries end; then the next call tries the server itself.
UNUSED = 10.0
#: Most seconds during which the try of such a call keeps the others from trying.
TRY = 60.0
#: Seconds between log lines about one outage.
REMIND = 30.0


class CircuitBreaker:
    """
    Circuit breaker of one server.

    events: log events at the start and the end of an outage.
    failures: exceptions that mean the server does not answer.
    away: exception of refused calls; a subclass if the last try has failed with one.
    probe: tries the server; raises one of `failures`. It has a thread of its own.
    """

    def __init__(
        self,
        events: tuple[str, str],
        failures: tuple[type[Exception], ...],
        away: type[Exception],
        probe: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._probe, self._probing, self._called = probe, False, 0.0
        self._events, self._failures, self._away, self._clock = events, failures, away, clock
        self._lock = threading.Lock()
        self._again = away
        self._lost = self._logged = False
        self._since = 0.0
        self._tried_until = self._log_next = float("-inf")

    @contextmanager
    def guard(self) -> Iterator[None]:
        """
        Watch a call to the server.

        Raises `away`: the server did not answer the last try.
        """
        self._called = self._clock()
        if self._lost:
            self._reserve_try(self._called)
        try:
            yield
        except self._failures as error:
            self._failed(error)
            raise
        if self._lost:
            self._answered()

    def _reserve_try(self, now: float) -> None:
        with self._lock:
            if self._lost and (self._probing or now < self._tried_until):
                raise self._again("it did not answer a moment ago")
            self._tried_until = now + TRY

    def _failed(self, error: Exception) -> None:
        now = self._clock()
        with self._lock:
            if not self._lost:
                self._lost, self._since = True, now
            self._again = type(error) if isinstance(error, self._away) else self._away
            self._tried_until = now
            if not self._probing:
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
        try:
            while self._clock() - self._called < UNUSED:
                time.sleep(PAUSE)
                try:
                    self._probe()
                except self._failures as error:
                    self._failed(error)
                else:
                    self._answered()
                    return
        finally:
            self._probing = False
