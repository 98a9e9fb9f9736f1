"""The change events that have notifications, and those that wait to be sent."""

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from app.db.clock import age
from app.events import change_events
from app.models import RESOURCE_TYPES, ChangeEvent, ChangeType, NotificationCursor, StepState

#: Most events that are counted.
COUNTED = 10_000

_EVENT: Any = ChangeEvent.__table__.c
#: Types of changes of nodes and other resources; steps, and their states.
TYPES = (
    ChangeType.NODE_CREATED, ChangeType.NODE_UPDATED, ChangeType.NODE_DELETED,
    ChangeType.PROVISION_STATE, ChangeType.POWER_STATE, ChangeType.MAINTENANCE,
    *RESOURCE_TYPES,
)  # fmt: skip
STEPS = (
    "power.change", "power.power_on", "power.power_off", "power.reboot",
    "console.start_console", "console.stop_console", "console.restore_console",
)  # fmt: skip
STATES = (StepState.RUNNING, StepState.DONE, StepState.FAILED, StepState.ABORTED)

_HAS: ColumnElement[bool] = or_(
    _EVENT.type.in_(TYPES), _EVENT.step.in_(STEPS) & _EVENT.after.in_(STATES)
)
#: These events, with the columns that notifications need.
SELECTED = change_events.ALL.add_columns(_EVENT.id, _EVENT.facts).where(_HAS)


class Waiting(NamedTuple):
    """Events that are not sent yet."""

    events: int  # at most `COUNTED`
    seconds: float  # age of the oldest, or 0 without any event
    failed_attempts: int  # since the last success
    last_error: str | None  # of the last attempt, if it failed

    def __str__(self) -> str:
        if not self.events:
            return "no event waits to be sent"
        count = f"{self.events} or more" if self.events == COUNTED else str(self.events)
        error = f"; last error: {self.last_error}" if self.last_error else ""
        return f"{count} events wait, the oldest for {self.seconds:.0f} s{error}"


def waiting(session: Session) -> Waiting | None:
    """Return the events that wait for RabbitMQ, or None if notifications were never on."""
    cursor = session.scalar(select(NotificationCursor))
    if cursor is None:
        return None
    unsent = (
        select(_EVENT.created_at)
        .where(_HAS, _EVENT.sequence > cursor.position)
        .order_by(_EVENT.sequence)
        .limit(COUNTED)
        .subquery()
    )
    counted = select(func.count(), func.max(age(unsent.c.created_at)))
    count, seconds = session.execute(counted).one()
    oldest = max(float(seconds or 0), 0.0)
    return Waiting(count, oldest, cursor.failed_attempts, cursor.last_error)
