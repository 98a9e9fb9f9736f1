"""
The conductor as the owner of claims: its identity, and its transactions.

A conductor writes only while it knows that the database was not restored.
"""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app.lifecycle.operation_states import Actor
from app.runtime import Runtime
from workers.conductor.lease import Leases
from workers.conductor.poller import WaitMonitor
from workers.restoration.restore_guard import RestoreGuard

MARK = "mark"


class StaleWatermark(OperationalError):
    """
    The conductor has not checked its watermark recently, so it must not write.

    It may have been stopped, and the database restored meanwhile.
    """

    def __init__(self, conductor: str) -> None:
        reason = f"conductor {conductor} must first check whether the database was restored"
        super().__init__(None, None, Exception(reason))


@dataclass(slots=True)
class Conductor:
    """This process, as the owner of claims."""

    name: str
    incarnation: str  # UUID
    runtime: Runtime
    leases: Leases
    witness: RestoreGuard
    wait_monitor: WaitMonitor
    #: Set while the conductor stops, or an operator has drained it: it claims no more steps.
    draining: threading.Event = field(default_factory=threading.Event)
    #: Tokens of the attempts in progress, from before the claim to after the record.
    attempts: set[str] = field(default_factory=set)
    #: Highest watermark seen; a database with a lower one is not written to.
    watermark: int = 0
    #: Monotonic time until which `watermark` is recent enough to detect a restored database.
    watermark_valid_until: float = math.inf

    def set_watermark(self, watermark: int, checked_at: float) -> None:
        """Set the watermark; checked_at: monotonic time before that of other processes was read."""
        self.watermark = watermark
        self.watermark_valid_until = checked_at + self.runtime.settings.conductor.heartbeat_timeout

    def has_valid_watermark(self, now: float) -> bool:
        return now < self.watermark_valid_until

    @contextmanager
    def write_connection(self) -> Iterator[Connection]:
        """
        Open a transaction without a session.

        Raises StaleWatermark: as `transaction`.
        """
        with self.runtime.write_connection() as connection:
            yield connection
            self._require_valid_watermark()

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """
        Open a transaction about an attempt.

        Raises StaleWatermark: the database may have been restored since the watermark was checked.
        """
        with self.runtime.transaction(Actor.CONDUCTOR) as session:
            # before the watermark is read, as the heartbeat raises both meanwhile
            session.info[MARK] = self.watermark
            yield session
            self._require_valid_watermark()

    def _require_valid_watermark(self) -> None:
        # called after the first statement: the connection is bound to one database from then on
        if not self.has_valid_watermark(time.monotonic()):
            raise StaleWatermark(self.name)
