"""
Reach: whether a server that this process needs answers just now.

A thread that waits for a server which does not answer does nothing else meanwhile. So one of them
finds out, and for a moment all others are told at once.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app import log

logger = log.get(__name__)

#: Seconds for which nobody tries again: as many as the try has taken, within these.
PAUSE, LONGEST_PAUSE = 1.0, 10.0
#: Seconds for which one that tries keeps the others from it.
TRY = 60.0
#: Seconds between two lines in the log about a server that does not answer.
REMIND = 30.0


class Reach:
    """
    One server, as this process knows it.

    events: how the log calls the begin and the end of an outage. failures: the errors that mean it
    does not answer. away: the error of those that do not even try; if the last try has failed with
    a kind of it, of that kind.
    """

    def __init__(
        self,
        events: tuple[str, str],
        failures: tuple[type[Exception], ...],
        away: type[Exception],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._events, self._failures, self._away, self._clock = events, failures, away, clock
        self._lock = threading.Lock()
        self._again = away
        self._lost = self._told = False
        self._next = self._since = 0.0
        self._tell_next = float("-inf")

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Try to reach it. Raises `away` while it is known not to answer."""
        begun = self._clock()
        if self._lost:
            self._take_turn(begun)
        try:
            yield
        except self._failures as error:
            self._failed(begun, error)
            raise
        if self._lost:
            self._answered()

    def _take_turn(self, now: float) -> None:
        with self._lock:
            if self._lost and now < self._next:
                raise self._again("it did not answer a moment ago")
            self._next = now + TRY

    def _failed(self, begun: float, error: Exception) -> None:
        now = self._clock()
        with self._lock:
            if not self._lost:
                self._lost, self._since = True, now
            self._again = type(error) if isinstance(error, self._away) else self._away
            self._next = now + min(max(now - begun, PAUSE), LONGEST_PAUSE)
            if now < self._tell_next:
                return
            self._told, self._tell_next = True, now + REMIND
        detail = str(error) or type(error).__name__
        logger.warning(self._events[0], detail=detail)

    def _answered(self) -> None:
        with self._lock:
            self._lost, told, self._told = False, self._told, False
            seconds = round(self._clock() - self._since, 1)
        if told:
            logger.info(self._events[1], seconds=seconds)
