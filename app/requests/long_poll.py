"""Long polls: a request waits until a condition holds."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from app.requests.request_slots import yielding_slot

T = TypeVar("T")

#: Most seconds between two checks of a condition, if nothing wakes the request.
LONGEST = 2.0


def wait_until(
    condition: Callable[[], T],
    seconds: float,
    *,
    sleep: Callable[[float], bool],
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """
    Return the value of a condition when it is true, or after `seconds`, its last value.

    The request yields its slot while it waits. sleep: waits that many seconds at most, less if the
    condition may have changed; it returns whether the request may go on waiting.
    """
    end = clock() + seconds
    while not (value := condition()) and (remaining := end - clock()) > 0:
        with yielding_slot(nullcontext()):
            waits_on = sleep(min(LONGEST, remaining))
        if not waits_on:
            return condition()
    return value
