"""Deployments whose steps reboot the machine: it must boot the instance in the end."""

import pytest

from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, ROOT, Fleet, until
from tests.support.ports import free_port

BOOTS = ("redfish-virtual-media", "redfish-https", "ipxe", "http-ipxe")
#: Devices that firmware may try before the disk when the tenant reboots.
BEFORE_THE_DISK = ("Cd", "Pxe", "UefiHttp")
#: In-band steps after prepare_instance_boot, whose priority is 60.
TUNE = {"interface": "deploy", "step": "tune", "priority": 50, "reboot_requested": True}
CHECK = {"interface": "deploy", "step": "check", "priority": 0}
PACE = {"boot_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}
BIOS = {"settings": [{"name": "NumLock", "value": "Off"}]}
#: kind of reboot -> (the agent's steps, the caller's steps)
WAYS = {
    "in-band": ([TUNE], []),
    "bios": ([], [("bios", "apply_configuration", 50, BIOS)]),
    "reboot": ([CHECK], [("power", "reboot", 50, {}), ("deploy", "check", 45, {})]),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """(fleet, simulator, node of each machine), a machine for each boot interface."""
    port = free_port()
    pxe = f"http://127.0.0.1:{port}/pxelinux.cfg/{{hexhyp}}"
    with (
        running(machines=len(BOOTS), pxe=pxe, **PACE) as simulator,
        Fleet(
            tmp_path_factory.mktemp("reboots"), conductors=1, **AGENTS,
            INGOT_DEPLOY_HTTP_PORT=str(port),
            INGOT_ESP_IMAGE=str(ROOT / "LICENSE"),  # no firmware reads it
            INGOT_CONDUCTOR_AUTOMATED_CLEAN="false",
            INGOT_CONDUCTOR_DEPLOY_CALLBACK_TIMEOUT="60",
        ) as fleet,
    ):  # fmt: skip
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        nodes = fleet.enrol(simulator, ramdisk=True)
        for node, boot in zip(nodes, BOOTS, strict=True):
            change(fleet, node, "boot_interface", boot)
        for verb, state in (("manage", "manageable"), ("provide", "available")):
            fleet.provision(nodes, verb)
            fleet.await_state(nodes, state)
        yield fleet, simulator, nodes


def change(fleet, node, field, value):
    patch = [{"op": "add", "path": f"/{field}", "value": value}]
    assert fleet.http.patch(f"{fleet.url}/v1/nodes/{node}", json=patch, timeout=30).ok


@pytest.fixture
def available(site):
    """The site with available nodes and an image to deploy, before and after the test."""
    fleet, _, nodes = site
    image = fleet.get(f"nodes/{nodes[0]}")["instance_info"]
    yield site
    fleet.provision(nodes, "deleted")
    fleet.await_state(nodes, "available")
    for node in nodes:
        change(fleet, node, "instance_info", image)


@pytest.mark.parametrize("way", WAYS)
def test_a_reboot_after_the_preparation_of_the_instances_boot_leaves_nothing_of_the_agent(
    available, way
):
    fleet, simulator, nodes = available
    offered, requested = WAYS[way]
    steps = [
        dict(zip(("interface", "step", "priority", "args"), values, strict=True))
        for values in requested
    ]
    boots = [machine.boots for machine in simulator.machines]
    for number, node in enumerate(nodes):
        simulator.set_faults(number, steps={"deploy": offered})
        body = {"target": "active", "deploy_steps": steps}
        path = f"{fleet.url}/v1/nodes/{node}/states/provision"
        assert 202 == fleet.http.put(path, json=body, timeout=30).status_code
    fleet.await_state(nodes, "active")
    for number, (node, machine) in enumerate(zip(nodes, simulator.machines, strict=True)):
        until(lambda machine=machine: machine.runs == "instance", "its instance")
        assert boots[number] + 3 == machine.boots  # agent, agent, instance
        assert ("", "Hdd", "Continuous") == (
            machine.media["Cd"], machine.boot_target, machine.boot_enabled,
        ), BOOTS[number]  # fmt: skip
        ran = [step for step in fleet.operation(node, "active")["steps"] if step["in_band"]]
        assert ["done"] * len(offered) == [step["state"] for step in ran]
    for device in BEFORE_THE_DISK:
        for machine in simulator.machines:
            machine.boot_target, machine.boot_enabled = device, "Once"
            simulator.press(machine.number, on=False)
            until(lambda machine=machine: machine.runs == "off", "its end")
            simulator.press(machine.number, on=True)
        for machine in simulator.machines:
            until(lambda machine=machine: machine.runs == "instance", "the tenant's reboot")
    root = fleet.data / "httpboot"
    assert [] == [path for path in root.glob("nodes/*/*/*") if path.is_file()]
    assert [] == list((root / "pxelinux.cfg").glob("*"))
