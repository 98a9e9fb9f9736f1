"""
Sending the readings of a sensor sweep to RabbitMQ, as Ironic's notifications.

Readings are samples: those that RabbitMQ does not take are dropped, and the next sweep sends
others. After a failure the rest of the sweep is not sent, so that an outage costs one timeout a
sweep.
"""

import threading
import time
from collections.abc import Sequence
from datetime import datetime

from app.db.clock import moment
from app.inventory.sensors import Reading
from app.models import Node
from app.notifications.notification_bus import FAILURES, NotificationBus
from app.notifications.sensor_notifications import Subject, made_of
from app.observe import log
from app.runtime import Runtime

logger = log.get(__name__)


class Notifier:
    """The notifications of one sweep."""

    def __init__(self, runtime: Runtime, conductor: str) -> None:
        settings = runtime.settings
        self._bus = NotificationBus(settings, settings.oslo_messaging_notifications.topics)
        self._runtime = runtime
        self._timeout, self._host = settings.notifications.timeout, conductor
        self._waiting: list[tuple[Subject, Sequence[Reading]]] = []
        self._dropped = 0
        self._failure = ""  # of RabbitMQ in this sweep
        self._sending = threading.Lock()  # the connection is for one thread

    def add(self, node: Node, readings: Sequence[Reading]) -> None:
        """Keep the readings of a node for `send`."""
        subject = Subject(node.uuid, node.name, node.instance_uuid, node.driver)
        self._waiting.append((subject, readings))

    def send(self) -> None:
        """Send what waits; drop it if RabbitMQ has failed in this sweep."""
        with self._sending:
            waiting, self._waiting = self._waiting, []
            with self._runtime.reading() as session:
                read_at = moment(session)
            end = time.monotonic() + self._timeout
            for number, (subject, readings) in enumerate(waiting):
                if self._failure or not self._is_sent(subject, readings, read_at, end):
                    self._dropped += len(waiting) - number
                    return

    def close(self) -> None:
        """Close the connection, and log what was dropped."""
        with self._sending:
            self._bus.close()
        if self._dropped:
            logger.warning("sensors.not_notified", nodes=self._dropped, detail=self._failure)

    def _is_sent(
        self, subject: Subject, readings: Sequence[Reading], read_at: datetime, end: float
    ) -> bool:
        notification = made_of(subject, readings, self._host, read_at)
        try:
            self._bus.open()
            self._bus.publish(notification, "info", max(end - time.monotonic(), 0.01))
        except FAILURES as error:
            self._failure = str(error) or type(error).__name__
            return False
        return True
