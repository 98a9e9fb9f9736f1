"""
Gathered: what several threads bring within a moment is done in one go.

Two dozen small transactions cost twenty times as much as one that does the work of all of them.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from app import log

T = TypeVar("T")
R = TypeVar("R")

logger = log.get(__name__)


class _Batch(Generic[T, R]):
    """items: as they came. full, done: locks that are let go of when it is."""

    __slots__ = ("done", "full", "items", "results")

    def __init__(self) -> None:
        self.items: list[T] = []
        self.results: Sequence[R | None] = ()
        self.full, self.done = threading.Lock(), threading.Lock()
        self.full.acquire()
        self.done.acquire()


class Gathered(Generic[T, R]):
    """
    `work`, which does many things at once: called with the things that threads bring one by one.

    work: things -> what came of each, in their order. Who brings the first thing of a batch waits
    `seconds` for others, or until there are `most`, and does the work; but nobody waits when there
    was none for as long, as it is unlikely then that more will come.
    """

    def __init__(
        self, work: Callable[[Sequence[T]], Sequence[R | None]], seconds: float, most: int
    ) -> None:
        self._work, self._seconds, self._most = work, seconds, most
        self._lock = threading.Lock()
        self._open: _Batch[T, R] | None = None
        self._ended = -seconds

    def __call__(self, thing: T) -> R | None:
        """What came of it; None, too, when the work of its batch failed, whatever the reason."""
        with self._lock:
            batch, is_first = self._open, self._open is None
            if batch is None:
                batch = self._open = _Batch()
            place = len(batch.items)
            batch.items.append(thing)
            if len(batch.items) == self._most:
                self._open = None
                batch.full.release()
        if is_first:
            self._finish(batch)
        else:
            with batch.done:
                pass
        return batch.results[place] if batch.results else None

    def _finish(self, batch: _Batch[T, R]) -> None:
        """Wait for others, and do the work of all."""
        if time.monotonic() - self._ended < self._seconds:
            batch.full.acquire(timeout=self._seconds)
        with self._lock:
            if self._open is batch:
                self._open = None
        try:
            batch.results = self._work(batch.items)
        except Exception as error:  # whoever brought them sees to it
            logger.info("gathered.failed", things=len(batch.items), error=str(error))
        finally:
            self._ended = time.monotonic()
            batch.done.release()
