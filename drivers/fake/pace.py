"""
Delays of fake hardware: the `[fake]*_delay` options, "a" or "a,b" seconds.

A delay is a `Wait`, so it blocks no thread.
"""

import random
from collections.abc import Callable

from drivers.core.steps import Done, Outcome, Wait
from drivers.core.target import Target


def seconds(target: Target, option: str) -> float:
    """Return the delay of one action: `a`, or a random number between `a` and `b`."""
    bounds = [float(part) for part in str(target.options["fake"][option] or 0).split(",")]
    return random.uniform(bounds[0], bounds[-1])  # noqa: S311 - nothing secret about it


def take_time(target: Target, option: str, act: Callable[[], None] = lambda: None) -> Outcome:
    """Wait for a delay once, then call `act`."""
    if not target.progress.get("waited"):
        delay = seconds(target, option)
        if delay > 0:
            return Wait({"waited": True}, poll_after=delay)
    act()
    return Done()
