"""Refreshes over the API, by whom, and the command."""

import json

import pytest
from sqlalchemy import select

from app.db.clock import moment
from app.inventory import hardware_inventory
from app.models import Node, NodeRefresh, Operation, OperationStep
from drivers.core.interface_kinds import KINDS
from drivers.core.target import BmcInventory
from tests.support.inside_commands import Ingot

PATH = "/v1/nodes/n1/refresh"
UUID = "00000000-0000-0000-0000-000000000001"
CHANGE = {"fact": "firmware.bmc", "before": "1", "after": None}
PARTS = {
    "bios_settings": {"state": "unread", "reason": "the BMC has none"},
    "firmware": {"state": "compared", "reason": None},
}


@pytest.fixture
def node(api):
    return api.node(name="n1", provision_state="active")


def record(api):
    with api.runtime.transaction() as session:
        row = session.scalar(select(Node))
        hardware_inventory.store_of_bmc(session, row, BmcInventory({"cpu": {"count": 4}}))
        session.add(NodeRefresh(
            node_id=row.id, operation_uuid=UUID, read_at=moment(session), changed=1,
            changes=[CHANGE], parts=PARTS,
        ))  # fmt: skip


def operations(api):
    with api.runtime.reading() as session:
        return [(row.kind, row.state) for row in session.scalars(select(Operation))]


def test_a_refresh_is_an_operation_of_the_reading_steps_of_its_interfaces(api, node):
    answer = api("POST", PATH)
    assert (202, "", "http://localhost/v1/nodes/n1/refresh") == (
        answer.status_code, answer.text, answer.headers["Location"],
    )  # fmt: skip
    assert [("refresh", "queued")] == operations(api)
    with api.runtime.reading() as session:
        labels = [step.label for step in session.scalars(select(OperationStep))]
    assert ["bios.cache_bios_settings", "firmware.cache_firmware_components"] == labels
    node_document = api("GET", "/v1/nodes/n1").json
    states = node_document["provision_state"], node_document["target_provision_state"]
    assert ("active", None) == states
    refusal = api("POST", PATH)
    assert (409, 1) == (refusal.status_code, len(operations(api)))
    assert "is locked by host" in refusal.text


def test_a_request_with_a_key_starts_one_refresh(api, node):
    for _ in range(2):
        answer = api("POST", PATH, **{"Idempotency-Key": "k-1"})
        assert 202 == answer.status_code
    assert 1 == len(operations(api))


@pytest.mark.parametrize(
    ("columns", "status", "words"),
    [
        ({"provision_state": "clean wait"}, 409, "while a state transition is in progress"),
        ({"bios_interface": "no-bios", "firmware_interface": "no-firmware"}, 400,
         "no BIOS settings by bios interface no-bios"),
        ({"driver": "redfish"}, 400, "driver_info/redfish_address"),
        ({"driver": "ipmi"}, 400, "no inventory by management interface ipmitool"),
    ],
)  # fmt: skip
def test_a_node_that_cannot_be_refreshed_is_refused_with_the_reason(
    api, node, columns, status, words
):
    with api.runtime.transaction() as session:
        row = session.scalar(select(Node))
        interfaces = {f"{kind}_interface": None for kind in KINDS} if "driver" in columns else {}
        for name, value in (interfaces | columns).items():
            setattr(row, name, value)
    answer = api("POST", PATH)
    assert (status, []) == (answer.status_code, operations(api))
    assert words in answer.text
    assert 404 == api("POST", "/v1/nodes/n2/refresh").status_code
    assert 400 == api("POST", f"{PATH}?parts=bios").status_code


def test_the_results_of_the_last_refresh_are_shown(api, node):
    assert 404 == api("GET", PATH).status_code
    record(api)
    answer = api("GET", PATH).json
    assert answer.pop("read_at").endswith("+00:00")
    assert {
        "operation_uuid": UUID, "parts": PARTS, "changed": 1, "changes": [CHANGE],
        "inventory": {"cpu": {"count": 4}},
    } == answer  # fmt: skip


def test_the_results_are_deleted_with_their_node(api):
    api.node(name="n1", provision_state="manageable")
    record(api)
    assert 204 == api("DELETE", "/v1/nodes/n1").status_code
    with api.runtime.reading() as session:
        assert [] == session.scalars(select(NodeRefresh)).all()


def test_a_rollout_of_refreshes_takes_no_arguments(api, node):
    body = {"target": "refresh", "nodes": {"where": "name=n1"}, "dry_run": True}
    assert 1 == api("POST", "/v1/rollouts", body).json["included"]
    for field, value in (("timeout", 3), ("runbook", "r"), ("clean_steps", [])):
        answer = api("POST", "/v1/rollouts", body | {field: value})
        assert 400 == answer.status_code
        assert f"{field}: not taken by refresh" in answer.text


def test_the_command_shows_the_last_results_and_starts_refreshes(api, node):
    record(api)
    ingot = Ingot(api.client.application)
    text = ingot("node", "refresh", "n1", "--last").out
    assert "1 changed fact; bios_settings unread (the BMC has none), firmware compared" in text
    assert ["firmware.bmc", "1"] == text.splitlines()[-1].split()[:2]
    assert (
        CHANGE
        == json.loads(ingot("node", "refresh", "n1", "--last", "-o", "json").out)["changes"][0]
    )
    assert "refresh accepted, operation" in ingot("node", "refresh", "--where", "name=n1").out
    assert "is locked by host" in ingot("node", "refresh", "n1", status=1).err
    assert "--last: name one node" in ingot("node", "refresh", "n1", "n2", "--last", status=2).err
