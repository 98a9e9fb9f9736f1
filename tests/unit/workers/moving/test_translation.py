"""Rows of Ironic as rows of this service, without a database."""

import json
from datetime import datetime

import pytest

from app.models import (
    Allocation,
    BiosSetting,
    FirmwareComponent,
    Node,
    NodeHistory,
    NodeInventory,
    NodeTrait,
    Port,
    Portgroup,
    VolumeConnector,
    VolumeTarget,
)
from workers.moving import translation
from workers.moving.bundles import NotMoved

TIMES = {"created_at": datetime(2025, 1, 2), "updated_at": None}
TYPES = {"fake-hardware": {kind: ["fake"] for kind in (
    "bios", "boot", "deploy", "firmware", "inspect", "management", "network", "power", "raid", "rescue",
    "storage", "vendor",
)} | {"console": ["no-console", "fake"]}}  # fmt: skip
NODE = {
    **TIMES, "id": 7, "uuid": "u-7", "name": "n7", "driver": "fake-hardware", "driver_info": "{}",
    "driver_internal_info": "{}", "provision_state": "active", "reservation": None, "target_power_state": None,
    "chassis_id": None, "console_enabled": 0, "conductor_group": "", "maintenance": 1, "extra": None,
    **{f"{kind}_interface": "fake" for kind in TYPES["fake-hardware"]},
}  # fmt: skip


class Rows:
    """Tables of Ironic: name -> rows."""

    def __init__(self, **tables):
        self.tables = tables

    def of(self, name, **values):
        return [
            row for row in self.tables.get(name, ())
            if all(row[column] == value for column, value in values.items())
        ]  # fmt: skip


def node(row=(), **tables):
    return translation.node(Rows(**tables), {**NODE, **dict(row)}, TYPES, {})


def part(model, table, **row):
    """Return the only part of a node that a row of a table becomes."""
    (values,) = node(**{table: [{**TIMES, "id": 1, "node_id": 7, **row}]}).parts[model]
    return values


def test_values_of_a_node_are_kept_and_those_of_ironics_work_are_not():
    internal = {
        "is_whole_disk_image": True, "root_uuid_or_disk_id": "r", "deploy_boot_mode": "uefi",
        "last_power_state_change": "2025", "automatic_lessee": True, "agent_url": "x", "steps": [1],
    }  # fmt: skip
    extra = {"driver_internal_info": json.dumps(internal), "extra": '{"a": 1}', "reservation": ""}
    values = node({**extra, "conductor_group": "Rack-A", "console_enabled": 1}.items()).values
    assert internal.keys() - {"agent_url", "steps"} == values["driver_internal_info"].keys()
    assert ({"a": 1}, "rack-a", True, True, None) == (
        values["extra"], values["conductor_group"], values["console_enabled"],
        values["maintenance"], values["reservation"],
    )  # fmt: skip
    assert values["maintenance"] is True, "a truth value, as JSON shows it"
    assert "id" not in values
    assert TIMES["created_at"] == values["created_at"]


@pytest.mark.parametrize("value", [None, "", "{}"])
def test_a_missing_document_or_group_is_the_default(value):
    values = node({"extra": value, "conductor_group": None, "driver_internal_info": value}.items())
    assert ({}, "", {}) == tuple(
        values.values[name] for name in ("extra", "conductor_group", "driver_internal_info")
    )
    assert Node.__table__.c.properties.default.arg(None) == values.values["properties"]


def test_a_nullable_column_that_a_release_lacks_is_null():
    row = {name: value for name, value in NODE.items() if name != "extra"}
    values = translation.node(Rows(), row, TYPES, {}).values
    assert values["description"] is None
    assert values["extra"] == {}


def test_a_chassis_is_named_by_its_uuid():
    chassis = [{"id": 3, "uuid": "c-3"}]
    assert "c-3" == node({"chassis_id": 3}.items(), chassis=chassis).values["chassis_uuid"]
    assert node(chassis=chassis).values["chassis_uuid"] is None


def test_a_console_that_is_missing_here_is_switched_off_with_a_note():
    row = {"console_enabled": 1, "console_interface": "ilo"}
    bundle = node(row.items())
    assert bundle.values["console_enabled"] is False
    assert "console_enabled -> false" in bundle.notes
    bundle = node({**row, "console_interface": "fake"}.items())
    assert (True, []) == (bundle.values["console_enabled"], bundle.notes)
    assert (
        [] == node({**row, "console_interface": "no-console", "console_enabled": 0}.items()).notes
    )


def test_tags_are_named_as_lost():
    tags = [{"node_id": 7, "tag": "a"}, {"node_id": 7, "tag": "b"}, {"node_id": 8, "tag": "c"}]
    assert ["without tags a, b"] == node(node_tags=tags).notes


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"provision_state": "imaging"}, "there is no such state here"),
        ({"provision_state": "cleaning"}, "start Ironic, wait for the end of its operation, then"),
        ({"provision_state": "clean wait"}, "wait for the end of its operation, or abort it, then"),
        ({"provision_state": "deploy hold"}, "unhold or abort it"),
        ({"reservation": "c-1"}, "locked by conductor c-1"),
        ({"target_power_state": "power on"}, "on the way to 'power on'"),
        ({"driver": "snmp"}, "hardware type snmp is not enabled here"),
    ],
)  # fmt: skip
def test_a_node_with_something_under_way_is_not_moved(row, words):
    with pytest.raises(NotMoved, match=words):
        node(row.items())


@pytest.mark.parametrize("state", ["enroll", "error", "clean failed", "inspect failed", "rescue"])
def test_a_settled_node_is_moved(state):
    assert state == node({"provision_state": state}.items()).values["provision_state"]


def test_ports_are_in_their_groups_and_addresses_in_small_letters():
    groups = [{**TIMES, "id": 5, "node_id": 7, "uuid": "g-5", "address": "AA:BB:CC:00:00:01"},
              {**TIMES, "id": 6, "node_id": 7, "uuid": "g-6", "address": None}]  # fmt: skip
    ports = [{**TIMES, "id": 1, "node_id": 7, "uuid": "p-1", "address": "AA:BB:CC:00:00:02", "portgroup_id": 5},
             {**TIMES, "id": 2, "node_id": 7, "uuid": "p-2", "address": "aa:bb:cc:00:00:03", "portgroup_id": None}]  # fmt: skip
    parts = node(portgroups=groups, ports=ports).parts
    assert [("aa:bb:cc:00:00:02", "g-5"), ("aa:bb:cc:00:00:03", None)] == [
        (port["address"], port["portgroup_id"]) for port in parts[Port]
    ]
    assert ["aa:bb:cc:00:00:01", None] == [group["address"] for group in parts[Portgroup]]
    assert {None} == {port["node_id"] for port in parts[Port]}
    models = list(parts)
    assert models.index(Portgroup) < models.index(Port), "a port refers to its group"


@pytest.mark.parametrize(
    ("model", "table", "row", "expected"),
    [
        (NodeTrait, "node_traits", {"trait": "CUSTOM_A"}, {"trait": "CUSTOM_A"}),
        (VolumeConnector, "volume_connectors", {"uuid": "v", "type": "iqn", "connector_id": "i"}, {"connector_id": "i"}),
        (VolumeTarget, "volume_targets", {"uuid": "v", "properties": '{"a": "b"}'}, {"properties": {"a": "b"}}),
        (BiosSetting, "bios_settings", {"name": "A", "value": "on", "read_only": 0}, {"value": "on", "read_only": False}),
        (FirmwareComponent, "firmware_information", {"component": "bmc", "current_version": "1"}, {"current_version": "1"}),
        (NodeHistory, "node_history", {"uuid": "h", "event": None, "event_type": None, "severity": None}, {"event": "", "event_type": "", "severity": ""}),
        (NodeHistory, "node_history", {"uuid": "h", "event": "e", "event_type": "t", "severity": "ERROR"}, {"event": "e", "event_type": "t", "severity": "ERROR"}),
        (NodeInventory, "node_inventory", {"inventory_data": '{"cpu": 1}', "plugin_data": '{"p": 2}'}, {"inventory": {"cpu": 1}, "plugin_data": {"p": 2}}),
        (Allocation, "allocations", {"uuid": "a", "state": "active", "traits": '["T"]', "candidate_nodes": '["n"]'}, {"traits": ["T"], "candidate_nodes": ["n"], "attempts": 0, "due_at": None}),
    ],
)  # fmt: skip
def test_what_belongs_to_a_node_is_moved_with_it(model, table, row, expected):
    values = part(model, table, **row)
    assert expected == {name: values[name] for name in expected}


def test_the_newest_inventory_is_moved():
    rows = [{**TIMES, "id": n, "node_id": 7, "inventory_data": json.dumps({"n": n}), "plugin_data": None}
            for n in (1, 2, 3)]  # fmt: skip
    assert [{"n": 3}] == [
        row["inventory"] for row in node(node_inventory=rows).parts[NodeInventory]
    ]


def test_an_allocation_that_looks_for_a_node_is_not_moved():
    row = {**TIMES, "id": 1, "uuid": "a-1", "node_id": None, "state": "allocating"}
    with pytest.raises(NotMoved, match="allocation a-1 is looking for a node"):
        translation.allocation(Rows(), row)
    row |= {"state": "error", "traits": '["T"]', "candidate_nodes": None}
    values = translation.allocation(Rows(), row).values
    assert (["T"], [], None, "error") == tuple(
        values[name] for name in ("traits", "candidate_nodes", "node_id", "state")
    )


def test_steps_and_traits_of_templates_are_parts_of_their_rows():
    step = {"interface": "bios", "step": "factory_reset", "args": '{"a": 1}'}
    rows = Rows(
        deploy_template_steps=[{**step, "deploy_template_id": 1, "priority": 10}],
        runbook_steps=[
            {**step, "runbook_id": 2, "order": 3},
            {**step, "runbook_id": 1, "order": 1},
        ],
        runbook_traits=[{"runbook_id": 2, "trait": "B"}, {"runbook_id": 2, "trait": "A"}],
    )
    moved = {"interface": "bios", "step": "factory_reset", "args": {"a": 1}}
    template = translation.deploy_template(rows, {**TIMES, "id": 1, "uuid": "t", "name": "T"})
    assert [{**moved, "priority": 10}] == template.values["steps"]
    runbook = translation.runbook(rows, {**TIMES, "id": 2, "uuid": "r", "name": "R"})
    assert ([{**moved, "order": 3}], ["A", "B"]) == (
        runbook.values["steps"], runbook.values["traits"],
    )  # fmt: skip


def test_rules_for_some_nodes_are_not_moved():
    row = {
        **TIMES,
        "id": 1,
        "uuid": "r",
        "scope": None,
        "conditions": '[{"op": "eq"}]',
        "actions": '[{"op": "log"}]',
    }
    values = translation.inspection_rule(Rows(), row).values
    assert ([{"op": "eq"}], [{"op": "log"}]) == (values["conditions"], values["actions"])
    with pytest.raises(NotMoved, match="scope lab"):
        translation.inspection_rule(Rows(), {**row, "scope": "lab"})


@pytest.mark.parametrize(
    ("column", "value", "limit"),
    [
        ("lower_bound", 2**31, "32 bits"), ("lower_bound", -(2**31), "32 bits"), ("lower_bound", 2**31 - 1, None),
        ("lower_bound", 1 - 2**31, None), ("attribute_type", "a" * 255, None), ("attribute_type", "a" * 256, "255 characters"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_column_is_refused(column, value, limit):
    if limit is None:
        assert value == part(BiosSetting, "bios_settings", name="A", **{column: value})[column]
        return
    with pytest.raises(NotMoved, match=f"bios_settings.{column} has more than {limit}"):
        part(BiosSetting, "bios_settings", name="A", **{column: value})
