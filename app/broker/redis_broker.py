"""
Redis clients for data other than Celery's messages: leases, calls, marks and records.
"""

import socket
from typing import Any, cast

import redis
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelManagedConnection

from app.config import redis_url

#: TCP keepalive: seconds until the first probe, seconds between probes, and their number.
KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
#: Most connections of a client, each of a thread that waits for Redis: of a watched console, of a
#: call to a conductor. redis-py refuses those above 100 by default, as if Redis were out of reach.
MOST_CONNECTIONS = 10_000
#: Name and version of redis-py, which each connection would read from a file otherwise.
DRIVER = DriverInfo()


class MasterConnection(SentinelManagedConnection):
    """
    Connection to the master that Sentinel names; it closes itself if an answer was not read.

    That of redis-py is used again after a timeout, as if nothing were outstanding (redis-py 8.1,
    pull request 4292): from then on each command gets the answer of the command before it, and a
    lease that another conductor holds counts as taken.
    """

    def read_response(
        self,
        disable_decoding: bool = False,
        *,
        disconnect_on_error: bool | None = True,
        **arguments: Any,
    ) -> Any:
        return super().read_response(
            disable_decoding, disconnect_on_error=disconnect_on_error, **arguments
        )


def client(url: str, seconds: float) -> redis.Redis:
    """
    Create a client for `[broker]url`; no call lasts longer than twice `seconds`.

    A call is retried once if its connection had been closed, and not after a timeout. Through
    Sentinel, each new connection leads to the present master.

    Raises ValueError: the URL is invalid.
    """
    address = redis_url.parse(url)
    options: dict[str, Any] = {
        **address.login,
        "socket_connect_timeout": seconds,
        "socket_timeout": seconds,
        "driver_info": DRIVER,
        "max_connections": MOST_CONNECTIONS,
        "retry": Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    }
    if address.scheme == "redis+socket":
        return redis.Redis(unix_socket_path=address.path, **options)
    options |= {"socket_keepalive": True, "socket_keepalive_options": KEEPALIVE}
    if address.scheme == "sentinel":
        login = address.sentinel_options(seconds)
        sentinel = Sentinel(address.hosts, sentinel_kwargs=login)  # type: ignore[no-untyped-call]
        master = sentinel.master_for(  # type: ignore[no-untyped-call]
            address.master, redis.Redis, connection_class=MasterConnection, **options
        )
        return cast("redis.Redis", master)
    ((host, port),) = address.hosts
    options |= {"ssl": address.scheme == "rediss", **address.tls}
    return redis.Redis(host, port, **options)
