"""Sending notifications, which are made of change events, to RabbitMQ."""

import time
from typing import Any

from sqlalchemy import Row, Select

from app.events import change_events, notification_events
from app.metrics.table import NOTIFICATION_DELIVERIES, NOTIFICATION_LAG
from app.models import NotificationCursor
from app.notifications.notification_bus import FAILURES, NotificationBus
from app.notifications.notifications import ERROR, INFO, Notification, made_of
from app.observe import log
from app.runtime import Runtime
from workers.periodic.delivery import Sent
from workers.periodic.sole_subscriber import SoleSubscriber

logger = log.get(__name__)


class Notifications(SoleSubscriber):
    """Deliveries of a process to RabbitMQ, its only subscriber."""

    name = "notification"
    model = NotificationCursor
    outcomes, lag = NOTIFICATION_DELIVERIES, NOTIFICATION_LAG

    def __init__(self, runtime: Runtime, conductor: str) -> None:
        super().__init__(runtime, runtime.settings.notifications.timeout)
        self._host = conductor
        self._bus = NotificationBus(runtime.settings)
        level = runtime.settings.default.notification_level
        self._levels = {
            "debug": (INFO, ERROR),
            "info": (INFO, ERROR),
            "warning": (ERROR,),
            "error": (ERROR,),
        }.get(level or "", ())

    def selected(self, row: Row[object]) -> Select[object]:
        return notification_events.SELECTED

    def send(self, row: Row[Any], previous_sequence: int, page: change_events.Found) -> Sent:
        """Publish notifications one by one; those that are confirmed in time count as sent."""
        if previous_sequence > row.position:
            logger.warning("notifications.lost", after=row.position, last=previous_sequence)
        with self._runtime.reading() as session:
            notifications = list(made_of(session, page.rows))
        position = row.position
        try:
            self._bus.open()
            end = time.monotonic() + self._timeout
            for notification in notifications:
                seconds = end - time.monotonic()
                if seconds <= 0 and position > row.position:
                    return Sent(position)
                if notification.level in self._levels:
                    self._bus.publish(
                        self._document(notification), notification.level, max(seconds, 0.01)
                    )
                position = notification.sequence
        except FAILURES as error:
            self._bus.close()
            return Sent(position, f"RabbitMQ: {error or type(error).__name__}")
        return Sent(page.last)

    def end_turn(self) -> None:
        self._bus.close()

    def _document(self, notification: Notification) -> dict[str, object]:
        """Return a notification as oslo.messaging's consumers get it."""
        return {
            "message_id": notification.ident,
            "publisher_id": f"{notification.publisher}.{self._host}",
            "event_type": notification.event_type,
            "priority": notification.level.upper(),
            "payload": notification.payload,
            "timestamp": str(notification.created_at),
            "_context_request_id": None,
        }
