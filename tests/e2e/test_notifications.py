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
    with rabbitmq.serving(tmp_path) as broker:
        yield broker


def rabbit(server):
    """Transport URL as oslo.messaging knows it."""
    return server.url.replace("amqp://", "rabbit://")


def settings(server, **variables):
    return {
        "INGOT_NOTIFICATION_LEVEL": "info",
        "INGOT_OSLO_MESSAGING_NOTIFICATIONS_TRANSPORT_URL": rabbit(server),
        "INGOT_OSLO_MESSAGING_RABBIT_AMQP_DURABLE_QUEUES": "true",
        "INGOT_NOTIFICATIONS_TIMEOUT": "4",
        **variables,
    }


def moves(notifications):
    """Node -> its changes of the provision state, in their order."""
    changes = defaultdict(list)
    for notification in notifications:
        data = notification["payload"]["ironic_object.data"]
        if ".provision_set." in notification["event_type"]:
            status = notification["event_type"].rpartition(".")[2]
            states = data["previous_provision_state"], data["provision_state"]
            changes[data["uuid"]].append((status, data["event"], *states))
    return dict(changes)


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
        expected = {state: [*MANAGED, *PROVIDED, *DEPLOYED] for state in fleet.states()}
        until(lambda: moves(heard.distinct) == expected, "all changes, in their order")
        assert len(heard.all) > len(heard.distinct), "the attempt that died is repeated"
        until(lambda: not late(fleet), "the end of the outage")

        node = f"{fleet.url}/v1/nodes/{nodes[0]}"
        assert fleet.http.put(f"{node}/states/power", json={"target": "rebooting"}).ok
        assert fleet.http.put(f"{node}/maintenance", json={"reason": "fans"}).ok
        kinds = {"create.end", "power_set.start", "power_set.end", "maintenance_set.end"}
        until(lambda: kinds <= types(heard.distinct), "notifications of the other kinds")


PAYLOADS = {
    "port": ("PortCRUDPayload", "1.8"),
    "portgroup": ("PortgroupCRUDPayload", "1.3"),
    "volumeconnector": ("VolumeConnectorCRUDPayload", "1.0"),
    "volumetarget": ("VolumeTargetCRUDPayload", "1.0"),
    "allocation": ("AllocationCRUDPayload", "1.1"),
    "chassis": ("ChassisCRUDPayload", "1.0"),
    "deploytemplate": ("DeployTemplateCRUDPayload", "1.0"),
    "runbook": ("RunbookCRUDPayload", "1.1"),
    "inspectionrule": ("InspectionRuleCRUDPayload", "1.0"),
}
STEPS = [{"interface": "deploy", "step": "erase_devices", "args": {}}]
EXTRA = [{"op": "add", "path": "/extra", "value": {"rack": 7}}]
DESCRIPTION = [{"op": "add", "path": "/description", "value": "new"}]


def resources(node):
    """Noun of a kind -> its path, the body that creates one, and a patch."""
    node_field = {"node_uuid": node}
    volume = {**node_field, "volume_type": "iscsi", "volume_id": "v", "boot_index": 0}
    rule = {"actions": [{"op": "fail", "args": {"msg": "no"}}]}
    return {
        "chassis": ("chassis", {"description": "left"}, EXTRA),
        "portgroup": ("portgroups", {**node_field, "mode": "802.3ad"}, EXTRA),
        "port": ("ports", {**node_field, "address": "52:54:00:aa:bb:cc"}, EXTRA),
        "volumeconnector": (
            "volume/connectors", {**node_field, "type": "iqn", "connector_id": "iqn.x"}, EXTRA,
        ),
        "volumetarget": ("volume/targets", volume, EXTRA),
        "deploytemplate": (
            "deploy_templates",
            {"name": "CUSTOM_T", "steps": [{**STEPS[0], "priority": 10}]}, EXTRA,
        ),
        "runbook": ("runbooks", {"name": "CUSTOM_R", "steps": [{**STEPS[0], "order": 1}]}, EXTRA),
        "inspectionrule": ("inspection_rules", rule, DESCRIPTION),
        "allocation": ("allocations", {"name": "a", "resource_class": "none-such"}, EXTRA),
    }  # fmt: skip


def test_every_resource_has_notifications_which_survive_kills(server, tmp_path):
    """Conductors are killed between the changes and the delivery: RabbitMQ is away meanwhile."""
    with (
        listening(rabbit(server), "amqp_durable_queues") as heard,
        Fleet(tmp_path, restart=True, **settings(server)) as fleet,
    ):
        until(lambda: fleet.log("notifications.begun"), "the cursor")
        answer = fleet.http.post(
            f"{fleet.url}/v1/nodes", json={"name": "n", "driver": "fake-hardware"}
        )
        node = answer.json()["uuid"]
        server.stop()
        expected = {}
        power = {"target": "power off"}
        assert fleet.http.put(f"{fleet.url}/v1/nodes/n/states/power", json=power).ok
        until(lambda: fleet.get("nodes/n")["power_state"] == "power off", "the power state")
        for noun, (path, body, patch) in resources(node).items():
            creation = fleet.http.post(f"{fleet.url}/v1/{path}", json=body)
            assert creation.status_code == 201, (noun, creation.text)
            uuid = creation.json()["uuid"]
            url = f"{fleet.url}/v1/{path}/{uuid}"
            if noun == "allocation":
                until(lambda url=url: fleet.http.get(url).json()["state"] == "error", "its end")
            changed = fleet.http.patch(url, json=patch)
            assert changed.ok, (noun, changed.text)
            deletion = fleet.http.delete(url)
            assert deletion.status_code == 204, (noun, deletion.text)
            extra = ["update"] if noun == "allocation" else []  # the conductor's
            expected[noun, uuid] = ["create", *extra, "update", "delete"]
        kill([pid for number in (1, 2) for pid in processes.children(fleet.conductor(number))])
        server.start()
        until(lambda: of_resources(heard.distinct) == expected, "all changes, in their order")
        assert fleet.http.delete(f"{fleet.url}/v1/nodes/n").status_code == 204
        until(lambda: "delete.end" in types(heard.distinct), "the end of the node")
        for notification in heard.distinct:
            noun = notification["event_type"].split(".")[1]
            if noun != "node":
                payload = notification["payload"]
                identity = payload["ironic_object.name"], payload["ironic_object.version"]
                assert identity == PAYLOADS[noun]
                has_node = noun in ("port", "portgroup", "volumeconnector", "volumetarget")
                assert not has_node or payload["ironic_object.data"]["node_uuid"] == node


def of_resources(notifications):
    """Noun and UUID of each resource but nodes -> its actions, in their order."""
    actions = defaultdict(list)
    for notification in notifications:
        _, noun, action, status = notification["event_type"].split(".")
        if noun != "node":
            assert (status, notification["publisher_id"].split(".")[0]) == ("end", "ironic-api")
            actions[noun, notification["payload"]["ironic_object.data"]["uuid"]].append(action)
    return dict(actions)


def types(notifications):
    return {
        notification["event_type"].removeprefix("baremetal.node.") for notification in notifications
    }


def late(fleet):
    """The part of the state of the service that is not healthy."""
    parts = {part["part"]: part for part in fleet.get("service")["parts"]}
    part = parts.get("notifications")
    return None if part is None or part["healthy"] else part
