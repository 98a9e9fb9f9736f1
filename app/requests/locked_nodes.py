"""
Locked nodes: the one retry loop of requests that find their node reserved.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from app.config.conductor_settings import Conductor
from app.errors import NodeLocked
from app.requests.request_slots import Busy, yielding_slot

T = TypeVar("T")


def retry_while_locked(settings: Conductor, attempt: Callable[[], T]) -> T:
    """
    Return the result of `attempt`; while its node is locked, repeat it after a pause.

    The request yields its slot during the pause.

    Raises NodeLocked: the node was locked at each of `[conductor]node_locked_retry_attempts`, or
    too many requests wait already.
    """
    for _ in range(settings.node_locked_retry_attempts - 1):
        try:
            return attempt()
        except NodeLocked as locked:
            try:
                with yielding_slot():
                    time.sleep(settings.node_locked_retry_interval)
            except Busy:  # fail at once, with the first error
                raise locked from None
    return attempt()
