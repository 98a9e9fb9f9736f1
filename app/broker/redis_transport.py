"""
Kombu's Redis transport with one Redis client per channel, which survives malformed messages.

Kombu creates a new client object for each command outside of a consumer, which takes as much time
as the command itself. An entry of a queue that is no message would end its worker.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis

from app.broker.redis_broker import DRIVER
from app.observe import log

logger = log.RateLimited(log.get(__name__))


#: Option of the transport: key with the ends of temporary bindings, one for each service.
DEADLINES = "keyprefix_binding_deadlines"


class Channel(redis.Channel):  # type: ignore[misc]
    """A channel whose client lasts as long as its pool of connections."""

    from_transport_options = (*redis.Channel.from_transport_options, DEADLINES)
    _lasting_client: Any = None

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """Yield the given client, or that of the channel; clients are safe for threads."""
        if client is None:
            client = self._lasting_client
        if client is None or client.connection_pool is not self.pool:
            with super().conn_or_acquire() as client:
                self._lasting_client = client
        yield client

    def _connparams(self, *args: object, **options: object) -> dict[str, Any]:
        """Return the parameters of a connection."""
        return {**super()._connparams(*args, **options), "driver_info": DRIVER}

    def _brpop_read(self, **options: object) -> bool:
        """Deliver the next entry of a queue; drop one that is no message."""
        try:
            return bool(super()._brpop_read(**options))
        except (Empty, *self.connection_errors, *self.connection.channel_errors):
            raise
        except Exception as error:  # of the decoder, in many kinds
            logger.warning("message.malformed", detail=f"{type(error).__name__}: {error}")
            return True


class SentinelChannel(Channel, redis.SentinelChannel):  # type: ignore[misc]
    """A channel to the present master of Sentinel."""

    from_transport_options = (*redis.SentinelChannel.from_transport_options, DEADLINES)


class Transport(redis.Transport):  # type: ignore[misc]
    Channel = Channel


class SentinelTransport(redis.SentinelTransport):  # type: ignore[misc]
    Channel = SentinelChannel


#: Transport by scheme of the broker URL.
TRANSPORTS = {"redis": Transport, "rediss": Transport, "sentinel": SentinelTransport}


def register() -> None:
    """Make Kombu use this transport for all connections to Redis of this process."""
    for scheme, transport in TRANSPORTS.items():
        TRANSPORT_ALIASES[scheme] = f"{__name__}:{transport.__name__}"
