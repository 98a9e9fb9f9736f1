"""
RabbitMQ as oslo.messaging uses it for notifications (its driver `messagingv2`).

A message counts as sent when RabbitMQ has confirmed it. Exchange and queues are declared as
oslo.messaging does, so that a notification is kept also if no consumer has come yet.
"""

import json
import time
from collections.abc import Mapping, Sequence
from uuid import uuid4

from amqp.exceptions import AMQPError, MessageNacked
from kombu import Connection, Exchange, Producer, Queue
from kombu.exceptions import KombuError

from app.broker.redis_broker import KEEPALIVE
from app.config.option_types import transport_urls
from app.config.settings import Settings

#: Exceptions that mean: RabbitMQ is out of reach, or refuses messages.
FAILURES = (KombuError, AMQPError, MessageNacked, OSError)
#: Version of the envelope that oslo.messaging reads.
ENVELOPE = "2.0"


class NotificationBus:
    """A connection to RabbitMQ for notifications, opened when it is needed. For one thread."""

    def __init__(self, settings: Settings, topics: Sequence[str] | None = None) -> None:
        """topics: of all notifications; None: those of versioned ones."""
        self._urls = transport_urls(settings.oslo_messaging_notifications.transport_url)
        self._rabbit = settings.oslo_messaging_rabbit
        self._topics = topics or settings.default.versioned_notifications_topics
        self._timeout = settings.notifications.timeout
        durable = self._rabbit.amqp_durable_queues or self._rabbit.rabbit_quorum_queue
        self._exchange = Exchange(settings.default.control_exchange, "topic", durable=durable)
        self._connection: Connection | None = None
        self._producer: Producer | None = None
        self._declared: set[str] = set()  # routing keys

    def open(self) -> None:
        """Connect, unless there is a connection. Raises one of FAILURES."""
        if self._producer is None:
            self._connection = self._connect()
            self._producer = Producer(self._connection.default_channel, auto_declare=False)

    def publish(self, notification: Mapping[str, object], level: str, seconds: float) -> None:
        """
        Publish a notification to all topics; return when RabbitMQ has confirmed it.

        seconds: time for the confirmations. The connection is open.

        Raises one of FAILURES.
        """
        body, end = _enveloped(notification), time.monotonic() + seconds
        for topic in self._topics:
            routing_key = f"{topic}.{level}"
            producer = self._ready(routing_key)
            producer.publish(
                body,
                exchange=self._exchange,
                routing_key=routing_key,
                serializer="json",
                timeout=max(end - time.monotonic(), 0.01),
                confirm_timeout=max(end - time.monotonic(), 0.01),
            )

    def close(self) -> None:
        """Close the connection; the next notification opens another one."""
        if self._connection is not None:
            self._connection.release()
        self._connection = self._producer = None
        self._declared.clear()

    def _ready(self, routing_key: str) -> Producer:
        """Return a producer on a connection on which the queue of a routing key is declared."""
        assert self._producer is not None
        if routing_key not in self._declared:
            arguments = {"x-queue-type": "quorum"} if self._rabbit.rabbit_quorum_queue else None
            Queue(
                routing_key,
                self._exchange,
                routing_key,
                channel=self._producer.channel,
                durable=self._exchange.durable,
                queue_arguments=arguments,
            ).declare()
            self._declared.add(routing_key)
        return self._producer

    def _connect(self) -> Connection:
        """Connect to the first host that answers."""
        for number, url in enumerate(self._urls):
            connection = self._connection_to(url)
            try:
                connection.ensure_connection(max_retries=0)
            except FAILURES:
                connection.release()
                if number == len(self._urls) - 1:
                    raise
            else:
                self._urls = self._urls[number:] + self._urls[:number]
                return connection
        raise AssertionError("there is at least one host")

    def _connection_to(self, url: str) -> Connection:
        seconds = self._timeout / len(self._urls)
        options = {
            "confirm_publish": True, "max_retries": 0, "read_timeout": seconds,
            "write_timeout": seconds, "socket_settings": KEEPALIVE,
        }  # fmt: skip
        connection = Connection(url, connect_timeout=seconds, transport_options=options)
        if url.startswith("amqps"):
            verified = {"check_hostname": True, "cafile": self._rabbit.ssl_ca_file or None}
            connection.ssl = {"context": verified, "server_hostname": connection.hostname}
        return connection


def _enveloped(notification: Mapping[str, object]) -> dict[str, object]:
    """Return the body of the message that carries a notification."""
    unique = {"_unique_id": uuid4().hex}  # of the message: consumers drop a repeated one
    return {"oslo.version": ENVELOPE, "oslo.message": json.dumps({**notification, **unique})}
