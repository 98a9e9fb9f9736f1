"""Contact of a process with the database: the time for which it may judge others."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Contact:
    """
    Time for which this process has reached the database without interruption.

    A process that was disconnected itself must not declare conductors dead. Neither may it while
    the database accepts no heartbeats, because it is read-only or full.
    """

    timeout: float  # seconds without a heartbeat after which a conductor counts as dead
    clock: Callable[[], float] = time.monotonic
    in_touch_since: float = field(init=False)  # start of the uninterrupted time
    last_contact: float = field(init=False)  # last contact

    def __post_init__(self) -> None:
        self.in_touch_since = self.last_contact = self.clock()

    def record(self, silence: float = 0.0) -> bool:
        """
        Record a contact; return whether the uninterrupted time exceeds the timeout.

        silence: seconds since the last heartbeat of any conductor; more than half a timeout, which
        is longer than the heartbeat interval, counts as an interruption.
        """
        time_of_contact = self.clock()
        if time_of_contact - self.last_contact > self.timeout or silence > self.timeout / 2:
            self.in_touch_since = time_of_contact
        self.last_contact = time_of_contact
        return time_of_contact - self.in_touch_since >= self.timeout
