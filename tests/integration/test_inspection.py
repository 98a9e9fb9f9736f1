"""Inspection by the agent, from inside: from the verb to what is known of the node."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import select

from app.errors import Invalid, NodeLocked, NotFound
from app.models import (
    InspectionReport,
    InspectionRule,
    Node,
    NodeInventory,
    NodeTrait,
    Operation,
    Port,
)
from app.services import inspection, waking
from tests.integration.world import Acme, World
from workers import reconciler

PXE, OTHER = "52:54:00:00:00:0a", "52:54:00:00:00:0b"
INVENTORY = {
    "interfaces": [
        {"name": "eth0", "mac_address": PXE, "ipv4_address": "192.0.2.5"},
        {"name": "eth1", "mac_address": OTHER, "ipv4_address": None},
    ],
    "cpu": {"architecture": "x86_64", "count": 8},
    "memory": {"physical_mb": 4096},
    "bmc_address": "192.0.2.7",
    "bmc_v6address": "::/0",
    "boot": {"pxe_interface": f"01-{PXE.replace(':', '-')}"},
}
REPORT = {"inventory": INVENTORY, "error": None, "logs": "aGVhdnk=", "root_disk": {"size": 1}}


@pytest.fixture
def world(inside):
    return World(inside)


def inspected(world, **columns):
    """A node that waits for its agent's report."""
    node = world.node(inspect_interface="agent", **columns)
    with world.inside.runtime.transaction() as session:
        session.query(Port).filter_by(node_id=node).update({"address": PXE})
    assert "inspect wait" == world.do(node, "inspect")
    return node


def post(world, report=REPORT, macs=(PXE, OTHER), node_uuid=None, with_token=False):
    """What the API does with a report; then the conductor works."""
    with world.inside.runtime.transaction() as session:
        node, token = inspection.receive(session, report, macs, node_uuid, with_token=with_token)
        uuid = node.uuid
    world.run()
    return uuid, token


def rule(world, *actions, **columns):
    with world.inside.runtime.transaction() as session:
        session.add(InspectionRule(uuid=str(uuid4()), actions=list(actions), **columns))


def rows(world, model, node):
    with world.inside.runtime.reading() as session:
        return session.scalars(select(model).where(model.node_id == node)).all()


def test_what_the_agent_finds_is_known_of_the_node_and_the_machine_is_off_again(world):
    node = inspected(world)
    row = world.inside.read(node)
    assert ("manageable", None) == (row.target_provision_state, row.inspection_finished_at)
    assert row.inspection_started_at is not None
    assert row.uuid == post(world)[0]

    row = world.inside.read(node)
    assert ("manageable", None) == (row.provision_state, row.last_error)
    assert "power off" == row.power_state
    assert {"cpu_arch": "x86_64"} == row.properties
    assert (None, None) == (row.inspection_started_at, row.reservation)
    assert row.inspection_finished_at is not None
    assert ["prepare_ramdisk", "power on", "power off", "clean_up_ramdisk"] == Acme.did
    (found,) = rows(world, NodeInventory, node)
    assert INVENTORY == found.inventory
    assert ["eth0"] == list(found.plugin_data["valid_interfaces"])
    assert "logs" not in found.plugin_data
    assert [] == rows(world, InspectionReport, node)
    assert [(PXE, True)] == [(each.address, each.pxe_enabled) for each in rows(world, Port, node)]


def test_inspection_may_be_asked_for_again_after_it_failed(world):
    node = inspected(world)
    post(world, {**REPORT, "error": "no disk answered"})
    row = world.inside.read(node)
    assert "inspect failed" == row.provision_state
    assert "the ramdisk reported: no disk answered" in row.last_error
    assert (None, None) == (row.inspection_started_at, row.inspection_finished_at)
    assert (False, "power off") == (row.maintenance, row.power_state)
    assert [] == rows(world, InspectionReport, node)
    assert "inspect wait" == world.do(node, "inspect")
    post(world)
    assert "manageable" == world.state(node)


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({}, {PXE}),
        ({"ADD_PORTS": "all"}, {PXE, OTHER}),
        ({"ADD_PORTS": "active"}, {PXE}),
        ({"ADD_PORTS": "disabled"}, {"52:54:00:00:00:0c"}),
        ({"KEEP_PORTS": "all"}, {PXE, "52:54:00:00:00:0c"}),
        ({"ADD_PORTS": "all", "KEEP_PORTS": "present"}, {PXE, OTHER}),
        ({"ADD_PORTS": "disabled", "KEEP_PORTS": "all"}, {"52:54:00:00:00:0c"}),
    ],
)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_ports_are_added_and_kept_as_settings_say(inside, settings, addresses):
    """The node has a port of its own, of another address, that is known before."""
    if "KEEP_PORTS" not in settings and settings.get("ADD_PORTS") != "disabled":
        settings = {**settings, "KEEP_PORTS": "present"}
    inside.environ |= {f"INGOT_INSPECTOR_{name}": value for name, value in settings.items()}
    plain = inside.another()
    world = World(plain)
    node = world.node(inspect_interface="agent")
    plain.change(Port, 1, address="52:54:00:00:00:0c")
    assert "inspect wait" == world.do(node, "inspect")
    uuid = plain.read(node).uuid
    post(world, macs=(), node_uuid=uuid)
    assert addresses == {each.address for each in rows(world, Port, node)}
    plain.close()


def test_a_port_of_another_node_is_left_where_it_is(world):
    node = inspected(world)
    with world.inside.runtime.transaction() as session:
        session.query(Port).filter_by(node_id=node).delete()
    other = world.node()
    world.inside.change(Port, rows(world, Port, other)[0].id, address=PXE)
    # the report names its node, but a port of it is another's: nobody knows whose it is
    with pytest.raises(NotFound):
        post(world, node_uuid=world.inside.read(node).uuid)
    post(world, macs=(), node_uuid=world.inside.read(node).uuid)
    assert ("manageable", []) == (world.state(node), rows(world, Port, node))


# Rules


def test_rules_apply_by_priority_and_what_they_say_of_node_and_ports_is_written(world):
    big = {"op": "gt", "args": {"values": ["{inventory.memory.physical_mb}", 2048]}}
    set_class = {"op": "set-attribute", "args": {"path": "resource_class", "value": "big"}}
    rule(world, set_class, conditions=[big], priority=1)
    rule(world, {**set_class, "args": {"path": "resource_class", "value": "any"}}, priority=9)
    rule(
        world,
        {"op": "add-trait", "args": {"name": "CUSTOM_BIG"}},
        {"op": "set-capability", "args": {"name": "size", "value": "{node.resource_class}"}},
        {"op": "set-port-attribute",
         "args": {"port_id": PXE, "path": "physical_network", "value": "net"}},
    )  # fmt: skip
    rule(world, {"op": "fail", "args": {"msg": "never"}}, conditions=[{**big, "op": "lt"}])
    node = inspected(world)
    post(world)
    row = world.inside.read(node)
    assert ("manageable", "big") == (row.provision_state, row.resource_class)
    assert {"cpu_arch": "x86_64", "capabilities": "size:big"} == row.properties
    assert ["CUSTOM_BIG"] == [each.trait for each in rows(world, NodeTrait, node)]
    assert ["net"] == [each.physical_network for each in rows(world, Port, node)]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ({"op": "fail", "args": {"msg": "too few"}}, "too few"),
        ({"op": "add-trait", "args": {"name": "odd"}}, "'odd' is neither"),
        ({"op": "set-attribute", "args": ["name", "taken"]}, "name taken already exists"),
        ({"op": "set-attribute", "args": ["name", "states"]}, "reserved"),
        ({"op": "set-attribute", "args": ["resource_class", "x" * 81]}, "too long"),
        (
            {"op": "set-attribute", "args": ["deploy_interface", "odd"]},
            "deploy_interface: Could not find",
        ),
    ],
)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_rule_that_fails_or_wants_what_cannot_be_leaves_everything_as_it_was(world, action, said):
    world.node(name="taken")
    rule(world, {"op": "set-attribute", "args": ["extra/seen", True]}, action)
    node = inspected(world, name="mine")
    post(world)
    row = world.inside.read(node)
    assert "inspect failed" == row.provision_state
    assert said in row.last_error
    assert ("mine", {}, {}) == (row.name, row.extra, row.properties)
    assert [] == rows(world, NodeInventory, node)


# Whose report it is


def test_a_node_without_ports_is_found_by_the_address_of_its_bmc(world):
    node = world.node(
        inspect_interface="agent", driver_info={"redfish_address": "https://192.0.2.7:8000"}
    )
    world.do(node, "inspect")
    with pytest.raises(NotFound):
        post(world, {"inventory": {**INVENTORY, "bmc_address": "192.0.2.8"}})
    uuid, _ = post(world)
    row = world.inside.read(node)
    assert (row.uuid, "manageable") == (uuid, row.provision_state)
    assert "lookup_bmc_addresses" not in row.driver_internal_info


def test_what_nobody_waits_for_is_refused(world):
    with pytest.raises(Invalid):
        post(world, {"inventory": {**INVENTORY, "bmc_address": "0.0.0.0"}}, macs=())
    node = inspected(world)
    for state in ("manageable", "clean wait", "available"):
        world.inside.change(Node, node, provision_state=state)
        with pytest.raises(NotFound):
            post(world)
    world.inside.change(Node, node, provision_state="inspect wait")
    with pytest.raises(NotFound):
        post(world, macs=("52:54:00:00:00:ff",))
    with pytest.raises(NotFound):
        post(world, node_uuid="11111111-2222-4333-8444-555555555555")


def test_a_report_is_taken_only_once_the_machine_has_been_switched_on(world):
    node = world.node(inspect_interface="agent")
    world.ask(node, "inspect")
    uuid = world.inside.read(node).uuid
    with pytest.raises(NotFound):
        post(world, macs=(), node_uuid=uuid)
    world.run()
    world.inside.change(Operation, world.last(node).uuid, cursor=0)
    with pytest.raises(NotFound):
        post(world, macs=(), node_uuid=uuid)


def test_an_agent_that_asks_for_its_token_gets_it_or_comes_again_while_the_node_is_locked(world):
    node = inspected(world)
    world.inside.change(Node, node, reservation="c-2")
    with pytest.raises(NodeLocked):
        post(world, with_token=True)
    assert [] == rows(world, InspectionReport, node)
    world.inside.change(Node, node, reservation=None)
    _, token = post(world, with_token=True)
    assert len(token) >= 32


# What may go wrong


def test_a_report_that_comes_while_the_wait_is_being_recorded_is_not_lost(world):
    """The agent posts after the step was claimed, and before its `Wait` is written."""
    node = inspected(world)
    with world.inside.runtime.transaction() as session:
        operation = session.get_one(Operation, world.last(node).id)
        waking.wake(session, session.get_one(Node, node), operation)
    (message,) = world.inside.sent
    assert "inspecting" == world.state(node)
    uuid = world.inside.read(node).uuid
    with world.inside.runtime.transaction() as session:
        inspection.receive(session, REPORT, (), uuid, with_token=False)
    assert [message] == world.inside.sent
    world.run()
    assert "manageable" == world.state(node)


def test_an_inspection_that_is_aborted_is_tidied_up(world):
    node = inspected(world)
    world.ask(node, "abort")
    assert "inspect failed" == world.state(node)
    world.run()
    row = world.inside.read(node)
    assert ("power off", None) == (row.power_state, row.reservation)
    assert "clean_up_ramdisk" == Acme.did[-1]
    with pytest.raises(NotFound):
        post(world)


def test_a_silent_agent_is_given_up_counted_from_the_beginning(world):
    node = inspected(world)
    began = world.inside.read(node).inspection_started_at
    deadline = world.last(node).deadline_at
    assert timedelta(seconds=1799) < deadline - began < timedelta(seconds=1802)
    world.inside.change(Operation, world.last(node).uuid, deadline_at=began - timedelta(1))
    world.inside.change(Node, node, inspection_started_at=began - timedelta(1))
    reconciler.reconcile(world.inside.runtime, reconciler.Contact(15))
    world.run()
    row = world.inside.read(node)
    assert "inspect failed" == row.provision_state
    assert "Timeout" in row.last_error


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_on_fast_track_the_agent_is_kept_for_the_next_operation(inside):
    inside.environ["INGOT_DEPLOY_FAST_TRACK"] = "true"
    plain = inside.another()
    world = World(plain)
    node = inspected(world)
    _, token = post(world, with_token=True)
    row = plain.read(node)
    assert ("manageable", "power on") == (row.provision_state, row.power_state)
    assert token is not None
    assert ["prepare_ramdisk", "power on"] == Acme.did
    plain.close()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_node_without_inspection_says_so_and_fake_hardware_finds_nothing(world):
    node = world.node(inspect_interface="no-inspect")
    with pytest.raises(Invalid, match="does not support inspect"):
        world.ask(node, "inspect")
    assert "manageable" == world.state(node)
    node = world.node(inspect_interface="fake")
    assert "manageable" == world.do(node, "inspect")
    assert world.inside.read(node).inspection_finished_at is not None


# Machines that nobody knows


@pytest.fixture
def curious(inside):
    inside.environ |= {
        "INGOT_AUTO_DISCOVERY_ENABLED": "true", "INGOT_AUTO_DISCOVERY_DRIVER": "fake-hardware",
    }  # fmt: skip
    plain = inside.another()
    yield World(plain)
    plain.close()


def test_a_machine_that_nobody_knows_is_enrolled_if_settings_want_that(curious):
    rule(curious, {"op": "set-attribute", "args": ["driver_info/bmc", "{inventory[bmc_address]}"]})
    uuid, token = post(curious, with_token=True)
    with curious.inside.runtime.reading() as session:
        (node,) = session.scalars(select(Node)).all()
    assert (uuid, "enroll", "fake-hardware") == (node.uuid, node.provision_state, node.driver)
    assert ({"bmc": "192.0.2.7"}, None, None) == (
        node.driver_info,
        node.last_error,
        node.reservation,
    )
    assert [PXE] == [port.address for port in rows(curious, Port, node.id)]
    assert INVENTORY == rows(curious, NodeInventory, node.id)[0].inventory
    assert [] == rows(curious, InspectionReport, node.id)
    assert len(token) >= 32
    with pytest.raises(NotFound):  # from now on it is known, and not being inspected
        post(curious)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_machine_whose_ports_and_bmc_belong_to_different_nodes_is_not_enrolled(curious):
    inspected(curious)
    curious.do(
        curious.node(inspect_interface="agent", driver_info={"ipmi_address": "192.0.2.7"}),
        "inspect",
    )
    with pytest.raises(NotFound):
        post(curious)
    with curious.inside.runtime.reading() as session:
        assert 2 == len(session.scalars(select(Node)).all())
