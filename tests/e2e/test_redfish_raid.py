"""Volumes that a BMC creates at restarts of its machine, over real processes."""

import os
import signal

import pytest

from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, Fleet, until

PACE = {"boot_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}
ROOT_VOLUME = {"raid_level": "1", "size_gb": 100, "is_root_volume": True, "volume_name": "root"}
CONFIG = {"logical_disks": [ROOT_VOLUME, {"raid_level": "0", "size_gb": "MAX"}]}
DELETE = {"interface": "raid", "step": "delete_configuration"}
CREATE = {"interface": "raid", "step": "create_configuration"}


@pytest.fixture
def site(tmp_path):
    """(fleet, machine, node): a node whose BMC changes volumes at the next start."""
    faults = {**PACE, "volumes_on_reset": True, "task_seconds": 1}
    with (
        running(machines=1, **faults) as simulator,
        Fleet(tmp_path, conductors=2, **AGENTS) as fleet,
    ):
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        (node,) = fleet.enrol(simulator, raid_interface="redfish")
        fleet.provision([node], "manage")
        fleet.await_state([node], "manageable")
        yield fleet, simulator.machines[0], node


def ask(fleet, node, path, body):
    answer = fleet.http.put(f"{fleet.url}/v1/nodes/{node}/states/{path}", json=body, timeout=30)
    assert answer.status_code in (202, 204), answer.text


def orders(machine, summary):
    return sum(entry["what"] == summary for entry in machine.log)


def test_manual_cleaning_creates_volumes_once_without_a_ramdisk_although_its_conductor_dies(site):
    fleet, machine, node = site
    ask(fleet, node, "raid", CONFIG)
    ask(fleet, node, "provision", {"target": "clean", "clean_steps": [DELETE, CREATE]})
    until(lambda: orders(machine, "create volume"), "the first volume")
    owner = fleet.get(f"nodes/{node}")["conductor"]
    os.kill(fleet.pids()["conductors"][owner], signal.SIGKILL)
    fleet.await_state([node], "manageable")
    assert 2 == orders(machine, "create volume")
    assert {"RAID1", "RAID0"} == {volume["RAIDType"] for volume in machine.volumes.values()}
    assert not any("boots the agent" in entry["what"] for entry in machine.log)
    document = fleet.get(f"nodes/{node}")
    by_level = {disk["raid_level"]: disk for disk in document["raid_config"]["logical_disks"]}
    assert ("root", 100) == (by_level["1"]["name"], by_level["1"]["size_gb"])
    assert CONFIG == document["target_raid_config"]


def test_a_deployment_creates_its_root_volume_and_the_agent_returns_after_it(site):
    fleet, machine, node = site
    fleet.provision([node], "provide")
    fleet.await_state([node], "available")
    args = {"raid_config": {"logical_disks": [ROOT_VOLUME]}, "delete_existing": True}
    step = {"interface": "raid", "step": "apply_configuration", "args": args, "priority": 90}
    ask(fleet, node, "provision", {"target": "active", "deploy_steps": [step]})
    fleet.await_state([node], "active")
    assert ["RAID1"] == [volume["RAIDType"] for volume in machine.volumes.values()]
    until(lambda: machine.runs == "instance", "the instance")
    document = fleet.get(f"nodes/{node}")
    assert args["raid_config"] == document["target_raid_config"]
    assert ["root"] == [disk["name"] for disk in document["raid_config"]["logical_disks"]]
