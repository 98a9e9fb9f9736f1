"""A machine whose BMC keeps a boot device for one start only, over real processes."""

import os
import signal

from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, Fleet, until

PACE = {"boot_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}
DEVICE = "management/boot_device"
FROM_DISK = {"BootSourceOverrideTarget": "Hdd", "BootSourceOverrideEnabled": "Once"}


def test_a_deployed_machine_is_told_to_boot_its_disk_at_each_start_whichever_conductor_starts_it(
    tmp_path,
):
    with (
        running(machines=1, boot_once_only=True, boot_choices_hidden=True, **PACE) as simulator,
        Fleet(tmp_path, conductors=2, **AGENTS) as fleet,
    ):
        (machine,) = simulator.machines
        (node,) = fleet.enrol(simulator)
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"

        def starts_from_disk():
            """Whether the last boot order is the disk, and the machine runs from it."""
            orders = [entry["detail"] for entry in machine.log if entry["what"] == "boot device"]
            machine.log.clear()
            return orders[-1:] == [FROM_DISK] and machine.runs == "instance"

        def put(path, body):
            answer = fleet.http.put(f"{fleet.url}/v1/nodes/{node}/{path}", json=body, timeout=30)
            assert answer.status_code in (202, 204), answer.text

        def power(state):
            boots = machine.boots
            put("states/power", {"target": state})
            until(lambda: not fleet.get(f"nodes/{node}")["reservation"], state)
            if state != "power off":
                until(lambda: machine.boots > boots and machine.runs == "instance", state)

        for verb, state in (("manage", "manageable"), ("provide", "available")):
            fleet.provision([node], verb)
            fleet.await_state([node], state)
        fleet.provision([node], "active")
        fleet.await_state([node], "active")
        until(lambda: machine.runs == "instance", "the instance")
        assert starts_from_disk()
        assert {"boot_device": "disk", "persistent": True} == fleet.get(f"nodes/{node}/{DEVICE}")

        owner = fleet.get(f"nodes/{node}")["conductor"]
        os.kill(fleet.pids()["conductors"][owner], signal.SIGKILL)
        until(lambda: fleet.get(f"nodes/{node}")["conductor"] != owner, "another conductor")
        power("rebooting")
        assert starts_from_disk()
        power("power off")
        power("power on")
        assert starts_from_disk()

        fleet.provision([node], "rebuild")
        fleet.await_state([node], "active")
        until(lambda: machine.runs == "instance", "the instance")
        assert starts_from_disk()
        power("rebooting")
        assert starts_from_disk()

        put(DEVICE, {"boot_device": "pxe", "persistent": True})
        assert {"boot_device": "pxe", "persistent": True} == fleet.get(f"nodes/{node}/{DEVICE}")
        power("rebooting")
        power("rebooting")
        from_network = FROM_DISK | {"BootSourceOverrideTarget": "Pxe"}
        orders = [entry["detail"] for entry in machine.log if entry["what"] == "boot device"]
        assert [from_network] * 3 == orders  # by the request, and before each start
