"""Subscriptions to the events of a BMC, a part of the management interface."""

from dataclasses import dataclass
from typing import ClassVar

from drivers.core.errors import NotSupported
from drivers.core.target import Target


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of this service, as the BMC lists it."""

    path: str  # at the BMC
    destination: str  # URL
    is_enabled: bool  # the BMC has not suspended it


class EventSource:
    """
    Subscriptions of this service to a BMC's events.

    mark: a part of the destinations of a node's subscriptions, before their secret. All methods
    raise HardwareError.
    """

    name: ClassVar[str]
    sends_events: ClassVar[bool] = False

    def event_subscriptions(
        self, target: Target, mark: str, path: str | None = None
    ) -> list[Subscription]:
        """
        Return the subscriptions with a mark; only the one at `path` if that is one of them.

        Raises NotSupported: the BMC has no event service.
        """
        raise NotSupported(f"{self.name} management has no events")

    def subscribe(self, target: Target, destination: str, mark: str, context: str) -> str | None:
        """
        Order a subscription; return its path, or None if the BMC names none.

        destination: URL with a secret after the mark, which no error shows.

        Raises Unconfirmed: it was sent, and its answer was lost.
        """
        raise NotSupported(f"{self.name} management has no events")

    def unsubscribe(self, target: Target, path: str) -> None:
        """Delete a subscription, which may be gone."""
        raise NotSupported(f"{self.name} management has no events")

    def submit_test_event(self, target: Target) -> bool:
        """Have the BMC send a test event to all subscribers; False if it offers none."""
        raise NotSupported(f"{self.name} management has no events")
