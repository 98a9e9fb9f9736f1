"""
Messages that lie in the broker: how many a conductor has not taken, and whether all are lost.

The mark that tells whether they are lies where they do, and shares their fate: a key in Redis, a
queue in RabbitMQ.
"""

from dataclasses import dataclass
from typing import Protocol

import redis
from amqp.exceptions import NotFound
from celery import Celery

from app.broker.queue import queue_of
from app.config.settings import Settings


class Messages(Protocol):
    """Every method raises one of `app.broker.queue.FAILURES`."""

    def backlog(self, conductor: str) -> int:
        """How many messages about steps a conductor, by its name, has not taken."""

    def marked(self) -> bool:
        """Whether the mark is there; if not, the broker is new, or was emptied."""

    def mark(self, conductor: str) -> None:
        """Set the mark; conductor: who does."""


@dataclass(frozen=True, slots=True)
class InRedis:
    client: redis.Redis
    prefix: str

    def backlog(self, conductor: str) -> int:
        return int(self.client.llen(queue_of(conductor)))

    def marked(self) -> bool:
        return bool(self.client.exists(f"{self.prefix}:epoch"))

    def mark(self, conductor: str) -> None:
        self.client.set(f"{self.prefix}:epoch", conductor, nx=True)


@dataclass(frozen=True, slots=True)
class InRabbitMQ:
    application: Celery
    prefix: str

    def backlog(self, conductor: str) -> int:
        return self._length(queue_of(conductor)) or 0

    def marked(self) -> bool:
        return self._length(f"{self.prefix}.epoch") is not None

    def mark(self, conductor: str) -> None:
        with self.application.pool.acquire(block=True) as connection:
            connection.ensure_connection(max_retries=0)
            with connection.channel() as channel:
                channel.queue_declare(f"{self.prefix}.epoch", durable=True, auto_delete=False)

    def _length(self, queue: str) -> int | None:
        """None: there is no such queue."""
        with self.application.pool.acquire(block=True) as connection:
            connection.ensure_connection(max_retries=0)
            with connection.channel() as channel:
                try:
                    return int(channel.queue_declare(queue, passive=True).message_count)
                except NotFound:
                    return None


def of(application: Celery, settings: Settings, client: redis.Redis) -> Messages:
    """Those of this service; client: of its Redis."""
    if settings.broker.messages_url:
        return InRabbitMQ(application, settings.broker.prefix)
    return InRedis(client, settings.broker.prefix)
