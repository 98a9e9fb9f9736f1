"""The current command to a BMC: limits of its answers, and the orders among its requests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from drivers.core.errors import Unconfirmed, Unexpected, Unreachable, WithoutEffect
from drivers.net.answers import Budget


class Command:
    """Requests of the current command to a BMC: their limits, and the last order among them."""

    def __init__(self) -> None:
        self.budget = Budget()
        self.accepted: str | None = None  # last order that the BMC has accepted
        self.reading = False  # the last request was no order
        #: receives each exchange (`drivers.core.recording.traffic`); None: it is not recorded
        self.record: Callable[[dict[str, object]], None] | None = None

    def begin(self, record: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Begin a command. record: see the attribute."""
        self.budget.renew()
        self.accepted, self.reading, self.record = None, False, record

    @contextmanager
    def judged(self) -> Iterator[None]:
        """
        Tell the loss of a read after an accepted order from an order that was not sent.

        Raises Unconfirmed in place of Unreachable and Unexpected.
        """
        try:
            yield
        except (Unconfirmed, WithoutEffect):
            raise
        except (Unreachable, Unexpected) as error:
            if self.accepted is None or not self.reading:
                raise
            raise Unconfirmed(f"{self.accepted} was ordered, not confirmed: {error}") from error
