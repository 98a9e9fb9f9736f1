"""
Waiting until a node rests: until nothing that somebody asked for is still under way.
"""

import time
from collections.abc import Callable

from sqlalchemy import ColumnElement, select

from app.errors import NotFound
from app.kit.concurrency import given_away
from app.models import Node
from app.runtime import Runtime
from app.states import Kind, of_kind

#: Seconds between two looks: few at first, as most power changes take a moment.
FIRST, LONGEST, GROWTH = 0.1, 1.0, 1.5
#: What is held waits for an operator, so it rests.
MOVING = of_kind(Kind.BUSY, Kind.WAIT)

_FACTS = (
    Node.__table__.c.provision_state,
    Node.__table__.c.reservation,
    Node.__table__.c.target_power_state,
)


def await_rest(
    runtime: Runtime,
    condition: ColumnElement[bool],
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """
    Return when the node rests, or after so many seconds. The request gives its turn away meanwhile.

    Raises NotFound, and Unavailable when too many requests wait already.
    """
    end, pause = clock() + seconds, FIRST
    while _moves(runtime, condition) and (left := end - clock()) > 0:
        with given_away():
            time.sleep(min(pause, left))
        pause = min(pause * GROWTH, LONGEST)


def _moves(runtime: Runtime, condition: ColumnElement[bool]) -> bool:
    with runtime.reading() as session:
        row = session.execute(select(*_FACTS).where(condition)).one_or_none()
    if row is None:
        raise NotFound("node", "that was waited for")
    state, reservation, target_power = row
    return state in MOVING or reservation is not None or target_power is not None
