"""Boot mode and secure boot of capabilities, over real processes: settings at each boot."""

import pytest

from drivers.simulator.machine import Machine
from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, ROOT, Fleet, until
from tests.support.ports import free_port

PACE = {"boot_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}


@pytest.fixture(scope="module")
def boots():
    """(number of the machine, what boots, boot mode, secure boot) of each boot."""
    seen_boots, record = [], Machine.record

    def note(machine, kind, summary, *details, **facts):
        if kind == "machine" and summary.startswith("boots"):
            system = "agent" if summary.startswith("boots the agent") else "instance"
            seen_boots.append((machine.number, system, machine.boot_mode, machine.secure_boot_now))
        record(machine, kind, summary, *details, **facts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machine, "record", note)
        yield seen_boots


@pytest.fixture(scope="module")
def site(tmp_path_factory, boots):
    """(fleet, simulator, node of each machine); machines boot from the fleet's boot files."""
    port = free_port()
    pxe = f"http://127.0.0.1:{port}/pxelinux.cfg/{{hexhyp}}"
    with (
        running(machines=3, pxe=pxe, **PACE) as simulator,
        Fleet(
            tmp_path_factory.mktemp("boot"), conductors=1, **AGENTS,
            INGOT_DEPLOY_HTTP_PORT=str(port),
            INGOT_ESP_IMAGE=str(ROOT / "LICENSE"),  # no firmware reads it
            INGOT_DEFAULT_RESCUE_INTERFACE="agent",
        ) as fleet,
    ):  # fmt: skip
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        nodes = fleet.enrol(simulator, ramdisk=True)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        change(fleet, nodes[1], "boot_interface", "ipxe")
        yield fleet, simulator, nodes


def change(fleet, node, field, value):
    patch = [{"op": "add", "path": f"/{field}", "value": value}]
    answer = fleet.http.patch(f"{fleet.url}/v1/nodes/{node}", json=patch, timeout=30)
    assert 200 == answer.status_code, answer.text


def do(fleet, node, verb, state, **arguments):
    path = f"{fleet.url}/v1/nodes/{node}/states/provision"
    answer = fleet.http.put(path, json={"target": verb, **arguments}, timeout=30)
    assert 202 == answer.status_code, answer.text
    fleet.await_state([node], state)


@pytest.mark.parametrize("number", [0, 1], ids=["redfish-virtual-media", "ipxe"])
def test_secure_boot_is_on_for_the_instance_and_off_for_the_agent(site, boots, number):
    fleet, simulator, nodes = site
    node, machine = nodes[number], simulator.machines[number]
    agent, instance = (number, "agent", "UEFI", False), (number, "instance", "UEFI", True)
    machine.boot_mode = "Legacy"
    change(fleet, node, "properties/capabilities", "boot_mode:uefi,secure_boot:true")
    do(fleet, node, "provide", "available")
    change(fleet, node, "instance_info/capabilities", '{"secure_boot": "true"}')
    for verb, state, expected in (
        ("active", "active", [agent, agent, instance]),  # the first one cleaned the machine
        ("rescue", "rescue", [agent]),
        ("unrescue", "active", [instance]),
        ("rebuild", "active", [agent, instance]),
        ("deleted", "available", [agent]),
    ):
        arguments = {"rescue_password": "secret"} if verb == "rescue" else {}
        do(fleet, node, verb, state, **arguments)
        until(
            lambda expected=expected: len(of_machine(boots, number)) >= len(expected),
            f"the boots of {verb}",
        )
        assert expected == of_machine(boots, number)
        boots.clear()
    assert (False, "UEFI") == (machine.secure_boot, machine.boot_mode)
    row = fleet.http.get(f"{fleet.url}/v1/nodes/{node}", timeout=30).json()
    assert ("uefi", False) == (row["boot_mode"], row["secure_boot"])


def of_machine(boots, number):
    return [boot for boot in boots if boot[0] == number]


@pytest.mark.parametrize(
    ("properties", "instance", "field"),
    [
        ("boot_mode:bios", {"secure_boot": "true"}, "secure_boot needs boot_mode uefi"),
        (
            "boot_mode:uefi",
            {"secure_boot": "yes"},
            "secure_boot must be one of true, false, not 'yes'",
        ),
        ("boot_mode:uefi", "{secure_boot", "is no JSON"),
        ("boot_mode", {}, "'boot_mode' lacks a name or a value"),
        ("boot_mode:efi", {}, "boot_mode must be one of uefi, bios, not 'efi'"),
    ],
)
def test_wrong_capabilities_are_refused_before_anything_is_done(site, properties, instance, field):
    fleet, _, nodes = site
    node = nodes[2]
    url = f"{fleet.url}/v1/nodes/{node}"
    change(fleet, node, "properties/capabilities", properties)
    change(fleet, node, "instance_info/capabilities", instance)
    boot = fleet.http.get(f"{url}/validate", timeout=30).json()["boot"]
    assert boot["result"] is False
    assert field in boot["reason"]
