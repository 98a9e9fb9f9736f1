"""Refreshes: facts read again by the BMC, and nothing else changed."""

import pytest

from app.errors import Conflict, Invalid, NodeLocked
from app.models import (
    BaselineNode,
    BiosSetting,
    FirmwareComponent,
    InventorySource,
    Node,
    NodeHistory,
    OperationState,
    Port,
)
from app.reports import fleet_operations, why
from drivers.core.errors import NotSupported, Unreachable
from drivers.core.steps import Done
from drivers.core.target import BmcInventory
from drivers.fake.hardware import FakeBios, FakeManagement
from drivers.redfish.transport.session import Session
from drivers.simulator.simulator import running
from tests.integration.harness import Acme, Harness, requested
from tests.integration.refreshes.conftest import (
    BMC,
    MACHINE,
    MEMORY,
    SMALLER,
    SQLITE,
    ask,
    changes,
    columns,
    create_baseline,
    events,
    inspected,
    inventory_of,
    refresh,
    result,
    rows,
    told,
)
from tests.integration.rollouts.conftest import Fleet


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_a_changed_machine_is_recorded_while_it_is_active_and_goes_on(harness):
    create_baseline(harness, MEMORY, BMC)
    with running(machines=1) as fleet:
        machine = fleet.machines[0]
        machine.power, machine.boot_target, machine.boot_enabled = "On", "Hdd", "Continuous"
        node = harness.node(
            "active", driver_info=machine.driver_info(), power_state="power on",
            properties={"memory_mb": "7", "capabilities": "a:b"}, last_error="of before",
        )  # fmt: skip
        harness.inside.change(Node, node, driver="redfish")
        assert "succeeded" == refresh(harness, node)
        assert (0, []) == (result(harness, node).changed, events(harness, node))
        assert {"first"} == {part["state"] for part in result(harness, node).parts.values()}
        (compared,) = rows(harness, BaselineNode, node)
        assert "complies" == compared.state
        first_columns, ports = columns(harness, node), rows(harness, Port, node)
        orders, boot = len(machine.log), (machine.boot_target, machine.boot_enabled, machine.power)
        machine.memory_gib, machine.firmware["BMC"] = 16, "2.11"
        machine.bios["NumLock"] = "Off"
        assert "succeeded" == refresh(harness, node)
        facts = [
            ("bios.NumLock", "On", "Off"), ("firmware.bmc", "2.10", "2.11"),
            ("memory.physical_mb", "32768", "16384"),
        ]  # fmt: skip
        assert facts == changes(harness, node)
        assert orders == len(machine.log), "no order was sent"
        assert boot == (machine.boot_target, machine.boot_enabled, machine.power)
    assert first_columns == columns(harness, node)
    assert [port.uuid for port in ports] == [port.uuid for port in rows(harness, Port, node)]
    (compared,) = rows(harness, BaselineNode, node)
    assert [("memory_mb", 16384), ("firmware.bmc", "2.11")] == [
        (difference["field"], difference["actual"]) for difference in compared.differences
    ]
    assert 16384 == inventory_of(harness, node).inventory["memory"]["physical_mb"]
    told_of = [row.event for row in rows(harness, NodeHistory, node) if row.severity == "WARNING"]
    assert 3 == len(told_of)
    assert "A refresh has found changes: firmware.bmc 2.10 -> 2.11." == told_of[1]
    operation = harness.last(node).uuid
    assert [(operation, "1"), (operation, "2"), (operation, "3")] == events(harness, node)
    assert "found 3 changed facts: bios.NumLock On -> Off" in told(harness, node)
    assert [1, 1, 1] == [step.result["changed"] for step in harness.steps(node)]
    assert "differs from baseline base" in told(harness, node)


def test_the_inventory_of_an_agent_stays_and_that_of_the_bmc_is_kept_beside_it(harness, shows):
    """Disks are volumes to an agent and drives to a BMC: neither is a change of the other."""
    node = harness.node("active")
    inspected(harness, node, {"disks": [{"name": "/dev/sda", "size": 1}]}, InventorySource.AGENT)
    shows(MACHINE)
    refresh(harness, node)
    assert ("first", []) == (
        result(harness, node).parts["inventory"]["state"],
        changes(harness, node),
    )
    shows(SMALLER)
    refresh(harness, node)
    assert [
        ("disks.S1", "name sda, serial S1, size 9", None),
        ("disks.S2", None, "name sda, serial S2, size 9"),
        ("memory.physical_mb", "65536", "32768"),
    ] == changes(harness, node)
    row = inventory_of(harness, node)
    assert ("/dev/sda", SMALLER) == (row.inventory["disks"][0]["name"], row.bmc_inventory)


@SQLITE
@pytest.mark.parametrize("source", [None, InventorySource.AGENT])
def test_an_inventory_of_unknown_origin_is_not_replaced(harness, shows, source):
    node = harness.node("available")
    inspected(harness, node, MACHINE, source)
    shows(SMALLER)
    refresh(harness, node)
    assert (MACHINE, SMALLER) == (
        inventory_of(harness, node).inventory, inventory_of(harness, node).bmc_inventory,
    )  # fmt: skip


@SQLITE
def test_an_inspection_by_the_bmc_is_what_the_next_refresh_compares_with(harness, shows):
    node = harness.node("active")
    shows(MACHINE)
    refresh(harness, node)
    inspected(harness, node, SMALLER, InventorySource.BMC)
    refresh(harness, node)
    assert ("memory.physical_mb", "32768", "65536") == changes(harness, node)[-1]
    row = inventory_of(harness, node)
    assert (MACHINE, None, {"kept": True}) == (row.inventory, row.bmc_inventory, row.plugin_data)


@SQLITE
@pytest.mark.parametrize(
    ("inventory", "facts"),
    [
        ({}, "disks, memory.physical_mb"),
        ({"memory": {}, "disks": []}, "disks, memory.physical_mb"),
        ({"memory": {"physical_mb": 65536}}, "disks"),
        ({"disks": MACHINE["disks"]}, "memory.physical_mb"),
    ],
)
def test_facts_that_a_machine_which_is_off_does_not_show_are_no_changes(
    harness, shows, inventory, facts
):
    node = harness.node("active")
    shows(MACHINE)
    refresh(harness, node)
    shows(inventory)
    assert "succeeded" == refresh(harness, node)
    assert ([], MACHINE) == (changes(harness, node), inventory_of(harness, node).inventory)
    reason = result(harness, node).parts["inventory"]["reason"]
    assert set(facts.split(", ")) == set(reason.partition(": ")[2].split(", "))
    assert reason in told(harness, node)


@SQLITE
def test_a_document_that_the_bmc_did_not_return_is_no_removed_part(harness, shows):
    node = harness.node("active")
    shows(MACHINE, ["/Storage/2"])  # it was unread before: nothing is lost
    refresh(harness, node)
    shows({**MACHINE, "disks": [{"name": "sdb"}]}, ["/Storage/1", "/Storage/2"])
    assert "succeeded" == refresh(harness, node)
    part = result(harness, node).parts["inventory"]
    assert ("unread", "the BMC did not return /Storage/1, as it did before") == (
        part["state"], part["reason"],
    )  # fmt: skip
    assert (0, MACHINE) == (result(harness, node).changed, inventory_of(harness, node).inventory)
    shows(SMALLER, ["/Storage/2"])
    refresh(harness, node)
    assert 3 == result(harness, node).changed


@SQLITE
def test_a_part_that_cannot_be_read_leaves_its_record_and_is_told(harness, shows, monkeypatch):
    node = harness.node("active")
    shows(MACHINE)
    settings = [
        requested("bios", "apply_configuration", args={"settings": [{"name": "a", "value": "1"}]})
    ]
    harness.do(node, "service", service_steps=settings)
    monkeypatch.setattr(
        FakeBios, "cache_bios_settings", lambda *_: Done({"skipped": "the BMC has\0 none"})
    )
    assert "succeeded" == refresh(harness, node)
    assert {"state": "unread", "reason": "the BMC has none"} == result(harness, node).parts[
        "bios_settings"
    ]
    assert ["1"] == [row.value for row in rows(harness, BiosSetting, node)]
    assert "BIOS settings: the BMC has none" in told(harness, node)


@SQLITE
def test_whatever_a_driver_reports_and_orders_only_facts_are_recorded(harness, shows, monkeypatch):
    node = harness.node("active", power_state="power on", properties={"cpus": 4})
    first_columns = columns(harness, node)

    def read(_interface, target):
        target.report(inventory=BmcInventory(MACHINE), power_state="power off",
                      properties={"cpus": 9}, driver_internal_info={"x": 1}, health="Critical")  # fmt: skip
        target.report(firmware=[{"component": "bmc", "current_version": "9"}])

    monkeypatch.setattr(FakeManagement, "read_inventory", read, raising=False)
    assert "succeeded" == refresh(harness, node)
    assert first_columns == columns(harness, node)
    assert "9" not in [row.current_version for row in rows(harness, FirmwareComponent, node)]

    def order(_interface, target):
        target.before_order()
        Acme.does(target, "order")

    monkeypatch.setattr(FakeManagement, "read_inventory", order)
    assert "failed" == refresh(harness, node)
    assert [] == Acme.did
    assert "a refresh gives no orders to the machine" in harness.last(node).error["message"]


@SQLITE
def test_a_failed_refresh_is_told_and_hides_no_failure_of_the_node(harness, shows):
    node = harness.node("clean failed", last_error="the disk is broken", fault="clean failure")
    shows(Unreachable("BMC https://bmc does not answer"))
    assert "waiting" == refresh(harness, node)
    while harness.last(node).state == OperationState.WAITING:
        harness.poll(node)
    assert "failed" == harness.last(node).state
    row = harness.inside.read(node)
    assert ("the disk is broken", None) == (row.last_error, row.reservation)
    assert "The disk is broken" in told(harness, node)
    assert "Its last refresh failed: BMC https://bmc does not answer" in told(harness, node)
    with harness.inside.runtime.reading() as session:
        assert [] == session.scalars(fleet_operations.standing_failures()).all()


@SQLITE
def test_a_failed_refresh_does_not_replace_an_earlier_failure(harness, shows):
    node = harness.node()
    steps = [requested("management", "scrub", args={"level": "wrong"})]
    assert "clean failed" == harness.do(node, "clean", clean_steps=steps)
    failed = harness.last(node)
    shows(NotSupported("no machine"))
    assert "failed" == refresh(harness, node)
    with harness.inside.runtime.reading() as session:
        answer = why.explain(session, session.get_one(Node, node))
        assert [failed.id] == session.scalars(fleet_operations.standing_failures()).all()
    assert failed.uuid == answer.operation


@SQLITE
@pytest.mark.parametrize(
    ("state", "error"),
    [
        *((state, None) for state in ("enroll", "manageable", "available", "active", "rescue",
                                      "service hold", "clean hold", "error", "deploy failed")),
        *((state, Conflict) for state in ("cleaning", "clean wait", "deploying", "wait call-back",
                                          "servicing", "inspect wait", "rescuing", "deleting")),
    ],
)  # fmt: skip
def test_a_node_is_refreshed_in_each_state_in_which_nothing_works_on_it(harness, state, error):
    node = harness.node(state)
    if error is None:
        assert "succeeded" == refresh(harness, node)
        assert state == harness.state(node)
    else:
        with pytest.raises(error, match="cannot be refreshed while a state transition"):
            ask(harness, node)


@SQLITE
def test_a_refresh_of_a_held_node_leaves_its_operation_held(harness, shows):
    node = harness.node("active")
    polish, hold = requested("management", "polish"), requested("power", "hold")
    harness.do(node, "service", service_steps=[polish, hold, polish], disable_ramdisk=True)
    assert "service hold" == harness.state(node)
    held_operation = harness.last(node).uuid
    shows(MACHINE)
    assert "succeeded" == refresh(harness, node)
    assert "held" == harness.inside.operation(held_operation).state
    assert "active" == harness.do(node, "unhold")
    assert ("succeeded", ["polish", "polish"]) == (
        harness.inside.operation(held_operation).state, Acme.did[:1] + Acme.did[-1:],
    )  # fmt: skip


@SQLITE
def test_a_reserved_node_and_one_that_cannot_be_read_are_refused_with_the_reason(harness):
    node = harness.node("active")
    ask(harness, node)
    with pytest.raises(NodeLocked):
        ask(harness, node)
    harness.run()
    harness.inside.change(Node, node, bios_interface="no-bios", firmware_interface="no-firmware")
    with pytest.raises(Invalid, match="no BIOS settings by bios interface no-bios, no firmware"):
        ask(harness, node)
    harness.inside.change(
        Node, node, driver="redfish", bios_interface=None, firmware_interface=None
    )
    with pytest.raises(Invalid, match="driver_info/redfish_address is required"):
        ask(harness, node)


@SQLITE
def test_without_a_recorded_inventory_none_is_read(inside, monkeypatch):
    inside.environ["INGOT_INVENTORY_DATA_BACKEND"] = "none"
    harness = Harness(inside.another())
    node = harness.node("active")
    monkeypatch.setattr(FakeManagement, "read_inventory", Acme.does, raising=False)
    assert "succeeded" == refresh(harness, node)
    assert {"bios_settings", "firmware"} == result(harness, node).parts.keys()
    harness.inside.close()


@SQLITE
def test_hostile_facts_are_cut_and_counted(harness, shows):
    node = harness.node("active")
    shows({"disks": [{"serial": "x\0\x1b[2J" + "y" * 9999, "size": 1}], "cpu": {"count": 1}})
    refresh(harness, node)
    hostile = {f"k\n{number}": "v" * 5000 for number in range(500)}
    shows({"cpu": {"count": 1, **hostile}, "disks": [7, None, {"name": 1}, {"name": 1}], "x": "\0"})
    assert "succeeded" == refresh(harness, node)
    row = result(harness, node)
    assert (506, 200) == (row.changed, len(row.changes))
    texts = [text for change in row.changes for text in change.values() if text is not None]
    assert 255 == max(map(len, texts))
    assert all(text.isprintable() for text in texts)
    assert "and 501 more" in told(harness, node)


@SQLITE
def test_a_rollout_refreshes_many_nodes_whatever_their_state(inside, shows):
    shows(MACHINE)
    fleet = Fleet(inside)
    nodes = [fleet.node(state) for state in ("active", "available", "manageable")]
    nodes.append(fleet.node("active", bios_interface="no-bios"))
    busy = fleet.node("cleaning")
    rollout = fleet.create("refresh", (), max_unavailable="100%")
    assert 4 == fleet.of(rollout).nodes, "the busy node is excluded"
    assert "completed" == fleet.advance(rollout, 3).state
    assert {"succeeded"} == set(fleet.states(rollout))
    assert result(fleet, busy) is None
    assert all(result(fleet, node) for node in nodes)


@SQLITE
def test_the_inventory_of_a_bmc_is_that_of_its_inspection(harness, monkeypatch):
    """An inspection and a refresh of a machine read the same facts: none of them is a change."""
    with running(machines=1) as fleet:
        for driver in ("redfish", "idrac"):
            node = harness.node(driver_info=fleet.machines[0].driver_info())
            harness.inside.change(Node, node, driver=driver)
            names = {"idrac": {"inspect_interface": "idrac-redfish"}}.get(driver, {})
            harness.inside.change(Node, node, **names)
            assert "manageable" == harness.do(node, "inspect")
            inventory = inventory_of(harness, node).inventory
            assert "succeeded" == refresh(harness, node)
            assert ("compared", None) == tuple(result(harness, node).parts["inventory"].values())
            assert (inventory, 0) == (
                inventory_of(harness, node).inventory, result(harness, node).changed,
            )  # fmt: skip
        monkeypatch.setattr(Session, "find", lambda *_: None)
        refresh(harness, node)
        assert "unread" == result(harness, node).parts["inventory"]["state"]
