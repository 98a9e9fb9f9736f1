"""Boot over real processes: machines fetch their boot files, which are removed later."""

import os
import signal
from contextlib import suppress

import pytest
import requests

from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, ROOT, Fleet, until
from tests.support.ports import free_port

PACE = {"boot_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """(fleet, simulator, node of each machine); machines boot from the fleet's boot files."""
    port = free_port()
    pxe = f"http://127.0.0.1:{port}/pxelinux.cfg/{{hexhyp}}"
    with (
        running(machines=4, pxe=pxe, **PACE) as simulator,
        Fleet(
            tmp_path_factory.mktemp("boot"), conductors=2, **AGENTS,
            INGOT_DEPLOY_HTTP_PORT=str(port),
            INGOT_ESP_IMAGE=str(ROOT / "LICENSE"),  # no firmware reads it
            INGOT_DEFAULT_INSPECT_INTERFACE="agent", INGOT_DEFAULT_RESCUE_INTERFACE="agent",
            INGOT_PXE_BOOT_RETRY_TIMEOUT="3",
            INGOT_PXE_BOOT_RETRY_CHECK_INTERVAL="1",
        ) as fleet,
    ):  # fmt: skip
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        nodes = fleet.enrol(simulator, ramdisk=True)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        for node in nodes[2:]:
            change(fleet, node, "boot_interface", "ipxe")
        yield fleet, simulator, nodes


def change(fleet, node, field, value):
    patch = [{"op": "add", "path": f"/{field}", "value": value}]
    answer = fleet.http.patch(f"{fleet.url}/v1/nodes/{node}", json=patch, timeout=30)
    assert 200 == answer.status_code, answer.text


def handed_out(fleet, node):
    root = fleet.data / "httpboot"
    return [path for path in root.glob(f"nodes/{node}/*/*") if path.is_file()]


def boots_of(machine):
    return [entry["what"] for entry in machine.log if "boots the agent" in entry["what"]]


@pytest.mark.parametrize(
    ("number", "device"), [(0, "Cd"), (2, "Pxe")], ids=["redfish-virtual-media", "ipxe"]
)
def test_a_machine_lives_its_whole_life_by_the_boot_files_made_for_it(site, number, device):
    fleet, simulator, nodes = site
    node, machine = nodes[number], simulator.machines[number]
    for count, (verb, state) in enumerate(
        (("inspect", "manageable"), ("provide", "available"), ("active", "active")), 1
    ):
        fleet.provision([node], verb)
        until(lambda count=count: count <= len(boots_of(machine)), f"the boot to {verb}")
        fleet.await_state([node], state)
        assert [] == handed_out(fleet, node)
    assert {f"boots the agent from {device}"} == set(boots_of(machine))
    until(lambda: machine.runs == "instance", "its instance")
    assert "" == machine.media["Cd"]
    rescue = {"target": "rescue", "rescue_password": "secret"}
    path = f"{fleet.url}/v1/nodes/{node}/states/provision"
    assert 202 == fleet.http.put(path, json=rescue, timeout=30).status_code
    fleet.await_state([node], "rescue")
    fleet.provision([node], "unrescue")
    fleet.await_state([node], "active")
    fleet.provision([node], "deleted")
    fleet.await_state([node], "available")
    assert [] == handed_out(fleet, node)
    assert [] == list((fleet.data / "httpboot" / "pxelinux.cfg").glob("*"))


def test_the_medium_is_made_again_when_its_conductor_dies_and_no_file_is_left(site):
    fleet, _, nodes = site
    node = nodes[1]
    fleet.provision([node], "provide")
    until(lambda: handed_out(fleet, node), "the medium")
    doomed = fleet.get(f"nodes/{node}")["conductor"]
    with suppress(ProcessLookupError):
        os.kill(fleet.pids()["conductors"][doomed], signal.SIGKILL)
    fleet.await_state([node], "available")
    until(lambda: [] == handed_out(fleet, node), "its removal")


def test_a_machine_that_finds_no_boot_file_is_rebooted(site):
    fleet, simulator, nodes = site
    node, machine = nodes[3], simulator.machines[3]
    boots = machine.boots
    simulator.set_faults(3, agent_never_boots=True)
    fleet.provision([node], "provide")
    until(lambda: machine.boots > boots + 1, "another boot")
    simulator.set_faults(3, agent_never_boots=None)
    fleet.await_state([node], "available")


def test_files_are_served_in_parts_and_folders_are_not(site):
    fleet, _, _ = site
    url = fleet.get("drivers/redfish") and f"http://127.0.0.1:{port_of(fleet)}"
    (fleet.data / "httpboot" / "script").write_text("#!ipxe\n")
    part = requests.get(f"{url}/script", headers={"Range": "bytes=2-5"}, timeout=10)
    assert (206, b"ipxe") == (part.status_code, part.content)
    assert 204 == requests.get(f"{url}/", timeout=10).status_code  # for health checks
    for path in ("nodes", "../ingot.db", "%2e%2e/ingot.db"):
        assert 404 == requests.get(f"{url}/{path}", timeout=10).status_code
    assert 405 == requests.post(f"{url}/script", timeout=10).status_code


def port_of(fleet):
    return fleet.environ["INGOT_DEPLOY_HTTP_PORT"]
