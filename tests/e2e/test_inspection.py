"""Inspection over real processes: simulated machines report themselves while conductors die."""

import os
import signal
import threading
from functools import partial

import pytest

from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, Fleet, until
from tests.support.web import Handler, serving

PACE = {"boot_seconds": 0.5, "heartbeat_gap": 0.5, "retry_factor": 0.05}
#: A rule on the agents' reports.
RULE = {
    "conditions": [{"op": "gt", "args": {"values": ["{inventory.cpu.count}", 4]}}],
    "actions": [
        {"op": "set-attribute", "args": {"path": "/resource_class", "value": "large"}},
        {"op": "add-trait", "args": {"name": "CUSTOM_LARGE"}},
    ],
}


@pytest.fixture
def listener():
    """A service that rules call; it answers once the gate is set: (URL, requested paths, gate)."""
    requested, gate = [], threading.Event()

    class Slow(Handler):
        def do_GET(self):
            requested.append(self.path)
            gate.wait(60)
            self.answer(200)

    with serving(Slow) as server:
        yield server.url, requested, gate
        gate.set()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """
    Three conductors and ten machines whose nodes are manageable, without ports; one rule.

    Each test of deaths removes one conductor, and works with the first nine machines.
    """
    with (
        running(machines=10, **PACE) as simulator,
        Fleet(
            tmp_path_factory.mktemp("inspection"), conductors=3, **AGENTS, INGOT_DEFAULT_INSPECT_INTERFACE="agent",
            INGOT_INSPECTOR_PRE_CREATE_PORTS="false",
        ) as fleet,
    ):  # fmt: skip
        nodes = fleet.enrol(simulator)
        for port in fleet.get("ports")["ports"]:
            fleet.http.delete(f"{fleet.url}/v1/ports/{port['uuid']}", timeout=30)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        make_rule(fleet, **RULE, priority=9)
        yield fleet, simulator, nodes


def make_rule(fleet, **rule):
    answer = fleet.http.post(f"{fleet.url}/v1/inspection_rules", json=rule, timeout=30)
    assert 201 == answer.status_code, answer.text


def assert_inspected(fleet, simulator, nodes):
    for machine, node in zip(simulator.machines, nodes, strict=False):
        row = fleet.get(f"nodes/{node}")
        assert (None, "power off") == (row["last_error"], row["power_state"])
        assert ("x86_64", "large") == (row["properties"]["cpu_arch"], row["resource_class"])
        assert (None, True) == (
            row["inspection_started_at"],
            row["inspection_finished_at"] is not None,
        )
        assert ["CUSTOM_LARGE"] == row["traits"]
        ports = fleet.get("ports", node=node, detail=True)["ports"]
        assert [(machine.mac, True)] == [(port["address"], port["pxe_enabled"]) for port in ports]
        assert machine.name == fleet.get(f"nodes/{node}/inventory")["inventory"]["hostname"]
        assert "Off" == machine.power
        assert {"Cd": "", "Floppy": ""} == machine.media
        assert "succeeded" == fleet.operation(node, "inspect")["state"]


def one_waits_with(fleet, name):
    return ("inspect wait", name) in fleet.states("conductor").values()


def test_machines_are_inspected_although_a_conductor_dies_while_their_agents_boot(site):
    fleet, simulator, (*nodes, _) = site
    fleet.provision(nodes, "inspect")
    until(partial(one_waits_with, fleet, "fleet-1"), "inspect wait")
    os.kill(fleet.conductor(1), signal.SIGKILL)
    fleet.await_state(nodes, "manageable")
    assert_inspected(fleet, simulator, nodes)


def test_an_agent_whose_report_was_not_accepted_is_asked_for_it(site):
    """As after an outage of the service: an agent posts five times, then it looks its node up."""
    fleet, simulator, (*_, node) = site
    machine, reports = simulator.machines[-1], []
    port = {"node_uuid": node, "address": machine.mac}
    assert 201 == fleet.http.post(f"{fleet.url}/v1/ports", json=port, timeout=30).status_code

    class Away(Handler):
        def do_POST(self):
            reports.append(self.body())
            self.answer(503)

    with serving(Away) as away:
        medium = f"{simulator.medium(fleet.url)}&ipa-inspection-callback-url={away.url}/"
        patch = [{"op": "replace", "path": "/driver_info/inspect_iso", "value": medium}]
        answer = fleet.http.patch(f"{fleet.url}/v1/nodes/{node}", json=patch, timeout=30)
        assert 200 == answer.status_code, answer.text
        fleet.provision([node], "inspect")
        fleet.await_state([node], "manageable")
    assert 5 == len(reports)
    assert fleet.get(f"nodes/{node}/inventory")["inventory"] == reports[0]["inventory"]
    assert "large" == fleet.get(f"nodes/{node}")["resource_class"]
    assert ("Off", {"Cd": "", "Floppy": ""}) == (machine.power, machine.media)


def test_hooks_and_rules_restart_when_their_conductor_dies_in_the_middle_of_them(site, listener):
    fleet, simulator, (*nodes, _) = site
    url, requested, gate = listener
    call = {"op": "api-call", "args": {"url": f"{url}/{{node.uuid}}", "timeout": 60}}
    make_rule(fleet, actions=[call], priority=5)
    fleet.provision(nodes, "inspect")
    until(lambda: len(set(requested)) == len(nodes), "the rules of all nodes")
    victim = fleet.get(f"nodes/{nodes[0]}")["conductor"]
    owners = fleet.states("conductor")
    hit = {node for node in nodes if owners[node][1] == victim}
    os.kill(fleet.pids()["conductors"][victim], signal.SIGKILL)
    gate.set()
    fleet.await_state(nodes, "manageable")
    assert_inspected(fleet, simulator, nodes)
    assert {f"/{node}": 2 if node in hit else 1 for node in nodes} == {
        path: requested.count(path) for path in requested
    }
    deaths = {
        node: sum(step["deaths"] for step in fleet.operation(node, "inspect")["steps"])
        for node in nodes
    }
    assert {node: int(node in hit) for node in nodes} == deaths


def test_a_bmc_is_inspected_instead_where_the_node_says_so(site):
    fleet, simulator, (*_, node) = site
    booted = simulator.machines[-1].boots
    patch = [{"op": "replace", "path": "/inspect_interface", "value": "redfish"}]
    answer = fleet.http.patch(f"{fleet.url}/v1/nodes/{node}", json=patch, timeout=30)
    assert 200 == answer.status_code, answer.text
    fleet.provision([node], "inspect")
    fleet.await_state([node], "manageable")
    machine, row = simulator.machines[-1], fleet.get(f"nodes/{node}")
    assert (32 * 1024, 8, 893) == tuple(
        row["properties"][name] for name in ("memory_mb", "cpus", "local_gb")
    )
    assert sorted(machine.macs) == sorted(
        port["address"] for port in fleet.get("ports", node=node)["ports"]
    )
    assert booted == machine.boots
    assert (
        machine.macs[0]
        == (fleet.get(f"nodes/{node}/inventory")["inventory"]["interfaces"][0]["mac_address"])
    )
