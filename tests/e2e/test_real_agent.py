"""
The real ironic-python-agent through the life of a machine. Each test continues after the last one.

The agent's work is checked on the machine's disk, a file.
"""

import hashlib
import json
import os
import shutil
import struct
import subprocess
import tarfile
from datetime import datetime
from pathlib import Path

import pytest

from tests.e2e import bare_metal, real_agent
from tests.support import debian
from tests.support.fleet import Fleet, until
from tests.support.prerequisites import not_run

#: Seconds for a verb: the agent starts a hundred programs for a RAID.
PATIENCE = 240
#: Seconds of the measured step.
WORK = 6.0
SECTOR = 512
SETTINGS = {
    "INGOT_INSPECTOR_HOOKS": "ramdisk-error,validate-interfaces,ports,architecture,cpus,memory,"
    "root-device",
    "INGOT_API_RAMDISK_HEARTBEAT_TIMEOUT": "60",
    "INGOT_AGENT_ENABLE_BIOS_BOOTLOADER_INSTALL": "true",
    "INGOT_CONDUCTOR_CLEAN_CALLBACK_TIMEOUT": "45",
    "INGOT_CONDUCTOR_DEPLOY_CALLBACK_TIMEOUT": "45",
    "INGOT_CONDUCTOR_RESCUE_CALLBACK_TIMEOUT": "45",
    "INGOT_CONDUCTOR_SERVICE_CALLBACK_TIMEOUT": "45",
}


def disk_image(system):
    """4 MiB with a partition table of one partition, filled with a system's name."""
    entry = struct.pack("<B3xB3xII", 0x80, 0x83, 2048, 6144)
    head = b"\0" * 446 + entry + b"\0" * 48 + b"\x55\xaa"
    return head.ljust(1 << 20, b"\0") + (system * (3 << 20))[: 3 << 20]


ROOT_VOLUME = {"size_gb": 3, "raid_level": "1", "controller": "software", "is_root_volume": True}
DATA_VOLUME = {"size_gb": "MAX", "raid_level": "1", "controller": "software"}
WHOLE_VOLUME = {**ROOT_VOLUME, "size_gb": "MAX"}
FIRST, SECOND = disk_image(b"first system "), disk_image(b"second system ")


@pytest.fixture(scope="module")
def enrolled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real-agent")
    with (
        bare_metal.running(folder, real_agent.RealMachine()) as machine,
        Fleet(folder, conductors=1, **SETTINGS) as fleet,
    ):
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "latest"
        machine.api_url = fleet.url
        machine.files |= {"/first.raw": FIRST, "/second.raw": SECOND, "/inspect.iso": b"medium"}
        driver_info = {
            "redfish_address": machine.bmc_url,
            "redfish_system_id": f"/redfish/v1/Systems/{bare_metal.UUID}",
            "redfish_username": "admin",
            "redfish_password": "secret",
            "deploy_iso": f"{machine.url}/agent.iso",
            "inspect_iso": f"{machine.url}/inspect.iso",
        }
        interfaces = {f"{kind}_interface": "agent" for kind in ("inspect", "raid", "rescue")}
        bios = {"capabilities": "boot_mode:bios"}  # its partition tables are of the kind MBR
        body = {"driver": "redfish", "driver_info": driver_info, "properties": bios, **interfaces}
        node = fleet.http.post(f"{fleet.url}/v1/nodes", json=body).json()["uuid"]
        port = {"node_uuid": node, "address": bare_metal.MAC}
        assert 201 == fleet.http.post(f"{fleet.url}/v1/ports", json=port).status_code
        yield Enrolled(fleet, machine, node)


@pytest.fixture(scope="module")
def qemu_img():
    program = debian.provide(lambda: shutil.which("qemu-img"), "qemu-utils")
    if program is None:
        not_run("qemu-img")
    return program


class Enrolled:
    """A node and its machine."""

    def __init__(self, fleet, machine, node):
        self.fleet, self.machine, self.node = fleet, machine, node

    def ask(self, verb, **arguments):
        path = f"{self.fleet.url}/v1/nodes/{self.node}/states/provision"
        answer = self.fleet.http.put(path, json={"target": verb, **arguments}, timeout=30)
        assert 202 == answer.status_code, answer.text

    def reach(self, verb, state, **arguments):
        """Request a verb, and wait until the node is in a state; return the operation."""
        self.ask(verb, **arguments)
        until(lambda: self.is_there(state), f"{verb} of {self.node}", PATIENCE)
        newest = self.fleet.get(f"nodes/{self.node}/operations")["operations"][0]["uuid"]
        return self.fleet.get(f"operations/{newest}")

    def is_there(self, state):
        now = self.show()
        assert not now["last_error"] or "failed" not in now["provision_state"], (
            f"{now['last_error']}\n{self.machine.log()[-8000:]}"
        )
        return now["provision_state"] == state

    def show(self):
        return self.fleet.get(f"nodes/{self.node}")

    def set(self, **fields):
        patch = [
            {"op": "add", "path": f"/{name}", "value": value} for name, value in fields.items()
        ]
        answer = self.fleet.http.patch(f"{self.fleet.url}/v1/nodes/{self.node}", json=patch)
        assert 200 == answer.status_code, answer.text

    def on_disk(self, start, length, disk=0):
        with self.machine.disks[disk].open("rb") as file:
            file.seek(start)
            return file.read(length)

    def partition(self, number, table=0, disk=0):
        """
        Size of a partition, and the content of its first MiBs.

        table: first byte of the table of partitions, and of the space that it divides.
        """
        entry = self.on_disk(table + 446 + 16 * (number - 1), 16, disk)
        start, sectors = struct.unpack_from("<II", entry, 8)
        size = sectors * SECTOR
        return size, self.on_disk(table + start * SECTOR, min(size, 4 << 20), disk)

    def meta_data(self, **fields):
        """Content of meta_data.json with these fields; it names the node."""
        return json.dumps({"uuid": self.node, **fields}).encode()

    def build_raid(self, volumes, *other_steps):
        """Replace the RAID volumes in manual cleaning, with more steps; return the operation."""
        path = f"{self.fleet.url}/v1/nodes/{self.node}/states/raid"
        answer = self.fleet.http.put(path, json={"logical_disks": volumes}, timeout=30)
        assert 204 == answer.status_code, answer.text
        names = ("delete_configuration", "create_configuration")
        steps = [{"interface": "raid", "step": name} for name in names]
        return self.reach("clean", "manageable", clean_steps=[*steps, *other_steps])

    def volumes(self):
        """Names of the RAID volumes in the superblocks on the disks."""
        output = self.machine.program("mdadm", "--examine", "--scan")
        return [line.rpartition(":")[2] for line in output.splitlines()]


def in_band(operation):
    return [step["step"] for step in operation["steps"] if step["in_band"]]


def took(step):
    started, finished = (datetime.fromisoformat(step[at]) for at in ("started_at", "finished_at"))
    return (finished - started).total_seconds()


def instance(machine, path, content):
    return {
        "image_source": f"{machine.url}{path}",
        "image_os_hash_algo": "sha256",
        "image_os_hash_value": hashlib.sha256(content).hexdigest(),
    }


@pytest.mark.parametrize(
    ("devices", "user", "complaint"),
    [
        ("[Path('/dev/null')]", real_agent.user(), "this user can open /dev/null"),
        ("[]", {}, "must not run as root"),
    ],
)
def test_the_agent_does_not_start_where_it_could_open_a_disk(devices, user, complaint):
    if not user and os.geteuid() != 0 and "root" in complaint:
        not_run("a process of root's")
    program = (real_agent.HOST / "confined.py").read_text().partition("if __name__")[0]
    program += f"dangerous_devices = lambda: {devices}\nconfine()\n"
    process = subprocess.run(
        [real_agent.interpreter(), "-c", program], check=False, capture_output=True, text=True,
        cwd="/", **user,
    )  # fmt: skip
    assert 1 == process.returncode
    assert complaint in process.stderr


def test_inspection_stores_the_inventory_and_sets_properties_from_it(enrolled):
    enrolled.reach("manage", "manageable")
    operation = enrolled.reach("inspect", "manageable")
    assert "inspect.await_report" in {f"{s['interface']}.{s['step']}" for s in operation["steps"]}
    node = enrolled.show()
    assert {
        "cpu_arch": "x86_64", "cpus": 1, "memory_mb": 1024, "local_gb": 4,
        "vendor": "Sushy Emulator", "capabilities": "boot_mode:bios",
    } == node["properties"]  # fmt: skip
    assert ("power off", None) == (node["power_state"], node["inspection_started_at"])
    document = enrolled.fleet.get(f"nodes/{enrolled.node}/inventory")
    assert [bare_metal.MAC] == [nic["mac_address"] for nic in document["inventory"]["interfaces"]]
    assert [real_agent.DISK_SIZE] * 2 == [disk["size"] for disk in document["inventory"]["disks"]]
    assert [{"name": "file_machine", "version": "1"}] == document["plugin_data"]["configuration"][
        "managers"
    ]
    assert ["eth0"] == list(document["plugin_data"]["valid_interfaces"])
    ports = enrolled.fleet.get(f"nodes/{enrolled.node}/ports?detail=true")["ports"]
    assert [(bare_metal.MAC, True)] == [(port["address"], port["pxe_enabled"]) for port in ports]


def test_an_agent_whose_report_was_refused_is_asked_for_it(enrolled):
    enrolled.machine.reports_to = enrolled.machine.url
    enrolled.reach("inspect", "manageable")
    enrolled.machine.reports_to = None
    document = enrolled.fleet.get(f"nodes/{enrolled.node}/inventory")
    assert [bare_metal.MAC] == [nic["mac_address"] for nic in document["inventory"]["interfaces"]]
    assert "1024" == str(document["inventory"]["memory"]["physical_mb"])
    assert "configuration" not in document["plugin_data"], "only reports have it"


def test_manual_cleaning_builds_raid_and_detects_the_end_of_a_step_at_once(enrolled):
    burn_in = {"interface": "deploy", "step": "burn_in", "args": {"seconds": WORK}}
    operation = enrolled.build_raid([WHOLE_VOLUME], burn_in)
    cleaned = [step for step in operation["steps"] if step["flow"] == "clean"]
    assert ["delete_configuration", "create_configuration", "burn_in"] == [
        step["step"] for step in cleaned
    ]
    assert [WHOLE_VOLUME] == enrolled.show()["raid_config"]["logical_disks"]
    assert ["md0"] == enrolled.volumes()
    late = took(cleaned[-1]) - WORK
    print(f"the end of an in-band step of {WORK:g} s was detected {late:.2f} s later")
    assert late <= max(1.0, 0.02 * WORK)


def test_automated_cleaning_erases_the_disk_and_on_the_fast_track_leaves_the_agent_running(
    enrolled,
):
    enrolled.set(**{"driver_info/fast_track": True})
    for path in enrolled.machine.disks:
        with path.open("r+b") as disk:
            disk.write(b"the former tenant")
    operation = enrolled.reach("provide", "available")
    assert ["erase_devices_metadata", "erase_devices"] == in_band(operation)
    assert [bytes(17)] * 2 == [enrolled.on_disk(0, 17, disk) for disk in (0, 1)]
    assert [] == enrolled.volumes()
    assert ("power on", None) == (enrolled.show()["power_state"], enrolled.machine.agent.poll())


def test_direct_deployment_writes_image_config_drive_and_the_result_of_a_custom_step(enrolled):
    enrolled.set(instance_info=instance(enrolled.machine, "/first.raw", FIRST))
    drive = {"meta_data": {"name": "rack1-u7"}, "user_data": "#!/bin/sh\n"}
    operation = enrolled.reach("active", "active", configdrive=drive)
    enrolled.set(**{"driver_info/fast_track": False})
    assert "prepare_ramdisk" not in {step["step"] for step in operation["steps"]}
    assert ["sign_disk"] == in_band(operation)
    system = slice(1 << 20, 4 << 20)
    assert sha256(FIRST[system]) == sha256(enrolled.on_disk(1 << 20, 3 << 20))
    assert FIRST[:462] == enrolled.on_disk(0, 462)
    assert enrolled.node.encode() == enrolled.on_disk(512, 36)
    _, content = enrolled.partition(2)
    assert b"config-2" == content[16 * 2048 + 40 :][:8]
    assert enrolled.meta_data(name="rack1-u7") in content
    assert "power on" == enrolled.show()["power_state"]


def test_a_wrong_checksum_is_reported_with_its_image(enrolled):
    wrong = instance(enrolled.machine, "/second.raw", FIRST)
    enrolled.set(instance_info=wrong)
    enrolled.ask("rebuild")
    enrolled.fleet.await_state([enrolled.node], "deploy failed")
    error = enrolled.show()["last_error"]
    assert wrong["image_source"] in error
    assert wrong["image_os_hash_value"] in error
    newest = enrolled.fleet.get(f"nodes/{enrolled.node}/operations")["operations"][0]["uuid"]
    steps = enrolled.fleet.get(f"operations/{newest}")["steps"]
    (log_path,) = [step["result"]["logs"] for step in steps if step["step"] == "keep_logs"]
    with tarfile.open(log_path) as archive:
        assert "agent.log" in {Path(name).name for name in archive.getnames()}


def test_rebuild_writes_another_image_of_another_format(enrolled, qemu_img, tmp_path):
    path = tmp_path / "second.raw"
    path.write_bytes(SECOND)
    converted = path.with_suffix(".qcow2")
    subprocess.run(
        [qemu_img, "convert", "-f", "raw", "-O", "qcow2", path, converted], check=True, timeout=30
    )
    content = enrolled.machine.files["/second.qcow2"] = converted.read_bytes()
    enrolled.set(instance_info=instance(enrolled.machine, "/second.qcow2", content))
    enrolled.reach("rebuild", "active")
    assert sha256(SECOND[1 << 20 :]) == sha256(enrolled.on_disk(1 << 20, 3 << 20))


def test_a_partition_image_gets_a_table_swap_and_config_drive(enrolled):
    system = enrolled.machine.files["/part.raw"] = b"a system of one partition ".ljust(
        3 << 20, b"."
    )
    parts = {"image_type": "partition", "root_gb": 1, "swap_mb": 16}
    enrolled.set(instance_info={**instance(enrolled.machine, "/part.raw", system), **parts})
    enrolled.reach("rebuild", "active", configdrive={"meta_data": {"name": "rack1-u7"}})
    sizes, (_, drive, root) = zip(*map(enrolled.partition, (1, 2, 3)), strict=True)
    assert (16 << 20, 1 << 20, 1 << 30) == sizes
    assert enrolled.meta_data(name="rack1-u7") in drive
    assert sha256(system) == sha256(root[: len(system)])


def test_service_runs_a_step_of_the_agents_beside_the_instance(enrolled):
    content = enrolled.on_disk(0, 4 << 20)
    steps = [{"interface": "deploy", "step": "burn_in", "args": {"seconds": 0.1}}]
    operation = enrolled.reach("service", "active", service_steps=steps)
    assert ["burn_in"] == in_band(operation)
    assert content == enrolled.on_disk(0, 4 << 20)


def test_rescue_sets_a_password_and_unrescue_boots_the_instance(enrolled):
    enrolled.reach("rescue", "rescue", rescue_password="open sesame")
    password = (enrolled.machine.folder / "rescue-password").read_text()
    assert password.startswith("$5$")
    enrolled.reach("unrescue", "active")


def test_undeployment_erases_the_disk(enrolled):
    enrolled.reach("deleted", "available")
    assert bytes(4 << 20) == enrolled.on_disk(0, 4 << 20)
    assert "power off" == enrolled.show()["power_state"]


def test_an_agent_without_the_deploy_extension_writes_image_and_config_drive(enrolled):
    enrolled.machine.lacks = ("deploy",)
    enrolled.set(instance_info=instance(enrolled.machine, "/first.raw", FIRST))
    drive = {"meta_data": {"name": "rack1-u7"}}
    operation = enrolled.reach("active", "active", configdrive=drive)
    assert "Extension deploy not found" in enrolled.machine.log()
    assert [] == in_band(operation)
    assert sha256(FIRST[1 << 20 :]) == sha256(enrolled.on_disk(1 << 20, 3 << 20))
    _, content = enrolled.partition(2)
    assert enrolled.meta_data(name="rack1-u7") in content
    enrolled.reach("deleted", "available")
    enrolled.machine.lacks = ()


def raid_step(*disks, **arguments):
    """A deploy step that builds RAID volumes before the image is written."""
    return {
        "interface": "raid", "step": "apply_configuration", "priority": 90,
        "args": {"raid_config": {"logical_disks": list(disks)}, **arguments},
    }  # fmt: skip


#: First bytes on both disks of the content of the first and of the second volume.
CONTENTS = (2048 * SECTOR + (1 << 20), (3 << 30) + (1 << 20))


def test_raid_of_a_deployment_is_built_and_the_image_is_written_to_its_root_volume(enrolled):
    enrolled.set(
        instance_info={
            **instance(enrolled.machine, "/first.raw", FIRST),
            "image_rootfs_uuid": "00000000-01",
        }
    )
    loaders = enrolled.machine.folder / "boot-loaders"
    loaders.unlink(missing_ok=True)  # of the test with a partition image
    volumes = [ROOT_VOLUME, DATA_VOLUME]
    drive = {"meta_data": {"name": "rack1-u7"}}
    operation = enrolled.reach(
        "active", "active", deploy_steps=[raid_step(*volumes)], configdrive=drive
    )
    assert ["apply_configuration", "sign_disk"] == in_band(operation)
    assert volumes == enrolled.show()["raid_config"]["logical_disks"]
    assert ["md0", "md1"] == enrolled.volumes()
    (write_step,) = [step for step in operation["steps"] if step["step"] == "write_image"]
    assert f"written to device {enrolled.machine.folder}/dev/md0" in str(write_step["result"])
    for disk in (0, 1):
        system, data = CONTENTS
        assert FIRST[:462] == enrolled.on_disk(system, 462, disk)
        content = enrolled.on_disk(system + (1 << 20), 3 << 20, disk)
        assert sha256(FIRST[1 << 20 :]) == sha256(content)
        assert enrolled.meta_data(name="rack1-u7") in enrolled.partition(2, system, disk)[1]
        assert bytes(4 << 20) == enrolled.on_disk(data, 4 << 20, disk)
    assert ["diska", "diskb"] == sorted(loaders.read_text().split())
    enrolled.reach("deleted", "available")
    assert [] == enrolled.volumes()


def test_a_raid_that_the_agent_cannot_build_fails_the_deployment_with_its_reason(enrolled):
    """Volumes of manual cleaning are in the way, and the step may not delete them."""
    enrolled.reach("manage", "manageable")
    enrolled.build_raid([WHOLE_VOLUME])
    enrolled.set(automated_clean=False)
    enrolled.reach("provide", "available")
    enrolled.set(instance_info=instance(enrolled.machine, "/first.raw", FIRST))
    enrolled.ask("active", deploy_steps=[raid_step(ROOT_VOLUME, delete_existing=False)])
    enrolled.fleet.await_state([enrolled.node], "deploy failed")
    failed = enrolled.show()
    assert "Partitions detected on devices /dev/diska, /dev/diskb" in failed["last_error"]
    assert [WHOLE_VOLUME] == failed["raid_config"]["logical_disks"]
    assert ["md0"] == enrolled.volumes()
    enrolled.reach("deleted", "available")


def test_the_image_is_written_to_the_volume_that_cleaning_built_and_the_next_agent_assembles(
    enrolled,
):
    enrolled.set(instance_info=instance(enrolled.machine, "/second.raw", SECOND))
    operation = enrolled.reach("active", "active")
    (write_step,) = [step for step in operation["steps"] if step["step"] == "write_image"]
    assert f"written to device {enrolled.machine.folder}/dev/md127" in str(write_step["result"])
    for disk in (0, 1):
        assert SECOND[:462] == enrolled.on_disk(CONTENTS[0], 462, disk)
    enrolled.set(automated_clean=True)
    enrolled.reach("deleted", "available")
    assert [] == enrolled.volumes()


def sha256(content):
    return hashlib.sha256(content).hexdigest()
