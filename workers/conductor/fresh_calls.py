"""
Freshness of calls: each is executed by the process that it was sent to, in its time, and once.

The seal of a call (`app.broker.calls`) proves which service wrote it, and binds it to its key. A
copy has the same seal and key: the process that has executed the call remembers the key until the
call expires, by the database's clock. Keys begin with the incarnation of the conductor, so no other
process executes a copy.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select

from app.broker.seals import Forged
from app.db.clock import now
from app.runtime import Runtime


@dataclass(slots=True)
class FreshCalls:
    """Calls that one process has accepted."""

    runtime: Runtime
    incarnation: str  # of the conductor
    _accepted: dict[str, float] = field(default_factory=dict)  # key -> monotonic time of expiry
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_for_us(self, key: str) -> bool:
        """Whether a call was sent to this incarnation; keys of an older release name none."""
        incarnation, colon, _ = key.partition(":")
        return not colon or incarnation == self.incarnation

    def accept(self, key: str, call: Mapping[str, Any], seconds: float) -> float:
        """
        Return the seconds in which a call may be executed.

        seconds: until it expires in Redis; counts only for calls of a release that sends no time.
        Raises Forged: it is a copy of a call, or its time is over.
        Raises SQLAlchemyError.
        """
        if "until" not in call:
            return seconds
        try:
            until = datetime.fromisoformat(call["until"])
            with self.runtime.reading() as session:
                seconds = (until - session.scalars(select(now())).one()).total_seconds()
        except (TypeError, ValueError):
            raise Forged("its time cannot be read") from None
        if seconds <= 0:
            raise Forged("its time is over")
        moment = time.monotonic()
        with self._lock:
            if key in self._accepted:
                raise Forged("it was executed before")
            self._accepted = {
                each: expiry for each, expiry in self._accepted.items() if expiry > moment
            }
            self._accepted[key] = moment + seconds
        return seconds
