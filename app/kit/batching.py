"""
Micro-batching: items from several threads are worked on together, several in one transaction.

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
    """Items that are worked on together."""

    __slots__ = ("done", "full", "items", "results")

    def __init__(self) -> None:
        self.items: list[T] = []  # in the order of their arrival
        self.results: Sequence[R | None] = ()  # of the items, in the same order
        self.full, self.done = threading.Lock(), threading.Lock()  # released when it is
        self.full.acquire()
        self.done.acquire()


class Batcher(Generic[T, R]):
    """
    Collects items from several threads and passes them to `work` as one list.

    The first thread of a batch does the work of all. One batch is worked on at a time, and the next
    one forms meanwhile. A batch begins at once as long as there are fewer than `rate` a second, and
    `burst` more; beyond that it waits for its turn and grows, but not beyond `most` items. So items
    that come seldom never wait, and the number of batches is bounded however many come.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], Sequence[R | None]],
        *,
        rate: float,
        burst: int,
        most: int,
    ) -> None:
        self._work, self._most = work, most
        self._interval, self._ahead = 1 / rate, (burst - 1) / rate
        self._lock, self._working = threading.Lock(), threading.Lock()
        self._open: _Batch[T, R] | None = None
        self._next = time.monotonic()  # when a batch would begin if all were evenly spaced

    def __call__(self, item: T) -> R | None:
        """The result of an item; None, too, when the work of its batch has raised an exception."""
        with self._lock:
            batch, is_first = self._open, self._open is None
            if batch is None:
                batch = self._open = _Batch()
            place = len(batch.items)
            batch.items.append(item)
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
        """Let the batch grow until it may begin, and do its work."""
        pause = self._pause()
        if pause > 0 and batch.full.acquire(timeout=pause):
            with self._lock:  # it begins before its turn, and the next one may wait for no longer
                self._next = min(self._next, time.monotonic() + self._ahead + self._interval)
        with self._working:
            with self._lock:
                if self._open is batch:
                    self._open = None
            try:
                batch.results = self._work(batch.items)
            except Exception as error:  # each caller deals with its own item
                logger.info("batch.failed", items=len(batch.items), error=str(error))
            finally:
                batch.done.release()

    def _pause(self) -> float:
        """Seconds until a batch may begin that has just been opened."""
        with self._lock:
            moment = time.monotonic()
            pause = self._next - self._ahead - moment
            self._next = max(self._next, moment) + self._interval
        return pause
