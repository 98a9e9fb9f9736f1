"""Requests that wait for a change: `?wait=`."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from flask import request
from sqlalchemy import Row

from app.api.request.context import RequestContext
from app.errors import Invalid
from app.events.event_feed import Follower
from app.requests.request_slots import yielding_slot

#: Seconds after which a caller with too many long polls should retry.
RETRY_OF_MANY = 2.0
#: Most seconds between two checks of a condition, if nothing wakes the request.
LONGEST = 2.0
T = TypeVar("T")


class LongPoll:
    """A request that waits. follower: of the change events; None for a request without a wait."""

    def __init__(self, seconds: float, follower: Follower | None) -> None:
        self._seconds, self._follower = seconds, follower

    def wait_until(
        self, condition: Callable[[], T], is_relevant: Callable[[Row[object]], bool]
    ) -> T:
        """
        Return the value of a condition when it is true, or when the time is over.

        The request yields its slot while it waits. is_relevant: whether an event may change the
        condition.
        """
        if self._follower is None:
            return condition()
        end = time.monotonic() + self._seconds
        while not (value := condition()) and (remaining := end - time.monotonic()) > 0:
            with yielding_slot(nullcontext()):
                waits_on = self._follower.wait(min(LONGEST, remaining), is_relevant=is_relevant)
            if not waits_on:
                return condition()
        return value


@contextmanager
def long_polling(context: RequestContext, seconds: float) -> Iterator[LongPoll]:
    """
    Hold a place for a request with `?wait=`; none is needed for 0 seconds.

    Enter it before any query for the request: a request without a place must cost no query.

    Raises Invalid: longer than `[api]max_wait`.
    Raises Unavailable, TooMany: see `Followers.place`.
    """
    longest = context.runtime.settings.api.max_wait
    if seconds > longest:
        raise Invalid(f"wait: at most {longest:g} seconds")
    if not seconds:
        yield LongPoll(0, None)
        return
    feed = context.services.followers
    place = feed.place(
        context.caller, request.environ, feed.polls, "requests with `wait`", RETRY_OF_MANY
    )
    with place, feed.tail.followed() as follower:
        yield LongPoll(seconds, follower)
