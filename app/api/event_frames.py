"""Frames of a stream of change events."""

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import Row

from app.api.answers import OPTIONS
from app.db.clock import age
from app.kit.change_events import ALL, document
from app.models import ChangeEvent

EVENTS = ChangeEvent.__table__.c
#: With the columns that decide who may see an event, and its age in seconds.
WITH_PROJECTS = ALL.add_columns(EVENTS.owner, EVENTS.lessee, age(EVENTS.created_at).label("waited"))


def frame(row: Row[Any]) -> bytes:
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
