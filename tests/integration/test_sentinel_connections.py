"""Connections to Redis through Sentinel: after an answer that came too late."""

from contextlib import ExitStack

import pytest
import redis
from kombu import Connection

from app.broker import redis_broker, redis_transport
from app.config import redis_url
from tests.support import redis as own_redis
from tests.support.fleet import until
from tests.support.ports import free_port

#: Seconds that a client waits for an answer.
PATIENCE = 0.3


@pytest.fixture
def served(tmp_path):
    """URL of a Redis by Sentinel, and a client of that Redis alone."""
    with ExitStack() as stack:
        folders = [tmp_path / "redis", tmp_path / "sentinel"]
        for folder in folders:
            folder.mkdir()
        primary, port = stack.enter_context(own_redis.serving(folders[0])), free_port()
        (folders[1] / "sentinel.conf").write_text(
            f"port {port}\nbind 127.0.0.1\ndir {folders[1]}\n"
            f"sentinel monitor main 127.0.0.1 {primary} 1\n"
        )
        stack.enter_context(own_redis.sentinel(folders[1]))
        watcher = stack.enter_context(own_redis.client(port))
        until(lambda: answers(watcher), "the Sentinel")
        yield f"sentinel://127.0.0.1:{port}/main", stack.enter_context(own_redis.client(primary))


def answers(client):
    try:
        return client.ping()
    except redis.ConnectionError:
        return False


def direct(url):
    return redis_broker.client(url, PATIENCE)


def of_messages(url):
    """The client of Kombu's channel, as messages are sent with."""
    redis_transport.register()
    address = redis_url.parse(url)
    connection = Connection(
        address.for_kombu,
        transport_options={"master_name": address.master, "socket_timeout": PATIENCE},
    )
    with connection.default_channel.conn_or_acquire() as client:
        return client


@pytest.mark.parametrize("client_of", [direct, of_messages])
def test_each_command_gets_its_own_answer_after_one_that_came_too_late(served, client_of):
    url, primary = served
    client = client_of(url)
    client.set("name", "value")
    # the server executes the command, and answers after the client has given up
    primary.execute_command("CLIENT", "PAUSE", "1000", "ALL")
    with pytest.raises(redis.TimeoutError):
        client.ping()
    until(primary.ping, "the end of the pause")
    assert b"value" == client.get("name")
    assert client.set("lease", "ours", nx=True)
    assert not client.set("lease", "theirs", nx=True), "a lease that is held counts as taken"
