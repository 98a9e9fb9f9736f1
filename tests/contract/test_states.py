"""Requests for power and provision states."""

import pytest

from app.db.clock import utcnow
from app.models import Node, NodeHistory

from .conftest import fault


def test_a_verb_becomes_a_dispatched_operation(api):
    uuid = api.node(name="n1")["uuid"]
    answer = api("PUT", "/v1/nodes/n1/states/provision", {"target": "manage"})

    assert (202, b"") == (answer.status_code, answer.data)
    assert "http://localhost/v1/nodes/n1/states" == answer.headers["Location"]
    states = api("GET", "/v1/nodes/n1/states").json
    assert ("verifying", "manageable") == (
        states["provision_state"],
        states["target_provision_state"],
    )
    (operation,) = api("GET", "/v1/nodes/n1/operations").json["operations"]
    assert [operation["uuid"]] == [message.operation for message in api.messages]
    whole = api("GET", f"/v1/operations/{operation['uuid']}").json
    assert (uuid, "queued") == (whole["node_uuid"], whole["state"])
    assert whole["steps"]
    assert [f"{step['interface']}.{step['step']}" for step in whole["steps"]] == [
        link.label for link in api.messages[0].links
    ]


@pytest.mark.parametrize(
    ("version", "state", "body", "status"),
    [
        ("1.3", "enroll", {"target": "manage"}, 406),
        ("1.14", "manageable", {"target": "clean"}, 406),
        ("1.115", "enroll", {"target": "active"}, 400),
        ("1.115", "enroll", {"target": "done"}, 400),
        ("1.115", "enroll", {"target": "nonsense"}, 400),
        ("1.115", "enroll", {}, 400),
        ("1.115", "enroll", {"target": "manage", "colour": "red"}, 400),
        ("1.115", "enroll", {"target": "manage", "configdrive": "YQ=="}, 400),
        ("1.115", "available", {"target": "active", "configdrive": 1}, 400),
        ("1.115", "available", {"target": "active", "configdrive": {"colour": 1}}, 400),
        ("1.55", "available", {"target": "active", "configdrive": {"meta_data": {}}}, 400),
        ("1.115", "manageable", {"target": "clean"}, 400),
        ("1.115", "manageable", {"target": "clean", "clean_steps": []}, 400),
        ("1.115", "manageable", {"target": "clean", "clean_steps": [{"step": "x"}]}, 400),
        ("1.115", "manageable", {"target": "clean", "clean_steps": [{"interface": "raid"}]}, 400),
        ("1.115", "manageable",
         {"target": "clean", "clean_steps": [{"interface": "raid", "step": "x", "priority": 1}]}, 400),
        ("1.115", "manageable",
         {"target": "clean", "clean_steps": [{"interface": "vendor", "step": "send_raw"}]}, 400),
        ("1.68", "available",
         {"target": "active", "deploy_steps":
          [{"interface": "raid", "step": "x", "args": {}, "priority": 1}]}, 406),
        ("1.69", "available",
         {"target": "active", "deploy_steps": [{"interface": "raid", "step": "x"}]}, 400),
        ("1.115", "active", {"target": "rescue", "rescue_password": "  "}, 400),
        ("1.115", "active", {"target": "rescue"}, 400),
        ("1.107", "active", {"target": "service", "disable_ramdisk": True}, 406),
        ("1.91", "manageable", {"target": "clean", "runbook": "r"}, 406),
    ],
)  # fmt: skip
def test_the_arguments_of_a_verb_are_checked(api, version, state, body, status):
    uuid = api.node(provision_state=state)["uuid"]
    answer = api.at(version)("PUT", f"/v1/nodes/{uuid}/states/provision", body)

    assert status == answer.status_code, fault(answer)
    assert [] == api.messages


def test_a_verb_may_be_in_the_query(api):
    uuid = api.node()["uuid"]

    path = f"/v1/nodes/{uuid}/states/provision?target=manage"
    assert 202 == api("PUT", path).status_code


def test_a_locked_node_refuses_verbs(api):
    uuid = api.node(reservation="rack-1")["uuid"]
    answer = api("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "manage"})

    assert 409 == answer.status_code
    assert "is locked by host rack-1" in fault(answer)["faultstring"]


@pytest.mark.parametrize(
    ("version", "columns", "body", "status"),
    [
        ("1.115", {}, {"target": "power on"}, 202),
        ("1.115", {}, {"target": "soft power off", "timeout": 5}, 202),
        ("1.26", {}, {"target": "soft power off"}, 406),
        ("1.26", {}, {"target": "power on", "timeout": 5}, 406),
        ("1.115", {}, {"target": "power on", "timeout": 0}, 400),
        ("1.115", {}, {"target": "power on", "timeout": "soon"}, 400),
        ("1.115", {}, {"target": "up"}, 400),
        ("1.115", {"provision_state": "cleaning"}, {"target": "power on"}, 400),
        ("1.115", {"provision_state": "clean wait"}, {"target": "power on"}, 400),
        ("1.115", {"reservation": "rack-1"}, {"target": "power on"}, 409),
        ("1.115", {"disable_power_off": True}, {"target": "power off"}, 409),
    ],
)
def test_power_requests_are_checked(api, version, columns, body, status):
    uuid = api.node(**columns)["uuid"]
    answer = api.at(version)("PUT", f"/v1/nodes/{uuid}/states/power", body)

    assert status == answer.status_code
    assert (1 if status == 202 else 0) == len(api.messages)


def test_the_states_of_a_node_have_the_fields_of_the_version(api):
    uuid = api.node()["uuid"]
    old, new = (
        api.at(version)("GET", f"/v1/nodes/{uuid}/states").json.keys()
        for version in ("1.11", "1.115")
    )

    assert {"raid_config", "target_raid_config", "boot_mode", "secure_boot"} == new - old


def test_the_history_of_a_node_is_short_or_detailed(api):
    node = api.node(name="n1")
    with api.runtime.transaction() as session:
        row = session.query(Node).one()
        for number in range(3):
            session.add(NodeHistory(
                uuid=f"00000000-0000-4000-8000-00000000000{number}", node_id=row.id,
                severity="ERROR", created_at=utcnow(), event_type="cleaning", event="x" * 300,
                conductor="rack-1"))  # fmt: skip
    entries = api("GET", "/v1/nodes/n1/history").json["history"]

    assert ["x" * 251 + "..."] * 3 == [entry["event"] for entry in entries]
    assert "conductor" not in entries[0]
    page = api("GET", "/v1/nodes/n1/history?detail=true&limit=2").json
    assert ["rack-1"] * 2 == [entry["conductor"] for entry in page["history"]]
    assert 1 == len(api("GET", page["next"]).json["history"])
    one = api("GET", f"/v1/nodes/{node['uuid']}/history/{entries[0]['uuid']}").json
    assert "x" * 300 == one["event"]
    assert "project" not in api.at("1.112")("GET", entries[0]["links"][0]["href"]).json
