"""RabbitMQ as the broker: the life of nodes, with a restart of RabbitMQ."""

import pytest

from app.broker import backlog, queue
from app.broker.breakers import FAILURES, Breakers
from app.config import settings
from tests.support import rabbitmq
from tests.support.fleet import Fleet, until

SLOW = {"INGOT_FAKE_VENDOR_DELAY": "0.2,0.6", "INGOT_BROKER_CONNECT_TIMEOUT": "2"}


@pytest.fixture
def server(tmp_path):
    with rabbitmq.serving(tmp_path) as broker:
        yield broker


def test_nodes_live_their_life_although_rabbitmq_is_restarted_and_emptied(server, tmp_path):
    settings_of_messages = {"INGOT_BROKER_MESSAGES_URL": server.url}
    with Fleet(tmp_path, **SLOW, **settings_of_messages) as fleet:
        nodes = fleet.create_nodes(6)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        with fleet.redis() as client:
            assert not client.keys("conductor.*"), "Redis carries messages"

        fleet.provision(nodes[:3], "provide")
        server.stop()
        fleet.provision(nodes[3:], "provide")
        server.start()
        fleet.await_state(nodes, "available")
        fleet.provision(nodes, "active")
        fleet.await_state(nodes, "active")

        messages = held_by(server)
        until(messages.marked, "the mark")
        assert 0 == messages.backlog("fleet-1")
        assert 0 == messages.backlog("absent")
        fleet.provision(nodes, "deleted")
        messages.application.pool.force_close_all()
        with messages.application.connection_for_write() as connection:
            channel = connection.default_channel
            for name in ("ingot.epoch", "conductor.fleet-1", "conductor.fleet-2"):
                channel.queue_purge(name)
            channel.queue_delete("ingot.epoch")
        fleet.await_state(nodes, "available")
        until(lambda: fleet.log("broker.was_empty"), "the detection of the emptied broker")
        breakers = Breakers(settings_of(server).broker)
        breakers._send()
        server.stop()
        with pytest.raises(FAILURES):
            breakers._send()
        messages.application.close()


def settings_of(server):
    environ = {"INGOT_BROKER_MESSAGES_URL": server.url, "INGOT_BROKER_URL": "redis://unused"}
    return settings.load(environ)


def held_by(server):
    loaded = settings_of(server)
    return backlog.messages_of(queue.celery(loaded), loaded, None)
