"""Connections to Redis: one for each thread that waits for it."""

from concurrent.futures import ThreadPoolExecutor

WAITING = 150


def test_more_than_a_hundred_threads_wait_for_redis_at_once(redis_client):
    """As the API does for the watchers of as many consoles; 100 is the default of redis-py."""
    with ThreadPoolExecutor(WAITING) as threads:
        waits = [threads.submit(redis_client.blpop, ["nothing"], 1) for _ in range(WAITING)]
    assert [None] * WAITING == [wait.result() for wait in waits]
