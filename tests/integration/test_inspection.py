"""Inspection by the agent, in one process: from the verb to the recorded facts."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from app.agents import inspection_report
from app.db.clock import after
from app.engine import wake
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
from drivers.core.errors import Refused
from drivers.core.target import Inspected
from drivers.fake.hardware import FakeInspect
from tests.integration.harness import Acme, Harness
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

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
def harness(inside):
    return Harness(inside)


def inspected(harness, **columns):
    """Create a node that waits for its agent's report."""
    node = harness.node(inspect_interface="agent", **columns)
    with harness.inside.runtime.transaction() as session:
        session.query(Port).filter_by(node_id=node).update({"address": PXE})
    assert "inspect wait" == harness.do(node, "inspect")
    return node


def post(harness, report=REPORT, macs=(PXE, OTHER), node_uuid=None, with_token=False):
    """Post a report, as the API does; then run the conductor."""
    with harness.inside.runtime.transaction() as session:
        node, token = inspection_report.receive(
            session, report, macs, node_uuid, with_token=with_token
        )
        uuid = node.uuid
    harness.run()
    return uuid, token


def rule(harness, *actions, **columns):
    with harness.inside.runtime.transaction() as session:
        session.add(InspectionRule(uuid=str(uuid4()), actions=list(actions), **columns))


def rows(harness, model, node):
    with harness.inside.runtime.reading() as session:
        return session.scalars(select(model).where(model.node_id == node)).all()


def test_the_agents_report_is_recorded_and_the_machine_is_powered_off(harness):
    node = inspected(harness)
    row = harness.inside.read(node)
    assert ("manageable", None) == (row.target_provision_state, row.inspection_finished_at)
    assert row.inspection_started_at is not None
    assert row.uuid == post(harness)[0]

    row = harness.inside.read(node)
    assert ("manageable", None) == (row.provision_state, row.last_error)
    assert "power off" == row.power_state
    assert {"cpu_arch": "x86_64"} == row.properties
    assert (None, None) == (row.inspection_started_at, row.reservation)
    assert row.inspection_finished_at is not None
    assert ["prepare_ramdisk", "power on", "power off", "clean_up_ramdisk"] == Acme.did
    (record,) = rows(harness, NodeInventory, node)
    assert INVENTORY == record.inventory
    assert ["eth0"] == list(record.plugin_data["valid_interfaces"])
    assert "logs" not in record.plugin_data
    assert [] == rows(harness, InspectionReport, node)
    assert [(PXE, True)] == [(port.address, port.pxe_enabled) for port in rows(harness, Port, node)]


def test_inspection_may_be_requested_again_after_a_failure(harness):
    node = inspected(harness)
    post(harness, {**REPORT, "error": "no disk answered"})
    row = harness.inside.read(node)
    assert "inspect failed" == row.provision_state
    assert "the ramdisk reported: no disk answered" in row.last_error
    assert (None, None) == (row.inspection_started_at, row.inspection_finished_at)
    assert (False, "power off") == (row.maintenance, row.power_state)
    assert [] == rows(harness, InspectionReport, node)
    assert "inspect wait" == harness.do(node, "inspect")
    post(harness)
    assert "manageable" == harness.state(node)


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
def test_ports_are_added_and_kept_by_the_settings(inside, settings, addresses):
    """The node already has a port with another address."""
    if "KEEP_PORTS" not in settings and settings.get("ADD_PORTS") != "disabled":
        settings = {**settings, "KEEP_PORTS": "present"}
    inside.environ |= {f"INGOT_INSPECTOR_{name}": value for name, value in settings.items()}
    plain = inside.another()
    harness = Harness(plain)
    node = harness.node(inspect_interface="agent")
    plain.change(Port, 1, address="52:54:00:00:00:0c")
    assert "inspect wait" == harness.do(node, "inspect")
    uuid = plain.read(node).uuid
    post(harness, macs=(), node_uuid=uuid)
    assert addresses == {row.address for row in rows(harness, Port, node)}
    plain.close()


def test_a_port_of_another_node_is_not_moved(harness):
    node = inspected(harness)
    with harness.inside.runtime.transaction() as session:
        session.query(Port).filter_by(node_id=node).delete()
    other = harness.node()
    harness.inside.change(Port, rows(harness, Port, other)[0].id, address=PXE)
    # the report names its node, but one of its ports belongs to another: its owner is ambiguous
    with pytest.raises(NotFound):
        post(harness, node_uuid=harness.inside.read(node).uuid)
    post(harness, macs=(), node_uuid=harness.inside.read(node).uuid)
    assert ("manageable", []) == (harness.state(node), rows(harness, Port, node))


# Rules


def test_rules_run_by_priority_and_their_changes_of_node_and_ports_are_recorded(harness):
    big = {"op": "gt", "args": {"values": ["{inventory.memory.physical_mb}", 2048]}}
    set_class = {"op": "set-attribute", "args": {"path": "resource_class", "value": "big"}}
    rule(harness, set_class, conditions=[big], priority=1)
    rule(harness, {**set_class, "args": {"path": "resource_class", "value": "any"}}, priority=9)
    rule(
        harness,
        {"op": "add-trait", "args": {"name": "CUSTOM_BIG"}},
        {"op": "set-capability", "args": {"name": "size", "value": "{node.resource_class}"}},
        {"op": "set-port-attribute",
         "args": {"port_id": PXE, "path": "physical_network", "value": "net"}},
    )  # fmt: skip
    rule(harness, {"op": "fail", "args": {"msg": "never"}}, conditions=[{**big, "op": "lt"}])
    node = inspected(harness)
    post(harness)
    row = harness.inside.read(node)
    assert ("manageable", "big") == (row.provision_state, row.resource_class)
    assert {"cpu_arch": "x86_64", "capabilities": "size:big"} == row.properties
    assert ["CUSTOM_BIG"] == [trait.trait for trait in rows(harness, NodeTrait, node)]
    assert ["net"] == [port.physical_network for port in rows(harness, Port, node)]


@pytest.mark.parametrize(
    ("action", "message"),
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
def test_a_rule_that_fails_changes_nothing(harness, action, message):
    harness.node(name="taken")
    rule(harness, {"op": "set-attribute", "args": ["extra/seen", True]}, action)
    node = inspected(harness, name="mine")
    post(harness)
    row = harness.inside.read(node)
    assert "inspect failed" == row.provision_state
    assert message in row.last_error
    assert ("mine", {}, {}) == (row.name, row.extra, row.properties)
    assert [] == rows(harness, NodeInventory, node)


# Node of a report


def test_the_data_of_an_inspection_that_fails_is_left_out(harness, monkeypatch):
    def inspect_hardware(self, target):
        target.report(addresses=[OTHER], inspected=Inspected(INVENTORY, {}, ("memory",)))
        raise Refused("the BMC has gone")

    monkeypatch.setattr(FakeInspect, "inspect_hardware", inspect_hardware)
    node = harness.node()
    assert "inspect failed" == harness.do(node, "inspect")
    row = harness.inside.read(node)
    assert "the BMC has gone" in row.last_error
    assert "memory_mb" not in row.properties
    assert [] == rows(harness, NodeInventory, node)


def test_a_node_without_ports_is_found_by_the_address_of_its_bmc(harness):
    node = harness.node(
        inspect_interface="agent", driver_info={"redfish_address": "https://192.0.2.7:8000"}
    )
    harness.do(node, "inspect")
    with pytest.raises(NotFound):
        post(harness, {"inventory": {**INVENTORY, "bmc_address": "192.0.2.8"}})
    uuid, _ = post(harness)
    row = harness.inside.read(node)
    assert (row.uuid, "manageable") == (uuid, row.provision_state)
    assert "lookup_bmc_addresses" not in row.driver_internal_info


def test_an_unexpected_report_is_refused(harness):
    with pytest.raises(Invalid):
        post(harness, {"inventory": {**INVENTORY, "bmc_address": "0.0.0.0"}}, macs=())
    node = inspected(harness)
    for state in ("manageable", "clean wait", "available"):
        harness.inside.change(Node, node, provision_state=state)
        with pytest.raises(NotFound):
            post(harness)
    harness.inside.change(Node, node, provision_state="inspect wait")
    with pytest.raises(NotFound):
        post(harness, macs=("52:54:00:00:00:ff",))
    with pytest.raises(NotFound):
        post(harness, node_uuid="11111111-2222-4333-8444-555555555555")


def test_a_report_is_accepted_only_after_the_machine_was_powered_on(harness):
    node = harness.node(inspect_interface="agent")
    harness.ask(node, "inspect")
    uuid = harness.inside.read(node).uuid
    with pytest.raises(NotFound):
        post(harness, macs=(), node_uuid=uuid)
    harness.run()
    harness.inside.change(Operation, harness.last(node).uuid, cursor=0)
    with pytest.raises(NotFound):
        post(harness, macs=(), node_uuid=uuid)


def test_an_agent_that_requests_its_token_gets_it_or_retries_while_the_node_is_locked(harness):
    node = inspected(harness)
    harness.inside.change(Node, node, reservation="c-2")
    with pytest.raises(NodeLocked):
        post(harness, with_token=True)
    assert [] == rows(harness, InspectionReport, node)
    harness.inside.change(Node, node, reservation=None)
    _, token = post(harness, with_token=True)
    assert len(token) >= 32


# Failures


def test_a_report_during_the_record_of_the_wait_is_not_lost(harness):
    """The agent posts after the claim of the step, and before the record of its `Wait`."""
    node = inspected(harness)
    with harness.inside.runtime.transaction() as session:
        operation = session.get_one(Operation, harness.last(node).id)
        wake.resume_operation(session, session.get_one(Node, node), operation)
    (message,) = harness.inside.messages
    assert "inspecting" == harness.state(node)
    uuid = harness.inside.read(node).uuid
    with harness.inside.runtime.transaction() as session:
        inspection_report.receive(session, REPORT, (), uuid, with_token=False)
    assert [message] == harness.inside.messages
    harness.run()
    assert "manageable" == harness.state(node)


def test_an_aborted_inspection_is_cleaned_up(harness):
    node = inspected(harness)
    harness.ask(node, "abort")
    assert "inspect failed" == harness.state(node)
    harness.run()
    row = harness.inside.read(node)
    assert ("power off", None) == (row.power_state, row.reservation)
    assert "clean_up_ramdisk" == Acme.did[-1]
    with pytest.raises(NotFound):
        post(harness)


def test_the_timeout_of_a_silent_agent_counts_from_the_start_of_the_wait(harness):
    node = inspected(harness)
    began = harness.inside.read(node).inspection_started_at
    deadline = harness.last(node).deadline_at
    assert timedelta(seconds=1799) < deadline - began < timedelta(seconds=1802)
    harness.inside.change(Operation, harness.last(node).uuid, deadline_at=began - timedelta(1))
    harness.inside.change(Node, node, inspection_started_at=began - timedelta(1))
    reconciler.reconcile(harness.inside.runtime, Contact(15))
    harness.run()
    row = harness.inside.read(node)
    assert "inspect failed" == row.provision_state
    assert "Timeout" in row.last_error


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_on_fast_track_the_agent_is_kept_for_the_next_operation(inside):
    inside.environ["INGOT_DEPLOY_FAST_TRACK"] = "true"
    plain = inside.another()
    harness = Harness(plain)
    node = inspected(harness)
    _, token = post(harness, with_token=True)
    row = plain.read(node)
    assert ("manageable", "power on") == (row.provision_state, row.power_state)
    assert token is not None
    assert ["prepare_ramdisk", "power on"] == Acme.did
    plain.close()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_node_without_inspection_is_refused_and_fake_hardware_finds_nothing(harness):
    node = harness.node(inspect_interface="no-inspect")
    with pytest.raises(Invalid, match="does not support inspect"):
        harness.ask(node, "inspect")
    assert "manageable" == harness.state(node)
    node = harness.node(inspect_interface="fake")
    assert "manageable" == harness.do(node, "inspect")
    assert harness.inside.read(node).inspection_finished_at is not None


# Unknown machines


@pytest.fixture
def with_discovery(inside):
    inside.environ |= {
        "INGOT_AUTO_DISCOVERY_ENABLED": "true", "INGOT_AUTO_DISCOVERY_DRIVER": "fake-hardware",
    }  # fmt: skip
    plain = inside.another()
    yield Harness(plain)
    plain.close()


def test_an_unknown_machine_is_enrolled_if_a_setting_enables_it(with_discovery):
    rule(
        with_discovery,
        {"op": "set-attribute", "args": ["driver_info/bmc", "{inventory[bmc_address]}"]},
    )
    uuid, token = post(with_discovery, with_token=True)
    with with_discovery.inside.runtime.reading() as session:
        (node,) = session.scalars(select(Node)).all()
    assert (uuid, "enroll", "fake-hardware") == (node.uuid, node.provision_state, node.driver)
    assert ({"bmc": "192.0.2.7"}, None, None) == (
        node.driver_info,
        node.last_error,
        node.reservation,
    )
    assert [PXE] == [port.address for port in rows(with_discovery, Port, node.id)]
    assert INVENTORY == rows(with_discovery, NodeInventory, node.id)[0].inventory
    assert [] == rows(with_discovery, InspectionReport, node.id)
    assert len(token) >= 32
    with pytest.raises(NotFound):  # the node exists now, and is not being inspected
        post(with_discovery)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("setting", ["MAX_PER_HOUR", "MAX_ENROLLED"])
def test_no_more_unknown_machines_are_enrolled_than_the_settings_allow(inside, setting):
    inside.environ |= {
        "INGOT_AUTO_DISCOVERY_ENABLED": "true", "INGOT_AUTO_DISCOVERY_DRIVER": "fake-hardware",
        f"INGOT_AUTO_DISCOVERY_{setting}": "2",
    }  # fmt: skip
    harness = Harness(inside.another())
    for number in range(2):
        uuid, _ = post(harness, report_of(number), macs=(f"52:54:00:00:01:0{number}",))
    with pytest.raises(NotFound):
        post(harness, report_of(2), macs=("52:54:00:00:01:02",))
    column = {"MAX_PER_HOUR": Operation, "MAX_ENROLLED": Node}[setting]
    with harness.inside.runtime.transaction() as session:
        if column is Operation:
            session.execute(update(Operation).values(created_at=after(-3700)))
        else:
            session.execute(
                update(Node).where(Node.uuid == uuid).values(provision_state="manageable")
            )
    post(harness, report_of(2), macs=("52:54:00:00:01:02",))
    harness.inside.close()


def report_of(number):
    """Report of a machine of its own."""
    mac = {"mac_address": f"52:54:00:00:01:0{number}", "name": "eth0"}
    return {"inventory": {"interfaces": [mac], "bmc_address": f"192.0.2.{50 + number}"}}


def test_a_machine_whose_ports_and_bmc_belong_to_different_nodes_is_not_enrolled(with_discovery):
    inspected(with_discovery)
    with_discovery.do(
        with_discovery.node(inspect_interface="agent", driver_info={"ipmi_address": "192.0.2.7"}),
        "inspect",
    )
    with pytest.raises(NotFound):
        post(with_discovery)
    with with_discovery.inside.runtime.reading() as session:
        assert 2 == len(session.scalars(select(Node)).all())
