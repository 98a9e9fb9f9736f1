"""
Freshness of calls: each is executed by the process that it was sent to, in its time, and once.

The seal of a call (`app.broker.calls`) proves which service wrote it, and binds it to its key. A
copy has the same seal and key: the process that has executed the call remembers the key until the
call expires, by the database's clock. A key has the incarnation of its conductor as prefix, so no
other process executes a copy.
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
    _expiries: dict[str, float] = field(default_factory=dict)  # key -> monotonic time of expiry
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_for_us(self, key: str) -> bool:
        """Whether a call was sent to this incarnation; keys of an older release name none."""
        incarnation, colon, _ = key.partition(":")
        return not colon or incarnation == self.incarnation

    def accept(self, key: str, call: Mapping[str, Any], seconds: float) -> float:
        """
        Return the number of seconds left to execute a call.

        seconds: until it expires in Redis; counts only for calls of a release that sends no time.
        Raises Forged: it is a copy of a call, or its time is over.
        Raises SQLAlchemyError.
        """
        if "until" not in call:
            return seconds
        try:
            expires_at = datetime.fromisoformat(call["until"])
            with self.runtime.reading() as session:
                seconds = (expires_at - session.scalars(select(now())).one()).total_seconds()
        except (TypeError, ValueError):
            raise Forged("its time cannot be read") from None
        if seconds <= 0:
            raise Forged("its time is over")
        moment = time.monotonic()
        with self._lock:
            if key in self._expiries:
                raise Forged("it was executed before")
            self._expiries = {
                accepted_key: expiry
                for accepted_key, expiry in self._expiries.items()
                if expiry > moment
            }
            self._expiries[key] = moment + seconds
        return seconds
