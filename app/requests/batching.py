"""
Micro-batching: process items from several threads together, in one transaction.

Two dozen small transactions cost twenty times as much as one transaction with the same work.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from app.observe import log

T = TypeVar("T")
R = TypeVar("R")

logger = log.get(__name__)


class _Batch(Generic[T, R]):
    """Items that are processed together."""

    __slots__ = ("done_lock", "full_lock", "items", "results")

    def __init__(self) -> None:
        self.items: list[T] = []  # in order of arrival
        self.results: Sequence[R | None] = ()  # one per item, in the same order; empty: failed
        self.full_lock = threading.Lock()  # released once full
        self.done_lock = threading.Lock()  # released once done
        self.full_lock.acquire()
        self.done_lock.acquire()


class Batcher(Generic[T, R]):
    """
    Collects items from several threads and passes them to `work` as one list.

    The first thread of a batch processes it. One batch is processed at a time, and the next one
    fills meanwhile. Batches are rate-limited (a token bucket of `rate` per second, with `burst`):
    below the rate a batch starts at once, above it a batch waits and fills, up to `most` items. So
    rare items never wait, and the number of transactions is bounded.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], Sequence[R | None]],
        *,
        rate: float,
        burst: int,
        max_size: int,
    ) -> None:
        self._work, self._max_size = work, max_size
        self._interval, self._ahead = 1 / rate, (burst - 1) / rate
        self._lock, self._working = threading.Lock(), threading.Lock()
        self._open: _Batch[T, R] | None = None
        self._next = time.monotonic()  # start of the next batch if batches were evenly spaced

    def __call__(self, item: T) -> R | None:
        """Process an item and return its result; None if `work` raised an exception."""
        with self._lock:
            batch, is_first = self._open, self._open is None
            if batch is None:
                batch = self._open = _Batch()
            place = len(batch.items)
            batch.items.append(item)
            if len(batch.items) == self._max_size:
                self._open = None
                batch.full_lock.release()
        if is_first:
            self._finish(batch)
        else:
            with batch.done_lock:
                pass
        return batch.results[place] if batch.results else None

    def _finish(self, batch: _Batch[T, R]) -> None:
        """Let the batch fill until it may start, and process it."""
        pause = self._pause()
        if pause > 0 and batch.full_lock.acquire(timeout=pause):
            with self._lock:  # a full batch starts early and must not lengthen the next one's pause
                self._next = min(self._next, time.monotonic() + self._ahead + self._interval)
        with self._working:
            with self._lock:
                if self._open is batch:
                    self._open = None
            try:
                batch.results = self._work(batch.items)
            except Exception as error:  # each caller handles its own item
                logger.info("batch.failed", items=len(batch.items), error=str(error))
            finally:
                batch.done_lock.release()

    def _pause(self) -> float:
        """Seconds until a new batch may start."""
        with self._lock:
            moment = time.monotonic()
            pause = self._next - self._ahead - moment
            self._next = max(self._next, moment) + self._interval
        return pause
