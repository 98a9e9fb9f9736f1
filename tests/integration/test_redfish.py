"""Facts of Redfish machines on their nodes: from sweeps, verification and steps."""

import pytest

from app.models import Node
from drivers.redfish.changes import restart
from drivers.simulator.simulator import running
from tests.integration.harness import Harness
from tests.support.fleet import until
from workers.periodic import bmc_sweep, power_sync

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)


def swept(view, fleet, **columns):
    """Sweep a node of the fleet's machine, and return its row."""
    node = view.node("manageable", driver_info=fleet.machines[0].driver_info(), **columns)
    view.change(Node, node, driver="redfish", power_state="power off")
    power_sync.sync(view.runtime, "c-1")
    return view.read(node)


def test_a_power_sweep_records_boot_mode_and_at_intervals_secure_boot(inside, monkeypatch):
    inside.conductor("c-1")
    with running(machines=1) as fleet:
        machine = fleet.machines[0]
        machine.boot_mode, machine.secure_boot = "UEFI", True
        monkeypatch.setattr(power_sync, "SECURE_BOOT_EVERY", 10**9)
        row = swept(inside, fleet, boot_mode="bios")
        assert ("uefi", None) == (row.boot_mode, row.secure_boot)
        monkeypatch.setattr(power_sync, "SECURE_BOOT_EVERY", 1)
        read = []
        for _ in range(2):
            count = machine.reads
            power_sync.sync(inside.runtime, "c-1")
            read.append((machine.reads - count, inside.read(row.id)))
        (requests, first_row), (_, second_row) = read
        assert (2, "uefi", True) == (requests, first_row.boot_mode, first_row.secure_boot)
        assert row.updated_at < first_row.updated_at == second_row.updated_at


def test_a_power_sweep_writes_no_boot_facts_of_a_node_with_a_new_operation(inside, monkeypatch):
    inside.conductor("c-1")
    with running(machines=1) as fleet:
        wait = bmc_sweep.Supply.next

        async def started_meanwhile(supply):
            node = await wait(supply)
            if node is not None:
                inside.change(Node, node.id, fence=node.fence + 1)
            return node

        monkeypatch.setattr(bmc_sweep.Supply, "next", started_meanwhile)
        assert None is swept(inside, fleet).boot_mode


BIOS_OFF = {
    "interface": "bios", "step": "apply_configuration",
    "args": {"settings": [{"name": "NumLock", "value": "Off"}]},
}  # fmt: skip


@pytest.mark.parametrize("verb", ["clean", "service"])
def test_bios_settings_are_applied_without_the_ramdisk(inside, verb, monkeypatch):
    monkeypatch.setattr(restart, "POLL_INTERVAL", 0.0)
    harness = Harness(inside)
    with running(machines=1, power_off_seconds=0.0) as fleet:
        machine = fleet.machines[0]
        state = {"clean": "manageable", "service": "active"}[verb]
        node = harness.node(state, driver_info=machine.driver_info())
        inside.change(Node, node, driver="redfish", power_state="power off")
        harness.do(node, verb, **{f"{verb}_steps": [BIOS_OFF]}, disable_ramdisk=True)
        until(lambda: _continue(harness, node) == state)
        assert "Off" == machine.bios["NumLock"]
        assert "" == machine.media["Cd"]


def _continue(harness, node):
    if harness.last(node).state == "waiting":
        harness.poll(node)
    return harness.state(node)


def test_a_node_with_wrong_credentials_is_not_manageable(inside):
    harness = Harness(inside)
    with running(machines=1) as fleet:
        info = fleet.machines[0].driver_info()
        node = harness.node("enroll", driver_info={**info, "redfish_password": "sesame"})
        inside.change(Node, node, driver="redfish")
        assert "enroll" == harness.do(node, "manage")
        assert "driver_info/redfish_username and redfish_password" in inside.read(node).last_error
        inside.change(Node, node, driver_info=info)
        assert "manageable" == harness.do(node, "manage")


def test_verification_records_boot_mode_secure_boot_and_vendor(inside):
    harness = Harness(inside)
    with running(machines=1) as fleet:
        fleet.machines[0].secure_boot = True
        node = harness.node("enroll", driver_info=fleet.machines[0].driver_info())
        inside.change(Node, node, driver="redfish")
        assert "manageable" == harness.do(node, "manage")
        row = inside.read(node)
    assert ("uefi", True, "Simulated") == (row.boot_mode, row.secure_boot, row.properties["vendor"])
