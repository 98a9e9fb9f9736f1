"""
Redis clients for data other than Celery's messages: leases, calls, marks and records.
"""

import socket

import redis
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.retry import Retry

from app.kit.reach import CircuitBreaker

#: TCP keepalive: seconds until the first probe, seconds between probes, and their number.
KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
#: Name and version of redis-py, which each connection would read from a file otherwise.
DRIVER = DriverInfo()
#: Log events at the begin and the end of an outage of Redis or RabbitMQ.
OUTAGE = ("broker.unreachable", "broker.reached_again")


def verified(url: str) -> str:
    """
    Return a broker URL that has the server's certificate verified, unless it says otherwise.

    Kombu verifies no certificate of a rediss:// URL without `ssl_cert_reqs`; redis-py does.
    """
    if not url.startswith("rediss://") or "ssl_cert_reqs=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=required"


def client(url: str, seconds: float) -> redis.Redis:
    """
    Create a client for a broker URL in Celery's form; no call lasts longer than twice `seconds`.

    A call is retried once if its connection had been closed, and not after a timeout.
    """
    url = url.replace("redis+socket://", "unix://", 1)
    alive = {"socket_keepalive": True, "socket_keepalive_options": KEEPALIVE}
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=seconds,
        socket_timeout=seconds,
        driver_info=DRIVER,
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        **({} if url.startswith("unix:") else alive),
    )


def circuit_breaker() -> CircuitBreaker:
    """Create a `Reach` of Redis, for one kind of access; refused calls raise ConnectionError."""
    return CircuitBreaker(OUTAGE, (redis.RedisError, OSError), redis.ConnectionError)
