"""
Wait until a node is idle: no operation, no change of provision or power state is in progress.
"""

import time
from collections.abc import Callable

from sqlalchemy import ColumnElement, select

from app.errors import NotFound
from app.kit.concurrency import yielding_slot
from app.models import Node
from app.runtime import Runtime
from app.states import Kind, of_kind

#: Seconds before the first poll, most seconds between polls, and the factor of their growth. Most
#: power changes are short.
FIRST, LONGEST, GROWTH = 0.1, 1.0, 1.5
#: Provision states of a busy node. A held node waits for an operator, so it is idle.
BUSY_STATES = of_kind(Kind.BUSY, Kind.WAIT)

_FACTS = (
    Node.__table__.c.provision_state,
    Node.__table__.c.reservation,
    Node.__table__.c.target_power_state,
)


def wait_until_idle(
    runtime: Runtime,
    condition: ColumnElement[bool],
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """
    Return when the node is idle, or after `seconds`. The request yields its slot while it waits.

    Raises NotFound: the node does not exist.
    Raises Unavailable: too many requests wait already.
    """
    end, pause = clock() + seconds, FIRST
    while _is_busy(runtime, condition) and (left := end - clock()) > 0:
        with yielding_slot():
            time.sleep(min(pause, left))
        pause = min(pause * GROWTH, LONGEST)


def _is_busy(runtime: Runtime, condition: ColumnElement[bool]) -> bool:
    with runtime.reading() as session:
        row = session.execute(select(*_FACTS).where(condition)).one_or_none()
    if row is None:
        raise NotFound("node", "that was waited for")
    state, reservation, target_power = row
    return state in BUSY_STATES or reservation is not None or target_power is not None
