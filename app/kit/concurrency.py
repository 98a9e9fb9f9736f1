"""
Turns: how many requests of this process are worked on at once.

Python threads share one processor, so a process works on few requests at a time. One that has to
wait (for a locked node, for a conductor's answer) gives its turn to another meanwhile: lists,
heartbeats and lookups never queue behind those that wait.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import Unavailable

_mine = threading.local()


class Turns:
    """`working` requests at once, and at most `waiting` others that wait for something."""

    def __init__(self, working: int, waiting: int) -> None:
        self._working = threading.BoundedSemaphore(working)
        self._waiting = threading.BoundedSemaphore(waiting)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Work on a request in this thread; first wait until it is its turn."""
        with self._working:
            _mine.turns = self
            try:
                yield
            finally:
                _mine.turns = None

    @contextmanager
    def _given_away(self) -> Iterator[None]:
        if not self._waiting.acquire(blocking=False):
            raise Unavailable("Too many requests are waiting already.")
        self._working.release()
        try:
            yield
        finally:
            self._working.acquire()
            self._waiting.release()


@contextmanager
def given_away() -> Iterator[None]:
    """
    Let others be served while this thread waits; outside of a request, nothing.

    Raises Unavailable when too many wait already.
    """
    turns: Turns | None = getattr(_mine, "turns", None)
    if turns is None:
        yield
        return
    with turns._given_away():
        yield
