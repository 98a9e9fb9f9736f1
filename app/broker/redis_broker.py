"""
The broker as a Redis server: for what is not a message of Celery's.
"""

import socket

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.kit.reach import Reach

#: Of a connection that hears nothing: how soon the kernel asks whether the other end is there.
KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
#: How the log tells of an outage, of Redis or of RabbitMQ.
OUTAGE = ("broker.unreachable", "broker.reached_again")


def client(url: str, seconds: float) -> redis.Redis:
    """
    A client of a broker URL as Celery has it; no call lasts longer than twice `seconds`.

    Only a connection that was closed meanwhile is tried again.
    """
    url = url.replace("redis+socket://", "unix://", 1)
    alive = {"socket_keepalive": True, "socket_keepalive_options": KEEPALIVE}
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=seconds,
        socket_timeout=seconds,
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        **({} if url.startswith("unix:") else alive),
    )


def reach() -> Reach:
    """Whether Redis answers, for one kind of question; what is not asked raises RedisError."""
    return Reach(OUTAGE, (redis.RedisError, OSError), redis.ConnectionError)
