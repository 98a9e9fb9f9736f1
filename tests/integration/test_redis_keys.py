"""Keys that the clients of Celery and Kombu write to Redis: all have the prefix of their service."""

import pytest

from app.broker import queue
from app.config.settings import load
from tests.support import redis as own_redis


@pytest.fixture
def port(tmp_path):
    with own_redis.serving(tmp_path) as port:
        yield port


def keys_of(port, prefix):
    """Return the keys that a service has written: by messages, a worker, remote control, events."""
    url = f"redis://127.0.0.1:{port}/0"
    with own_redis.client(port) as client:
        client.flushall()
        environ = {"INGOT_BROKER_URL": url, "INGOT_BROKER_PREFIX": prefix}
        with queue.celery(load(environ)) as application:
            queue.send_task(application, "ingot.x", (), queue.queues_of(application).shared)
            with application.connection_for_read() as connection:
                with application.amqp.TaskConsumer(connection.channel()):
                    application.control.ping(timeout=0.1)
                receiver = application.events.Receiver(connection.channel())
                with receiver.consumer_context(limit=0), connection.channel() as channel:
                    application.events.Dispatcher(connection, channel=channel).send("worker-online")
            return {key.decode() for key in client.scan_iter()}


def test_services_with_prefixes_write_no_common_key(port):
    one, two, plain = (keys_of(port, prefix) for prefix in ("site-a", "site-b", "ingot"))
    assert len(one) > 2
    assert all("site-a" in key for key in one), one
    assert all("site-b" in key for key in two), two
    assert not one & plain
    assert "conductor.now" in plain, "as in earlier releases"
