"""The page of a node names the cause of each fault: no log is needed."""

import os
import signal
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from drivers.simulator.simulator import running
from tests.support.browser import desk
from tests.support.fleet import AGENTS, Fleet, until

PACE = {"boot_seconds": 0.5, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}
#: Milliseconds: a step with a fault is tried several times.
PATIENCE = 180_000


class Site:
    """A fleet with one slot for cleaning, and a machine for each case."""

    def __init__(self, fleet, simulator, nodes):
        self.fleet, self.simulator, self.nodes = fleet, simulator, nodes

    def next(self, **faults):
        """Return the node of a machine that no case has used, with these faults."""
        node = self.nodes.pop()
        machine = next(machine for machine in self.simulator.machines if machine.uuid == node)
        machine.faults = replace(machine.faults, **faults)
        return node

    def change(self, node, field, value):
        patch = [{"op": "add", "path": f"/{field}", "value": value}]
        url = f"{self.fleet.url}/v1/nodes/{node}"
        answer = self.fleet.http.patch(url, json=patch, timeout=30)
        assert 200 == answer.status_code, answer.text

    def manage(self, node):
        self.fleet.provision([node], "manage")

    def manageable(self, node):
        self.manage(node)
        self.fleet.await_state([node], "manageable")

    def deploy(self, node):
        self.change(node, "automated_clean", False)
        self.manageable(node)
        self.fleet.provision([node], "provide")
        self.fleet.await_state([node], "available")
        self.fleet.provision([node], "active")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    one = {"INGOT_CONDUCTOR_MAX_CONCURRENT_CLEAN": "1"}
    folder = tmp_path_factory.mktemp("causes")
    with (
        running(machines=8, **PACE) as simulator,
        Fleet(folder, conductors=1, **AGENTS, **one) as fleet,
    ):
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        yield Site(fleet, simulator, fleet.enrol(simulator))


def dead_bmc(site):
    node = site.next(bmc_dead=True)
    site.manage(node)
    return node, ("unreachable", "check that its address can be reached from the conductor")


def wrong_password(site):
    node = site.next()
    site.change(node, "driver_info/redfish_password", "wrong")
    site.manage(node)
    return node, ("login_refused", "correct them; after several failures")


def agent_never_boots(site):
    node = site.next(agent_never_boots=True)
    site.deploy(node)
    return node, ("its agent works, or is being booted", "it fails at the deadline")


def image_gone(site):
    node = site.next()
    source = site.fleet.get(f"nodes/{node}")["instance_info"]["image_source"]
    site.change(node, "instance_info/image_source", source.replace("agent.iso", "nonesuch.iso"))
    site.deploy(node)
    return node, ("nonesuch.iso", "404")


def wrong_checksum(site):
    node = site.next()
    site.change(node, "instance_info/image_checksum", "0" * 64)
    site.deploy(node)
    return node, ("sha256 of", "expected 0000000000")


def failing_step(site):
    node = site.next(step_fails={"deploy.write_image": "the disk is on fire"})
    site.deploy(node)
    return node, ("the disk is on fire", "deploy.write_image")


def full_queue(site):
    first_node, second_node = site.next(agent_never_boots=True), site.next()
    for node in (first_node, second_node):
        site.manageable(node)
        site.fleet.provision([node], "provide")
    return second_node, ("number 1 of 1 in the queue for one of 1 slots", "max_concurrent_clean")


@pytest.mark.parametrize(
    "fault",
    [
        dead_bmc, wrong_password, agent_never_boots, image_gone, wrong_checksum, failing_step,
        full_queue,
    ],
)  # fmt: skip
def test_the_cause_of_a_fault_is_on_the_nodes_page(chromium, site, fault):
    node, words = fault(site)
    with desk(chromium, site.fleet.url, at=f"/nodes/{node}") as page:
        region = page.get_by_role("region", name="Why")
        for word in words:
            expect(region).to_contain_text(word, timeout=PATIENCE, ignore_case=True)


def test_a_service_without_conductors_is_named_on_the_nodes_page(chromium, tmp_path):
    with Fleet(tmp_path, conductors=1) as fleet:
        (node,) = fleet.create_nodes(1)
        os.kill(fleet.conductor(1), signal.SIGKILL)
        until(lambda: fleet.get("conductors")["conductors"][0]["alive"] is False, "its death")
        with desk(chromium, fleet.url, at=f"/nodes/{node}") as page:
            region = page.get_by_role("region", name="Why")
            expect(region).to_contain_text("No conductor is alive", timeout=PATIENCE)
