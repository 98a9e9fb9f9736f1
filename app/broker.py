"""
The broker as a Redis server: for what is not a message of Celery's.
"""

import redis


def client(url: str, seconds: float) -> redis.Redis:
    """A client of a broker URL as Celery has it."""
    return redis.Redis.from_url(
        url.replace("redis+socket://", "unix://", 1),
        socket_connect_timeout=seconds,
        socket_timeout=seconds,
    )
