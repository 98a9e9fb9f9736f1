"""
Messages in the broker: length of a conductor's queue, and detection of a broker that lost all.

A mark is stored next to the messages, as a key in Redis or as a queue in RabbitMQ, so that it is
lost together with them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import redis
from amqp.exceptions import NotFound
from celery import Celery

from app.broker.breakers import FAILURES
from app.broker.queue import Queues, queues_of
from app.config.settings import Settings
from app.errors import Unavailable
from app.process.circuit_breaker import CircuitBreaker


class Messages(Protocol):
    """
    Messages of this service in its broker.

    All methods raise one of `app.broker.breakers.FAILURES` when the broker is out of reach.
    """

    def backlog(self, conductor: str) -> int:
        """Number of messages in the step queue of a conductor, by its name."""

    def marked(self) -> bool:
        """Whether the mark exists; if not, the broker is new, or lost its messages."""

    def mark(self, conductor: str) -> None:
        """Set the mark; `conductor` is the name of the conductor that sets it."""

    def probe(self) -> None:
        """Do nothing but reach the broker; a Redis that accepts no writes counts as away."""


@dataclass(frozen=True, slots=True)
class InRedis:
    client: redis.Redis
    prefix: str

    def backlog(self, conductor: str) -> int:
        return int(self.client.llen(Queues(self.prefix).steps(conductor)))

    def marked(self) -> bool:
        return bool(self.client.exists(f"{self.prefix}:epoch"))

    def mark(self, conductor: str) -> None:
        self.client.set(f"{self.prefix}:epoch", conductor, nx=True)

    def probe(self) -> None:
        self.client.set(f"{self.prefix}:probe", b"", px=1000)


@dataclass(frozen=True, slots=True)
class InRabbitMQ:
    application: Celery
    prefix: str

    def backlog(self, conductor: str) -> int:
        return self._length(queues_of(self.application).steps(conductor)) or 0

    def marked(self) -> bool:
        return self._length(f"{self.prefix}.epoch") is not None

    def mark(self, conductor: str) -> None:
        with self.application.pool.acquire(block=True) as connection:
            connection.ensure_connection(max_retries=0)
            with connection.channel() as channel:
                channel.queue_declare(f"{self.prefix}.epoch", durable=True, auto_delete=False)

    def probe(self) -> None:
        self.marked()

    def _length(self, queue: str) -> int | None:
        """Number of messages in a queue; None if there is no such queue."""
        with self.application.pool.acquire(block=True) as connection:
            connection.ensure_connection(max_retries=0)
            with connection.channel() as channel:
                try:
                    return int(channel.queue_declare(queue, passive=True).message_count)
                except NotFound:
                    return None


def messages_of(application: Celery, settings: Settings, client: redis.Redis) -> Messages:
    """The messages of this service: in RabbitMQ if `[broker]messages_url` is set, else in Redis."""
    if settings.broker.messages_url:
        return InRabbitMQ(application, settings.broker.prefix)
    return InRedis(client, settings.broker.prefix)


def reader(messages: Messages, reach: CircuitBreaker) -> Callable[[str], int]:
    """
    Return a function with the length of a conductor's step queue, by the conductor's name.

    The function raises Unavailable: the broker is out of reach, or was a moment ago.
    """

    def backlog(conductor: str) -> int:
        try:
            with reach.guard():
                return messages.backlog(conductor)
        except FAILURES as error:
            raise Unavailable(f"the broker is out of reach: {error}") from error

    return backlog
