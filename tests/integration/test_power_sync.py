"""Power sweeps of machines with running operations: the sweep sends no power command."""

import pytest
from sqlalchemy import select

from app.lifecycle.provision_states import Kind, of_kind
from app.models import Node, NodeHistory, Operation
from drivers.simulator.simulator import running
from tests.integration.harness import AcmePower, Harness, requested
from tests.support.fleet import until
from tests.unit.drivers.machines import image_server
from workers.periodic import bmc_sweep, power_sync

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

BURN, HOLD = requested("deploy", "burn"), requested("power", "hold")
DEPLOY_HOLD = {**HOLD, "args": {}, "priority": 150}
#: state -> (previous state, verb, arguments) that lead to it
WAYS = {
    "clean wait": ("manageable", "clean", {"clean_steps": [BURN]}),
    "wait call-back": ("available", "active", {}),
    "inspect wait": ("manageable", "inspect", {}),
    "rescue wait": ("active", "rescue", {"rescue_password": "open sesame"}),
    "service wait": ("active", "service", {"service_steps": [BURN]}),
    "clean hold": ("manageable", "clean", {"clean_steps": [HOLD]}),
    "deploy hold": ("available", "active", {"deploy_steps": [DEPLOY_HOLD]}),
    "service hold": ("active", "service", {"service_steps": [HOLD]}),
}


@pytest.fixture
def machine(inside):
    """A machine whose BMC shows a new power state half a second after the command."""
    inside.environ |= {"INGOT_AGENT_REQUIRE_TLS": "false"}
    with running(machines=1, power_on_seconds=0.5, agent_never_boots=True) as simulator:
        yield simulator.machines[0]


@pytest.fixture
def harness(inside, machine):
    view = inside.another()
    with image_server() as images:
        images.files["/disk.raw"] = bytes(512)
        harness = Harness(view)
        harness.image = {"image_source": f"{images.url}/disk.raw", "image_checksum": "a" * 64}
        yield harness
    view.close()


def arrive(harness, machine, state):
    """Start the transition of the machine's node into a state, from power off; return its id."""
    origin, verb, arguments = WAYS[state]
    iso = {f"{kind}_iso": "http://127.0.0.1:9/iso" for kind in ("deploy", "rescue", "inspect")}
    node = harness.with_agent(
        origin, instance_info=harness.image, driver_info=machine.driver_info() | iso,
        rescue_interface="agent", inspect_interface="agent", power_state="power off",
    )  # fmt: skip
    harness.inside.change(Node, node, driver="redfish")
    assert state == harness.do(node, verb, **arguments)
    assert "power off" == harness.inside.read(node).power_state
    return node


def operations_of(harness, node):
    with harness.inside.runtime.reading() as session:
        return list(session.scalars(select(Operation.kind).filter_by(node_id=node)))


@pytest.mark.parametrize("state", sorted(of_kind(Kind.WAIT)))
def test_a_sweep_corrects_no_machine_that_an_operation_powers_on(harness, machine, state):
    node = arrive(harness, machine, state)
    until(lambda: machine.power == "On")
    power_sync.sync(harness.inside.runtime, "c-1")
    harness.run()
    row = harness.inside.read(node)
    assert (state, "power off", None) == (
        row.provision_state, row.power_state, row.target_power_state,
    )  # fmt: skip
    assert ("On", [WAYS[state][1]]) == (machine.power, operations_of(harness, node))
    harness.poll(node)
    assert "power on" == harness.inside.read(node).power_state  # the step has read it


@pytest.mark.parametrize("state", sorted(of_kind(Kind.HOLD)))
def test_a_sweep_records_the_power_state_of_a_held_machine(harness, machine, state):
    node = arrive(harness, machine, state)
    for power, recorded in (("On", "power on"), ("Off", "power off")) * 3:
        machine.power = power
        power_sync.sync(harness.inside.runtime, "c-1")
        harness.run()
        row = harness.inside.read(node)
        assert (state, recorded, False) == (row.provision_state, row.power_state, row.maintenance)
        assert (power, [WAYS[state][1]]) == (machine.power, operations_of(harness, node))


def test_a_defect_of_a_driver_does_not_keep_other_machines_from_a_sweep(inside, monkeypatch):
    harness = Harness(inside)
    broken, sound = (harness.node(name=name) for name in ("broken", "sound"))
    real = AcmePower.get_power_state

    def fails(self, target):
        if target.name == "broken":
            raise ValueError("a defect")
        return real(self, target)

    monkeypatch.setattr(AcmePower, "get_power_state", fails)
    assert 1 == power_sync.sync(inside.runtime, "c-1")["read"]
    assert [None, "power off"] == [inside.read(node).power_state for node in (broken, sound)]


def test_a_recovery_counts_all_nodes(inside):
    harness = Harness(inside)
    nodes = [
        harness.node(maintenance=True, fault="power failure", power_state="power on")
        for _ in range(5)
    ]
    assert 5 == power_sync.recover(inside.runtime, "c-1")
    assert {False} == {inside.read(node).maintenance for node in nodes}


def test_a_sweep_reads_the_nodes_of_its_conductor_page_by_page(inside, monkeypatch):
    monkeypatch.setattr(bmc_sweep, "PAGE", 2)
    harness = Harness(inside)
    for _ in range(5):
        harness.node()
    assert 5 == power_sync.sync(inside.runtime, "c-1")["read"]
    assert 0 == power_sync.sync(inside.runtime, "c-2")["read"]


def test_a_retired_node_is_left_to_the_operator(inside):
    """Neither a sweep nor a recovery concerns it."""
    harness = Harness(inside)
    failed = {"maintenance": True, "fault": "power failure"}
    broken = harness.node(retired=True, power_state="power on", **failed)
    idle = harness.node(retired=True, power_state="power on")
    assert 0 == power_sync.recover(inside.runtime, "c-1")
    assert 0 == power_sync.sync(inside.runtime, "c-1")["read"]
    rows = [inside.read(node) for node in (broken, idle)]
    assert [("power on", True), ("power on", False)] == [
        (row.power_state, row.maintenance) for row in rows
    ]


@pytest.mark.parametrize("state", sorted(of_kind(Kind.WAIT)))
def test_a_sweep_puts_no_machine_into_maintenance_that_an_operation_waits_for(
    harness, machine, state
):
    node = arrive(harness, machine, state)
    harness.inside.change(Node, node, driver_info={"redfish_address": "http://127.0.0.1:9"})
    for _ in range(5):
        power_sync.sync(harness.inside.runtime, "c-1")
    row = harness.inside.read(node)
    assert (False, 0) == (row.maintenance, row.power_sync_failures)


@pytest.mark.parametrize("driver", ["redfish", "idrac"])
def test_a_sweep_polls_the_bmc_of_each_redfish_interface_by_any_name(harness, machine, driver):
    """Only the sweep's own reader of Redfish reports health."""
    node = harness.node("available", driver_info=machine.driver_info(), power_state="power off")
    harness.inside.change(Node, node, driver=driver)
    power_sync.sync(harness.inside.runtime, "c-1")
    assert "OK" == harness.inside.read(node).health


@pytest.mark.parametrize(("enabled", "health"), [("true", "OK"), ("false", "Critical")])
def test_a_power_sweep_records_the_health_of_machines(inside, enabled, health):
    inside.environ["INGOT_CONDUCTOR_ENABLE_HEALTH_MONITORING"] = enabled
    view = inside.another()
    view.conductor("c-1")
    with running(machines=1) as fleet:
        machine = fleet.machines[0]
        node = view.node("manageable", driver_info=machine.driver_info(), health="Critical")
        view.change(Node, node, driver="redfish", power_state="power off")
        for _ in range(2):
            power_sync.sync(view.runtime, "c-1")
    events = ["Health is OK; it was Critical."] if enabled == "true" else []
    with view.runtime.reading() as session:
        row = session.get_one(Node, node)
        assert (health, "power off") == (row.health, row.power_state)
        assert events == list(session.scalars(select(NodeHistory.event).filter_by(node_id=node)))
    view.close()
