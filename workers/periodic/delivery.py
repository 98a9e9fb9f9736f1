"""
Delivery of change events to subscribers.

The row of a subscriber has the number of the last event that it has accepted. An attempt holds the
subscriber by a lease in that row, sends the next events, and advances the number only if it still
holds the subscriber. So a death at any line repeats events, and loses none.
"""

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    func,
    literal,
    select,
    true,
    update,
)

from app.broker import outages
from app.db.clock import after, age, now
from app.events import change_events
from app.metrics.kinds import Counter, Histogram
from app.models import ChangeEvent, NotificationCursor, PowerUpdateCursor, Webhook
from app.observe import log
from app.process import kill_points
from app.requests.request_slots import FairSlots
from app.runtime import Runtime

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Subscribers that a process serves at once: one thread each, because receivers may be slow.
AT_ONCE = 32
#: Most events in an attempt, and seconds after which it is another subscriber's turn.
BATCH, TURN = 100, 2.0
#: Most subscribers that one search finds.
FOUND = 256
#: Client of the threads for subscribers that no project owns.
SYSTEM = ""
#: Numbers without an event for the subscriber, after which its position is recorded nevertheless.
UNRECORDED = 10_000
#: Seconds before the second attempt.
FIRST_RETRY = 1.0
#: Seconds of a lease beyond the longest attempt.
MARGIN = 5.0

_EVENT: Any = ChangeEvent.__table__.c
_OF_ATTEMPT = ("id", "position", "failed_attempts", "failing_since")


def is_due(row: Any, enabled: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition of a subscriber that gets an attempt; row: the columns of its table."""
    return and_(enabled, row.due_at <= now())


@dataclass(frozen=True, slots=True)
class Sent:
    """Outcome of an attempt to send events."""

    position: int  # all events up to this number are accepted
    error: str | None = None  # None: all events are accepted
    #: seconds until the subscriber wants another attempt, if it named a time
    retry_after: float | None = None


class Deliverer(ABC):
    """
    Deliveries of a process to one kind of subscribers, in threads: none delays another one.

    The subscribers of a project have at most as many threads as remain free for others, and turns
    by time: subscribers of other projects come first as long as they have used less.
    """

    name: ClassVar[str]  # of a subscriber, in the log
    #: rows of the subscribers
    model: ClassVar[type[Webhook | NotificationCursor | PowerUpdateCursor]]
    outcomes: ClassVar[Counter]  # counts attempts by their outcome
    lag: ClassVar[Histogram]  # measures the age of accepted events

    def __init__(self, runtime: Runtime, timeout: float, longest_pause: float) -> None:
        """
        Begin without a subscriber.

        timeout: seconds for a subscriber to accept events; an attempt takes at most three times
        that. longest_pause: seconds between two attempts, at most.
        """
        self._runtime = runtime
        self._timeout, self._longest_pause = timeout, longest_pause
        self._row: Any = self.model.__table__.c
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=self.name)
        self._slots = FairSlots(AT_ONCE, leaves_free=True)  # by project
        self._starting = threading.Lock()
        self._served: set[int] = set()  # ids of the subscribers with a thread
        self._has_more = False  # subscribers are due that have found no thread
        self._closed = False

    @abstractmethod
    def send(self, row: Row[object], previous_sequence: int, page: change_events.Found) -> Sent:
        """Send the events after a number to a subscriber, in their order."""

    @abstractmethod
    def selected(self, row: Row[object]) -> Select[object]:
        """Select the events of a subscriber."""

    def facts(self) -> Sequence[ColumnElement[object]]:
        """Return the columns that `send` and `selected` need of a subscriber's row."""
        return ()

    def enabled(self) -> ColumnElement[bool]:
        """Return the condition of subscribers that get events."""
        return true()

    def give_up(
        self, connection: Connection, row: Row[object], error: str, newest_sequence: int
    ) -> Mapping[str, object]:
        """Return the columns to change when a subscriber gets no more attempts; empty: it does."""
        return {}

    def end_turn(self) -> None:  # noqa: B027 - most kinds need none
        """Free the resources that the attempts of a turn have shared."""

    def start_due(self) -> None:
        """Begin to serve the subscribers that are due, as many as there are free threads."""
        due_subscribers = self._due()
        with self._starting:
            if self._closed:
                return
            self._has_more = False
            for ident, project in sorted(due_subscribers, key=lambda row: self._slots.used(row[1])):
                if ident in self._served:
                    continue
                if not self._slots.acquire(project, 0):
                    self._has_more = True
                    continue
                self._served.add(ident)
                self._threads.submit(self._serve, ident, project)

    def close(self) -> None:
        """Wait until no subscriber is served."""
        with self._starting:
            self._closed = True
        self._threads.shutdown()

    def _due(self) -> Sequence[tuple[int, str]]:
        """
        Return subscribers with events to send, those that wait for longest first: id and project.

        Of many of them, each project has the first ones.
        """
        row = self._row
        with self._runtime.read_connection() as connection:
            if connection.scalar(select(row.id).where(self._is_due()).limit(1)) is None:
                return ()
        change_events.number(self._runtime)
        newest_sequence = select(func.max(_EVENT.sequence)).scalar_subquery()
        project = func.coalesce(row["owner"], SYSTEM) if "owner" in row else literal(SYSTEM)
        turn = func.row_number().over(partition_by=project, order_by=row.due_at)
        pending_rows = select(
            row.id, project.label("project"), row.due_at, turn.label("place")
        ).where(self._is_due(), row.position < newest_sequence)
        pending = pending_rows.subquery().c
        query = (
            select(pending.id, pending.project).order_by(pending.place, pending.due_at).limit(FOUND)
        )
        with self._runtime.read_connection() as connection:
            return [(ident, name) for ident, name in connection.execute(query)]

    def _is_due(self) -> ColumnElement[bool]:
        return is_due(self._row, self.enabled())

    def _serve(self, ident: int, project: str) -> None:
        """Send the events of a subscriber until there are none, one fails, or its turn ends."""
        end = time.monotonic() + TURN
        try:
            with outages.log_outages(f"{self.name}s"):
                while self.deliver(ident) and time.monotonic() < end:
                    pass
        except Exception:
            logger.exception(f"{self.name}.crashed", **{self.name: ident})
        finally:
            self.end_turn()
            with self._starting:
                self._served.discard(ident)
                self._slots.release(project)
                others_wait = self._has_more
        if others_wait:
            with outages.log_outages(f"{self.name}s"):
                self.start_due()

    def deliver(self, ident: int) -> bool:
        """Send the next events of a subscriber; return whether to continue with those after."""
        with self._runtime.read_connection() as connection:
            row = connection.execute(self._read(ident)).one_or_none()
            if row is None:
                return False
            query = self.selected(row).add_columns(age(_EVENT.created_at).label("waited"))
            page = change_events.read(
                connection, query, row.position, BATCH, of_node=bool(getattr(row, "node_uuid", ""))
            )
            _, newest_sequence = change_events.ends(connection)
        if not page.rows:
            return page.last - row.position >= UNRECORDED and self._skip(row, page.last)
        token = uuid4().hex
        if not self._hold(row, token):
            return False
        event_age, started_at = max(0.0, page.rows[0].waited), time.monotonic()
        outcome = self.send(row, max(row.position, page.first - 1), page)
        kill_points.reach("posted", self.name)
        if outcome.position > row.position and self._record(row, token, outcome.position):
            self.outcomes.add("accepted")
            self.lag.observe(event_age + time.monotonic() - started_at)
            return outcome.error is None
        if outcome.error is not None:
            self._record_failure(row, token, outcome, newest_sequence)
        return False

    def _read(self, ident: int) -> Select[object]:
        """Select the facts about a subscriber for one attempt."""
        common = (self._row[name] for name in _OF_ATTEMPT)
        failing_seconds = age(self._row.failing_since).label("failing")
        return select(*common, failing_seconds, *self.facts()).where(
            self._row.id == ident, self.enabled()
        )

    def _skip(self, row: Row[object], position: int) -> bool:
        """Record that there is no event up to a number; False: the position changed."""
        return self._update(self._unheld(row), {"position": position})

    def _hold(self, row: Row[object], token: str) -> bool:
        """Take the lease of a subscriber; False: another attempt has it, or the position moved."""
        seconds = 3 * self._timeout + MARGIN
        return self._update(self._unheld(row), {"holder": token, "due_at": after(seconds)})

    def _record(self, row: Row[object], token: str, position: int) -> bool:
        """Record that the subscriber has accepted all events up to a number."""
        values = {
            "position": position, "holder": None, "due_at": now(), "failed_attempts": 0,
            "failing_since": None, "last_error": None, "last_delivery_at": now(),
        }  # fmt: skip
        return self._update(self._held(row, token), values)

    def _record_failure(
        self, row: Row[object], token: str, outcome: Sent, newest_sequence: int
    ) -> None:
        """Record a failed attempt, and when to repeat it: not before the subscriber wants it."""
        error = outcome.error or ""
        pause = min(self._longest_pause, FIRST_RETRY * 2 ** min(row.failed_attempts, 30))
        pause *= random.uniform(0.5, 1)  # noqa: S311 - jitter
        pause = max(pause, min(self._longest_pause, outcome.retry_after or 0.0))
        values = {
            "holder": None, "due_at": after(pause), "last_error": error[:255],
            "failed_attempts": row.failed_attempts + 1,
            "failing_since": func.coalesce(self._row.failing_since, now()),
        }  # fmt: skip
        with self._runtime.write_connection() as connection:
            change = update(self.model).where(self._held(row, token))
            if not connection.execute(change.values(**values)).rowcount:
                return
            if final_values := self.give_up(connection, row, error, newest_sequence):
                of_row = update(self.model).where(self._row.id == row.id)
                connection.execute(of_row.values(**final_values))
        event = "given_up" if final_values else "failed"
        self.outcomes.add(event)
        facts = {self.name: getattr(row, "uuid", row.id), "error": error, "after": row.position}
        seldom.warning(f"{self.name}.{event}", **facts)

    def _update(self, condition: ColumnElement[bool], values: Mapping[str, object]) -> bool:
        with self._runtime.write_connection() as connection:
            change = update(self.model).where(condition).values(**values)
            return bool(connection.execute(change).rowcount)

    def _unheld(self, row: Row[object]) -> ColumnElement[bool]:
        return and_(self._row.id == row.id, self._row.position == row.position, self._is_due())

    def _held(self, row: Row[object], token: str) -> ColumnElement[bool]:
        is_holder = and_(self._row.id == row.id, self._row.holder == token)
        return and_(is_holder, self._row.position == row.position)
