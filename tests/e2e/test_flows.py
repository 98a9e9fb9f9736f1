"""Verbs over real processes, Redfish and agents, checked by the logs of simulated machines."""

from dataclasses import replace

import pytest

from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, Fleet, until

BURN = {"interface": "deploy", "step": "burnin_cpu"}
ERASE = {"interface": "deploy", "step": "erase_devices"}
#: One step is long enough to be seen and aborted, also on a busy machine.
PACE = {
    "boot_seconds": 0.5, "heartbeat_gap": 0.5, "retry_factor": 0.05,
    "step_seconds": {"deploy.burnin_cpu": 8, "*": 0.1},
}  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A fleet and its simulated machines: (fleet, simulator, node of each machine)."""
    with (
        running(machines=4, **PACE) as simulator,
        Fleet(
            tmp_path_factory.mktemp("flows"), conductors=1, **AGENTS,
            INGOT_DEFAULT_RESCUE_INTERFACE="agent", INGOT_DEFAULT_RAID_INTERFACE="agent",
        ) as fleet,
    ):  # fmt: skip
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        nodes = fleet.enrol(simulator)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        yield fleet, simulator, nodes


def ask(fleet, node, verb, **arguments):
    path = f"{fleet.url}/v1/nodes/{node}/states/provision"
    answer = fleet.http.put(path, json={"target": verb, **arguments}, timeout=30)
    assert 202 == answer.status_code, answer.text


def step_now(fleet, node, kind):
    return fleet.get(f"nodes/{node}")[f"{kind}_step"].get("step")


def test_a_manual_clean_runs_in_band_steps_in_order_and_lists_them_afterwards(site):
    fleet, _, (node, *_) = site
    path = f"{fleet.url}/v1/nodes/{node}/cleaning/steps"
    assert 202 == fleet.http.get(path).status_code
    steps = [{"interface": "deploy", "step": "burnin_disk"}, ERASE]
    ask(fleet, node, "clean", clean_steps=steps)
    fleet.await_state([node], "manageable")
    cleaning_steps = [
        step for step in fleet.operation(node, "clean")["steps"] if step["flow"] == "clean"
    ]
    assert [("burnin_disk", "done", True), ("erase_devices", "done", True)] == [
        (step["step"], step["state"], step["in_band"]) for step in cleaning_steps
    ]
    listed = [step["step"] for step in fleet.get(f"nodes/{node}/cleaning/steps", min_priority=1)]
    assert ["erase_devices_metadata", "erase_devices"] == listed


def test_an_abort_waits_for_the_end_of_a_step_that_must_not_be_interrupted(site):
    fleet, _, (_, node, *_) = site
    ask(fleet, node, "clean", clean_steps=[BURN, ERASE])
    until(lambda: step_now(fleet, node, "clean") == "burnin_cpu", "the step")
    until(lambda: fleet.states()[node] == "clean wait", "its wait")
    explanation = fleet.get(f"nodes/{node}/why")
    assert ("agent", "deploy.burnin_cpu") == (explanation["waiting_for"], explanation["step"])
    ask(fleet, node, "abort")
    assert "clean wait" == fleet.states()[node]
    fleet.await_state([node], "clean failed")
    steps = {step["step"]: step for step in fleet.operation(node, "clean")["steps"]}
    assert (True, "done") == (steps["burnin_cpu"]["abort_after"], steps["burnin_cpu"]["state"])
    assert "skipped" == steps["erase_devices"]["state"]


def test_an_abort_while_the_agent_boots_switches_the_machine_off_within_seconds(site):
    fleet, simulator, (_, _, node, _) = site
    machine = simulator.machines[2]
    machine.faults = replace(machine.faults, boot_seconds=3600)
    ask(fleet, node, "clean", clean_steps=[ERASE])
    until(lambda: fleet.states()[node] == "clean wait", "the wait")
    ask(fleet, node, "abort")
    fleet.await_state([node], "clean failed")
    until(lambda: not fleet.get(f"nodes/{node}")["reservation"], "the end of the cleanup")
    assert "Off" == machine.power
    row = fleet.get(f"nodes/{node}")
    assert (False, "manageable") == (row["maintenance"], row["target_provision_state"])
    machine.faults = replace(machine.faults, boot_seconds=0.5)


def test_an_instance_is_deployed_serviced_rescued_and_unrescued(site):
    fleet, simulator, (*_, node) = site
    machine = simulator.machines[3]
    ask(fleet, node, "provide")
    fleet.await_state([node], "available")
    tune = {"interface": "deploy", "step": "inject_files", "args": {}, "priority": 50}
    ask(fleet, node, "active", deploy_steps=[tune])
    fleet.await_state([node], "active")
    steps = [step["step"] for step in fleet.operation(node, "active")["steps"]]
    assert steps.index("inject_files") == steps.index("prepare_instance_boot") + 1
    ask(
        fleet,
        node,
        "service",
        service_steps=[{"interface": "raid", "step": "delete_configuration"}],
    )
    fleet.await_state([node], "active")
    until(lambda: machine.runs == "instance", "the instance")
    ask(fleet, node, "rescue", rescue_password="open sesame")
    fleet.await_state([node], "rescue")
    assert "rescue" == machine.runs
    assert {"rescue_password", "hashed_rescue_password"}.isdisjoint(
        fleet.get(f"nodes/{node}")["instance_info"]
    )
    ask(fleet, node, "unrescue")
    fleet.await_state([node], "active")
    until(lambda: machine.runs == "instance", "the instance")
    hold = {"interface": "power", "step": "hold"}
    ask(fleet, node, "service", service_steps=[hold])
    fleet.await_state([node], "service hold")
    ask(fleet, node, "unhold")
    fleet.await_state([node], "active")
    ask(fleet, node, "deleted")
    fleet.await_state([node], "available")


def test_an_instance_is_deployed_and_removed_by_a_ramdisk_without_the_deploy_extension(site):
    fleet, simulator, nodes = site
    node, machine = nodes[0], simulator.machines[0]
    simulator.set_faults(0, lacks=["deploy", "standby.get_partition_uuids"])
    for verb, state in (("provide", "available"), ("active", "active")):
        fleet.provision([node], verb)
        fleet.await_state([node], state)
    until(lambda: machine.runs == "instance", "its instance")
    assert machine.disk is not None
    commands = [entry["what"] for entry in machine.log if entry["kind"] == "agent"]
    assert [True, False] == [
        command in commands for command in ("prepare_image", "execute_deploy_step")
    ]
    fleet.provision([node], "deleted")
    fleet.await_state([node], "available")
