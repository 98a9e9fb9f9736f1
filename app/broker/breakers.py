"""
Circuit breakers of Redis and RabbitMQ: each use of them has one, and all are made here.

A server that was lost is tried by a thread, with limits of its own, and not by a call: so it is
found within three seconds of its return, however long `[broker]connect_timeout` is.
"""

from dataclasses import dataclass

import redis
from amqp.exceptions import AMQPError
from kombu import Connection, Producer
from kombu.exceptions import KombuError, OperationalError

from app.broker.redis_broker import client
from app.config.settings import Broker
from app.process.circuit_breaker import CircuitBreaker

#: Exceptions of Redis and of RabbitMQ that mean: the broker is out of reach or refuses messages.
FAILURES = (KombuError, redis.RedisError, AMQPError, OSError)
#: Log events at the start and the end of an outage of Redis or RabbitMQ.
OUTAGE = ("broker.unreachable", "broker.reached_again")
#: Seconds to connect to a server that was lost, and for its answer.
PROBE_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class Breakers:
    """Makes the circuit breakers of a process."""

    broker: Broker

    def of_reads(self) -> CircuitBreaker:
        """Return a breaker for uses of Redis that a full or read-only one serves, too."""
        return CircuitBreaker(
            OUTAGE, (redis.RedisError, OSError), redis.ConnectionError, probe=self._read
        )

    def of_writes(self) -> CircuitBreaker:
        """Return a breaker for writes to Redis; one that accepts none counts as away."""
        return CircuitBreaker(
            OUTAGE, (redis.RedisError, OSError), redis.ConnectionError, probe=self._write
        )

    def of_messages(self) -> CircuitBreaker:
        """Return a breaker for messages, which Redis or RabbitMQ carries."""
        return CircuitBreaker(OUTAGE, FAILURES, OperationalError, probe=self._send)

    def of_queues(self) -> CircuitBreaker:
        """Return a breaker for reads of the queues of messages."""
        probe = self._send if self.broker.messages_url else self._read
        return CircuitBreaker(OUTAGE, FAILURES, OperationalError, probe=probe)

    def of_calls(self) -> CircuitBreaker:
        """Return a breaker for calls, which lie in Redis while a message tells of them."""
        return CircuitBreaker(OUTAGE, FAILURES, OperationalError, probe=self._call)

    def _read(self) -> None:
        with client(self.broker.url, PROBE_TIMEOUT) as connection:
            connection.get(self._key)

    def _write(self) -> None:
        with client(self.broker.url, PROBE_TIMEOUT) as connection:
            connection.set(self._key, b"", px=1000)

    def _send(self) -> None:
        """Send messages without a receiver, and wait for the confirmations."""
        if not self.broker.messages_url:
            self._write()
            return
        timeouts = {"read_timeout": PROBE_TIMEOUT, "write_timeout": PROBE_TIMEOUT}
        connection = Connection(
            self.broker.messages_url,
            connect_timeout=PROBE_TIMEOUT,
            transport_options={"confirm_publish": True, **timeouts},
        )
        try:
            connection.ensure_connection(max_retries=0)
            producer = Producer(connection.channel())
            # RabbitMQ confirms the first message of a connection even if it is short of memory
            for _ in range(2):
                producer.publish(b"", routing_key=self._key, confirm_timeout=PROBE_TIMEOUT)
        finally:
            connection.collect()  # unlike `close`, it waits for no answer

    def _call(self) -> None:
        self._write()
        if self.broker.messages_url:
            self._send()

    @property
    def _key(self) -> str:
        return f"{self.broker.prefix}:probe"
