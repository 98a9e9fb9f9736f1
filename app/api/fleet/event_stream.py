"""
Streams of change events, as Server-Sent Events.

A stream occupies a thread of its own, which sleeps until the tail of the process has read events.
It neither queries nor encodes: streams with equal filters and rights share what the first of them
has selected from the frames of the tail. Only a reader who was away is served from the database,
until it has caught up.
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

from flask import Response, stream_with_context
from sqlalchemy.exc import SQLAlchemyError

from app.api.feed.event_frames import frame, message, position
from app.api.fleet.event_selection import Selection
from app.api.request.context import RequestContext
from app.errors import ServiceError, Unavailable
from app.events import change_events
from app.events.event_feed import Follower, Missed, Restored
from app.metrics.table import (
    EVENT_STREAM_ENDS,
    EVENT_STREAM_EVENTS,
    EVENT_STREAM_LAG,
    EVENT_STREAMS,
)
from app.observe import log

logger = log.get(__name__)
seldom = log.RateLimited(logger)

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
#: Message that says that events were deleted before the reader has seen them.
GAP = "gap"
#: Seconds after which a reader connects again.
RETRY = 2.0
#: Seconds between heartbeats: less than the minute after which proxies close silent connections.
HEARTBEAT = 45.0
#: Seconds within which all streams send: at the same times, so that they share what is sent.
#: Threads that wake one after the other find warm caches; those that wake at once compete for the
#: interpreter lock.
SPREAD = 0.05
#: Seconds after which the caller is authenticated again: before an event is sent, and without one.
RECHECK, IDLE_RECHECK = 5.0, 180.0
#: Seconds between two parts to a reader, so that many readers are cheap; with more followers in the
#: process than `CROWD` twice as many: most of the cost is that of a part, not of its bytes.
PACE, CROWD = 1.0, 100
#: Seconds that a reader may take to receive what is sent at once.
PATIENCE = 30.0
#: Most events of a read from the database.
PAGE = 250
#: Seconds after which a caller with too many streams should retry.
RETRY_OF_MANY = 30.0

#: Reads of readers who catch up, at once in a process.
_catching_up = threading.BoundedSemaphore(2)


def respond(
    context: RequestContext, rule: str, selection: Selection, last_number: int | None
) -> Response:
    """
    Return the stream of the events that follow a number, of new events by default.

    rule: policy rule that the caller has passed.

    Raises Unavailable, TooMany: there are too many streams, of all callers or of this one.
    Raises Invalid: `last_number` is higher than the newest number.
    """
    feed, environ = context.services.followers, context.request.environ
    feed.limit_silence(environ)
    if feed.tail.is_closed:
        raise Unavailable("The process ends, please connect again.")
    with ExitStack() as opened:
        place = feed.place(context.caller, environ, feed.streams, "streams", RETRY_OF_MANY)
        opened.enter_context(place)
        if last_number is not None:
            change_events.number(context.runtime)
            with context.runtime.read_connection() as connection:
                change_events.read(connection, change_events.ALL, last_number, 1)
        follower = opened.enter_context(feed.tail.followed())
        follower.position = follower.position if last_number is None else last_number
        stream = _Stream(context, follower, rule, selection)
        opened.callback(stream.close)
        response = Response(
            stream_with_context(stream.parts()), mimetype=MEDIA_TYPE, headers=HEADERS
        )
        response.call_on_close(opened.pop_all().close)
        return response


class _Stream:
    """An open stream."""

    def __init__(
        self, context: RequestContext, follower: Follower, rule: str, selection: Selection
    ) -> None:
        followers = context.services.followers
        self._context, self._tail, self._parts = context, followers.tail, followers.parts
        self._follower, self._rule, self._selection = follower, rule, selection
        self._is_selected = selection.condition()
        self._checked = time.monotonic()
        self._offset = random.uniform(0, SPREAD)  # noqa: S311 - no secret
        self._heartbeat_at = self._next_time(HEARTBEAT)
        self._sent_at: float | None = None  # time of a part that the reader has not received
        self._cause = "left"  # of the end, unless another one is found
        EVENT_STREAMS.add(1)

    def parts(self) -> Iterator[bytes]:
        """
        Yield messages until the process ends, the caller loses access, or receives too slowly.

        The reader then connects again, and the answer has the reason if there is one.
        """
        yield b"retry: %d\n\n" % (RETRY * 1000) + position(self._follower.position)
        while not self._tail.is_closed:
            start_position = self._follower.position
            try:
                part = self._next()
            except (SQLAlchemyError, Unavailable) as error:
                seldom.warning("event_stream.waits", detail=str(error))
                part = b""
                self._tail.pause(PACE)
            except Restored:
                self._cause = "restored"
                return
            except ServiceError:
                self._cause = "access"
                return
            if not part and time.monotonic() >= self._heartbeat_at:
                part = position(self._follower.position)
            if part:
                self._sent_at = time.monotonic()
                yield part
                if self._is_slow():
                    return
                self._sent_at = None
                self._heartbeat_at = self._next_time(HEARTBEAT)
            if self._follower.position != start_position and not self._follower.is_behind:
                pace = PACE if self._tail.followers <= CROWD else 2 * PACE
                self._tail.pause(self._next_time(pace) - time.monotonic())

    def close(self) -> None:
        """Count the end of the stream, after its last part or the reader's departure."""
        if self._is_slow():
            self._cause = "slow"
        elif self._tail.is_closed:
            self._cause = "stopped"
        EVENT_STREAM_ENDS.add(self._cause)
        EVENT_STREAMS.add(-1)

    def _is_slow(self) -> bool:
        """Return whether the reader takes too long to receive the last part."""
        return self._sent_at is not None and time.monotonic() - self._sent_at > PATIENCE

    def _next_time(self, period: float) -> float:
        """Return the next time to send; but for the offset, it is the same for all streams."""
        return (time.monotonic() // period + 1) * period + self._offset

    def _next(self) -> bytes:
        """
        Return the next messages; none if no event is for this reader, or none occurs.

        Raises SQLAlchemyError, Unavailable: the database or Keystone is out of reach.
        Raises ServiceError: the caller has lost access.
        Raises Restored.
        """
        start_position = self._follower.position
        try:
            events = self._follower.events(max(self._heartbeat_at - time.monotonic(), 0))
            self._authenticate(RECHECK if events else IDLE_RECHECK)
        except Missed:
            self._authenticate(RECHECK)
            return self._catch_up()
        except BaseException:
            self._follower.position = start_position
            raise
        if not events:
            return b""
        part = self._parts.of(events, self._is_selected)
        if part.events:
            EVENT_STREAM_EVENTS.add(count=part.events)
            EVENT_STREAM_LAG.observe(time.monotonic() - part.occurred)
        return part.text

    def _authenticate(self, age: float) -> None:
        """Authenticate the caller again, if the last time was `age` seconds ago."""
        now = time.monotonic()
        if now - self._checked >= age:
            self._context.renew(self._rule)
            self._is_selected = self._selection.condition()
            self._checked = now

    def _catch_up(self) -> bytes:
        """Return the next messages from the database, and advance the position."""
        start_position = self._follower.position
        with _catching_up, self._context.runtime.read_connection() as connection:
            page = change_events.read(
                connection,
                self._selection.query(),
                start_position,
                PAGE,
                of_node=bool(self._selection.node),
            )
        self._follower.position = page.last
        texts = [frame(row) for row in page.rows]
        EVENT_STREAM_EVENTS.add(count=len(texts))
        if page.first > start_position + 1:
            texts.insert(
                0, message(GAP, {"after": start_position, "first": page.first}, page.first - 1)
            )
        return b"".join(texts)
