"""
Tail of the change events: a thread that reads new events for all requests that follow them.

A request that follows events does not query the database for new ones, so a thousand requests cost
as many queries as one. The tail reads while at least one request follows it.
"""

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import Row, Select
from sqlalchemy.exc import SQLAlchemyError

from app.db import diagnosis
from app.errors import Invalid
from app.events import change_events
from app.observe import log
from app.runtime import Runtime

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Seconds until the next read: after a new event or follower, at most, and their growth.
FIRST, LONGEST, GROWTH = 0.2, 2.0, 1.5
#: Most events of a read, of the memory, and that a follower gets at once.
PAGE, KEPT, AT_ONCE = 1000, 4000, 250


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A new event. It equals itself only: after a restoration, its number is that of another."""

    sequence: int
    row: Row[Any]
    text: bytes  # encoded once for all streams
    occurred: float  # by this process's monotonic clock


class Missed(Exception):
    """The memory no longer has the events that follow a position: read them from the database."""


class Restored(Exception):
    """The database was restored from a backup: positions in it are void."""


class EventFeed:
    """
    The newest events, for the followers in this process.

    query: of events, with a column `waited`: their age in seconds.
    """

    def __init__(
        self, runtime: Runtime, query: Select[object], encode: Callable[[Row[object]], bytes]
    ) -> None:
        self._runtime, self._query, self._encode = runtime, query, encode
        self._changed = threading.Condition()
        self._look = threading.Event()  # read now
        self._closed = threading.Event()
        self.followers = 0  # requests
        self._thread: threading.Thread | None = None
        self._events: list[Event] = []
        self._begin = self._last_sequence = (
            0  # `_events` has all events after `_begin`, up to `_last_sequence`
        )
        self._restored = 0  # number of restorations of the database that were noticed

    @contextmanager
    def followed(self) -> Iterator["Follower"]:
        """
        Follow the events from the newest one on.

        Raises SQLAlchemyError: the database is out of reach.
        """
        with self._changed:
            if self._thread is None:
                self._begin = self._last_sequence = change_events.newest(self._runtime)
                self._events.clear()
                self._thread = threading.Thread(
                    target=self._read_on, name="change-tail", daemon=True
                )
                self._thread.start()
            self.followers += 1
            follower = Follower(self, self._last_sequence, self._restored)
        self._look.set()
        try:
            yield follower
        finally:
            with self._changed:
                self.followers -= 1
                if not self.followers:
                    self._look.set()

    def close(self) -> None:
        """Let all followers return at once, because the process ends."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def pause(self, seconds: float) -> None:
        """Wait until the time has passed, or the process ends."""
        self._closed.wait(seconds)

    def _events_after(self, follower: "Follower", seconds: float) -> Sequence[Event]:
        """Return the events after a follower's position; none after `seconds`, or if closed."""

        def is_over() -> bool:
            return (
                self._last_sequence > follower.position
                or self._restored != follower.restored
                or self._closed.is_set()
            )

        with self._changed:
            self._changed.wait_for(is_over, seconds)
            if self._restored != follower.restored:
                raise Restored
            if follower.position < self._begin:
                raise Missed
            begin = bisect_right(self._events, follower.position, key=attrgetter("sequence"))
            return self._events[begin : begin + AT_ONCE]

    def _read_on(self) -> None:
        """Read new events until no follower is left: often while there are some."""
        pause = FIRST
        while True:
            if self._look.wait(pause):
                pause = FIRST
            self._look.clear()
            with self._changed:
                if not self.followers:
                    self._thread = None
                    return
            pause = FIRST if self._read() else min(pause * GROWTH, LONGEST)

    def _read(self) -> bool:
        """Read the new events; return whether there are any."""
        try:
            if not change_events.has_news(self._runtime, self._last_sequence):
                return False
            change_events.number(self._runtime)
            with self._runtime.read_connection() as connection:
                page = change_events.read(connection, self._query, self._last_sequence, PAGE)
        except Invalid:
            return self._begin_again()
        except SQLAlchemyError as error:
            seldom.warning("change_events.not_read", detail=diagnosis.reason(error))
            return False
        now = time.monotonic()
        new_events = [
            Event(row.sequence, row, self._encode(row), now - max(row.waited, 0.0))
            for row in page.rows
        ]
        if page.last == self._last_sequence:
            return False
        if len(new_events) == PAGE:
            self._look.set()
        with self._changed:
            self._events += new_events
            if len(self._events) > KEPT:
                del self._events[:-KEPT]
                self._begin = self._events[0].sequence - 1
            self._last_sequence = page.last
            self._changed.notify_all()
        return True

    def _begin_again(self) -> bool:
        """Begin at the newest event: the database has fewer than before."""
        try:
            newest = change_events.newest(self._runtime)
        except SQLAlchemyError:
            return False  # the next read fails, too
        with self._changed:
            self._begin = self._last_sequence = newest
            self._events.clear()
            self._restored += 1
            self._changed.notify_all()
        return True


class Follower:
    """A request that follows the events."""

    def __init__(self, tail: EventFeed, position: int, restored: int) -> None:
        self._tail = tail
        self.position = position  # number of the last event that it knows
        self.restored = restored

    @property
    def is_behind(self) -> bool:
        """Whether there are events after the position."""
        return self._tail._last_sequence > self.position

    def events(self, seconds: float) -> Sequence[Event]:
        """
        Return the events after the position, and advance it; none after `seconds`, or at the end.

        Raises Missed, Restored.
        """
        events = self._tail._events_after(self, seconds)
        if events:
            self.position = events[-1].sequence
        return events

    def wait(self, seconds: float, is_relevant: Callable[[Row[Any]], bool]) -> bool:
        """
        Wait for an event that `is_relevant` selects, at most `seconds`.

        Return whether the request may go on waiting: the process does not end.
        """
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0 and not self._tail.is_closed:
            try:
                events = self.events(remaining)
            except (Missed, Restored):
                self.position, self.restored = self._tail._last_sequence, self._tail._restored
                break
            if any(is_relevant(event.row) for event in events):
                break
        return not self._tail.is_closed
