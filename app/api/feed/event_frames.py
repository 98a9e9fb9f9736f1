"""Frames of a stream of change events."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Row

from app.api.transport.responses import OPTIONS
from app.db.clock import age
from app.events.change_events import ALL, document
from app.events.event_feed import Event
from app.models import ChangeEvent

EVENTS = ChangeEvent.__table__.c
#: With the columns that decide who may see an event, and its age in seconds.
WITH_PROJECTS = ALL.add_columns(EVENTS.owner, EVENTS.lessee, age(EVENTS.created_at).label("waited"))


def frame(row: Row[object]) -> bytes:
    """Encode an event for streams."""
    return message(row.type, document(row), row.sequence)


def message(event: str, data: Mapping[str, Any], number: int) -> bytes:
    """Encode a message of a stream. number: the reader continues after it."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        number, event.encode(), orjson.dumps(data, option=OPTIONS),
    )  # fmt: skip


def position(number: int) -> bytes:
    """Encode a comment that keeps the connection alive, and the number to continue after."""
    return b":\nid: %d\n\n" % number


class Part(NamedTuple):
    """Messages that a stream sends at once."""

    text: bytes
    events: int
    occurred: float  # the first of them, by this process's monotonic clock; 0.0 without any


class Parts:
    """Parts of streams: selected and joined once for all that want the same events."""

    #: Most parts that are kept: streams that take turns want few different ones.
    KEPT = 16

    def __init__(self) -> None:
        self._parts: dict[Hashable, Part] = {}

    def of(self, events: Sequence[Event], is_selected: Callable[[Row[Any]], bool]) -> Part:
        """
        Return the messages of those events that are selected.

        events: consecutive ones, at least one.
        is_selected: hashable; equal ones select the same events.
        """
        key = (is_selected, events[0], events[-1])
        part = self._parts.get(key)
        if part is None:
            selected_events = [event for event in events if is_selected(event.row)]
            occurred = selected_events[0].occurred if selected_events else 0.0
            part = Part(
                b"".join([event.text for event in selected_events]), len(selected_events), occurred
            )
            if len(self._parts) >= self.KEPT:
                self._parts.clear()
            self._parts[key] = part
        return part
