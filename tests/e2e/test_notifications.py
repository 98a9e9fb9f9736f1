"""Notifications of a real service in RabbitMQ, read by oslo.messaging's own listener."""

import os
import signal
from collections import defaultdict
from contextlib import suppress

import pytest

from tests.support import processes, rabbitmq
from tests.support.fleet import Fleet, until
from tests.support.oslo_listener import listening


@pytest.fixture
def server(tmp_path):
    with rabbitmq.serving(tmp_path) as made:
        yield made


def rabbit(server):
    """Transport URL as oslo.messaging knows it."""
    return server.url.replace("amqp://", "rabbit://")


def settings(server, **more):
    return {
        "INGOT_NOTIFICATION_LEVEL": "info",
        "INGOT_OSLO_MESSAGING_NOTIFICATIONS_TRANSPORT_URL": rabbit(server),
        "INGOT_OSLO_MESSAGING_RABBIT_AMQP_DURABLE_QUEUES": "true",
        "INGOT_NOTIFICATIONS_DELIVERY_INTERVAL": "0.2",
        "INGOT_NOTIFICATIONS_TIMEOUT": "4",
        "INGOT_NOTIFICATIONS_MAX_RETRY_INTERVAL": "1",
        **more,
    }


def moves(notifications):
    """Node -> its changes of the provision state, in their order."""
    found = defaultdict(list)
    for each in notifications:
        data = each["payload"]["ironic_object.data"]
        if ".provision_set." in each["event_type"]:
            status = each["event_type"].rpartition(".")[2]
            states = data["previous_provision_state"], data["provision_state"]
            found[data["uuid"]].append((status, data["event"], *states))
    return dict(found)


def kill(pids):
    """Kill processes; the supervisor starts their conductors again."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


MANAGED = [("start", "manage", "enroll", "verifying"), ("end", "done", "verifying", "manageable")]
PROVIDED = [
    ("start", "provide", "manageable", "cleaning"), ("end", "done", "cleaning", "available"),
]  # fmt: skip
DEPLOYED = [
    ("start", "deploy", "available", "deploying"), ("end", "done", "deploying", "active"),
]  # fmt: skip


def test_each_change_arrives_in_order_through_kills_and_outages(server, tmp_path):
    mark = tmp_path / "died"
    strike = {"INGOT_KILL_POINTS": f"any:posted:notification=die-{mark}"}
    with (
        listening(rabbit(server), "amqp_durable_queues") as heard,
        Fleet(tmp_path, restart=True, **settings(server, **strike)) as fleet,
    ):
        until(lambda: fleet.log("notifications.begun"), "the cursor")
        nodes = fleet.create_nodes(3)
        until(mark.exists, "the death between RabbitMQ's confirmation and its record")
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")

        server.stop()
        fleet.provision(nodes, "provide")
        fleet.await_state(nodes, "available")
        part = until(lambda: late(fleet), "the report of the outage")
        assert "events wait" in part["details"]
        kill([pid for number in (1, 2) for pid in processes.children(fleet.conductor(number))])
        server.start()

        fleet.provision(nodes, "active")
        fleet.await_state(nodes, "active")
        expected = {each: [*MANAGED, *PROVIDED, *DEPLOYED] for each in fleet.states()}
        until(lambda: moves(heard.distinct) == expected, "all changes, in their order")
        assert len(heard.all) > len(heard.distinct), "the attempt that died is repeated"
        until(lambda: not late(fleet), "the end of the outage")

        node = f"{fleet.url}/v1/nodes/{nodes[0]}"
        assert fleet.http.put(f"{node}/states/power", json={"target": "rebooting"}).ok
        assert fleet.http.put(f"{node}/maintenance", json={"reason": "fans"}).ok
        kinds = {"create.end", "power_set.start", "power_set.end", "maintenance_set.end"}
        until(lambda: kinds <= types(heard.distinct), "notifications of the other kinds")


def types(notifications):
    return {each["event_type"].removeprefix("baremetal.node.") for each in notifications}


def late(fleet):
    """The part of the state of the service that is not healthy."""
    parts = {each["part"]: each for each in fleet.get("service")["parts"]}
    found = parts.get("notifications")
    return None if found is None or found["healthy"] else found
