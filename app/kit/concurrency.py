"""
Request slots: limit the requests that a process serves at the same time.

Python threads share one processor, so a process serves few requests at a time. A request that waits
(for a locked node, for a conductor's answer) yields its slot to another one: lists, heartbeats and
lookups never queue behind waiting requests.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import Unavailable

_mine = threading.local()


class RequestSlots:
    """Slots for `working` requests that are served, and `waiting` that have yielded theirs."""

    def __init__(self, working: int, waiting: int) -> None:
        self._working = threading.BoundedSemaphore(working)
        self._waiting = threading.BoundedSemaphore(waiting)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a slot in this thread; wait for a free one first."""
        with self._working:
            _mine.slots = self
            try:
                yield
            finally:
                _mine.slots = None

    @contextmanager
    def _yielded(self) -> Iterator[None]:
        if not self._waiting.acquire(blocking=False):
            raise Unavailable("Too many requests are waiting already.")
        self._working.release()
        try:
            yield
        finally:
            self._working.acquire()
            self._waiting.release()


@contextmanager
def yielding_slot() -> Iterator[None]:
    """
    Yield this thread's request slot while it waits; outside of a request, do nothing.

    Raises Unavailable: too many requests wait already.
    """
    slots: RequestSlots | None = getattr(_mine, "slots", None)
    if slots is None:
        yield
        return
    with slots._yielded():
        yield
