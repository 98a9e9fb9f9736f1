"""Static network configuration of the agent, as ramdisks find it: by label, publisher and glean."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from app.api.values import network_data as schema
from drivers.boot import initramfs
from drivers.builtin import HARDWARE_TYPES
from drivers.core.bmc import Bmcs
from drivers.core.errors import InvalidDriverInfo
from drivers.core.registry import load
from drivers.core.steps import Done
from drivers.core.target import Agent, Nic
from drivers.images import files
from drivers.simulator.simulator import running
from tests.support import debian
from tests.unit.drivers.machines import OPTIONS, on, target

MAC = "52:54:00:aa:00:01"
ON_MEDIUM = "/openstack/latest/network_data.json"


def document(**network):
    """network_data of a machine with one link; network: members of its network."""
    link = {"id": "port0", "type": "phy", "ethernet_mac_address": MAC, "mtu": 1500}
    return {
        "links": [link],
        "networks": [{"id": "net0", "network_id": "n", "link": "port0", **network}],
        "services": [{"type": "dns", "address": "192.0.2.53"}],
    }


V4 = document(
    type="ipv4", ip_address="198.51.100.7", netmask="255.255.255.0",
    routes=[{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "198.51.100.1"}],
)  # fmt: skip
V6 = document(
    type="ipv6", ip_address="2001:db8::7", netmask="ffff:ffff:ffff:ffff::",
    routes=[{"network": "::", "netmask": "::", "gateway": "2001:db8::1"}],
)  # fmt: skip
VLAN = {
    **V4,
    "links": [
        *V4["links"],
        {
            "id": "vlan7",
            "type": "vlan",
            "vlan_id": 7,
            "vlan_link": "port0",
            "vlan_mac_address": MAC,
        },
    ],
    "networks": [{**V4["networks"][0], "link": "vlan7"}],
}


@pytest.fixture(scope="module")
def fleet():
    with running(machines=1) as simulator:
        yield simulator


@pytest.fixture
def node(fleet, images, tmp_path):
    """Return a function: makes a node. Its boot interface and fields are the arguments."""
    partition = tmp_path / "esp.img"
    partition.write_bytes(b"a partition")
    changes = {
        "DEFAULT": {
            "isolinux_bin": "/none", "ldlinux_c32": "/none", "esp_image": str(partition),
            "grub_config_path": "EFI/BOOT/grub.cfg",
        },
        "api": {"public_endpoint": "http://service:6385/"},
        "deploy": {
            "http_root": str(tmp_path / "www"), "http_url": "http://conductor:8080",
            "default_boot_mode": "uefi",
        },
        "pxe": {"tftp_root": str(tmp_path / "tftp"), "instance_master_path": str(tmp_path / "kept")},
    }  # fmt: skip
    options = {group: {**values, **changes.get(group, {})} for group, values in OPTIONS.items()}

    def make(boot="redfish-virtual-media", info=(), **fields):
        return target(
            "redfish",
            {"boot": boot},
            load(HARDWARE_TYPES, ["redfish"], bmcs=Bmcs(trip_after=100)),
            options=options,
            driver_info=fleet.machines[0].driver_info()
            | {"deploy_kernel": f"{images.url}/kernel", "deploy_ramdisk": f"{images.url}/ramdisk"}
            | dict(info),
            nics=(Nic("1", MAC),),
            **{"network_data": V4, **fields},
        )

    return make


@pytest.fixture
def program():
    def find(name, package):
        path = debian.provide(lambda: shutil.which(name, path="/usr/bin:/usr/sbin:/bin"), package)
        return path or pytest.skip(f"{name} is missing")

    return find


def medium(node):
    """Path of the image that is made for the node's agent."""
    node = replace(node, reports={})  # those of an earlier flow are recorded
    node.driver.boot.validate(node)
    assert Done() == node.driver.boot.prepare_ramdisk(node)
    (folder,) = files.published_folders(node.options, node.uuid)
    return folder / "boot.iso"


def tags(program, path):
    """Volume label, publisher of an image, as udev reads them, and the command line's publisher."""
    listed = subprocess.run(
        [program("blkid", "util-linux"), "--probe", "--output", "export", path],
        check=True, capture_output=True, text=True, timeout=20,
    ).stdout  # fmt: skip
    probed = dict(line.split("=", 1) for line in listed.splitlines())
    (grub,) = on(path, "/EFI/BOOT/grub.cfg")
    publisher = grub.decode().partition("ir_pub_id=")[2].split()[0]
    return probed["LABEL"], probed.get("PUBLISHER_ID"), publisher


def configured(root):
    """Files that glean writes on a machine with this root."""
    nic = root / "sys/class/net/eth0"
    nic.mkdir(parents=True)
    (nic / "addr_assign_type").write_text("0\n")
    (nic / "address").write_text(f"{MAC}\n")
    return subprocess.run(
        [sys.executable, "-m", "glean.cmd", "--noop", "--distro", "debian", "--interface", "eth0",
         "--root", root],
        check=True, capture_output=True, text=True, timeout=20,
    ).stdout  # fmt: skip


@pytest.mark.parametrize(
    ("network", "lines"),
    [
        (V4, ("iface eth0 inet static", "address 198.51.100.7", "gateway 198.51.100.1")),
        (V6, ("iface eth0 inet6 static", "address 2001:db8::7", "gateway 2001:db8::1")),
        (VLAN, ("iface eth0.7 inet static", "vlan-raw-device eth0", "address 198.51.100.7")),
        ({}, ("iface eth0 inet dhcp",)),
    ],
    ids=["ipv4", "ipv6", "vlan", "none"],
)
@pytest.mark.parametrize("place", ["medium", "ramdisk"])
def test_glean_configures_the_agents_network_from_the_medium_and_from_the_ramdisk(
    node, program, tmp_path, network, lines, place
):
    schema.check(network)
    path, root = medium(node(network_data=network)), tmp_path / "root"
    root.mkdir()
    if place == "ramdisk" and network:
        (archive,) = on(path, "/root-files")
        subprocess.run(
            [program("cpio", "cpio"), "--extract", "--quiet"], input=archive, cwd=root, check=True,
            timeout=20,
        )  # fmt: skip
    elif network:
        (root / "mnt/config/openstack/latest").mkdir(parents=True)
        (root / f"mnt/config{ON_MEDIUM}").write_bytes(*on(path, ON_MEDIUM))
    configuration = configured(root)
    for line in lines:
        assert line in configuration
    assert ("192.0.2.53" in configuration) == bool(network)


@pytest.mark.parametrize("boot", ["redfish-virtual-media", "redfish-https"])
@pytest.mark.parametrize("state", ["deploying", "cleaning", "rescuing", "inspecting", "servicing"])
def test_the_medium_of_each_flow_carries_the_configuration(node, program, boot, state):
    it = node(boot, provision_state=state)
    path = medium(it)
    assert V4 == json.loads(*on(path, ON_MEDIUM))
    label, publisher, argument = tags(program, path)
    assert ("config-2", argument) == (label, publisher)
    (grub,) = on(path, "/EFI/BOOT/grub.cfg")
    assert "initrd /initrd /root-files\n" in grub.decode()


def test_a_medium_without_configuration_is_told_from_a_tenants_config_drive(node, program):
    label, publisher, argument = tags(program, medium(node(network_data={})))
    assert "VMEDIA_BOOT_ISO" == label
    assert publisher == argument
    other = node(network_data={}, agent=Agent(token="another", pregenerated=True))
    assert argument != tags(program, medium(other))[2]


def test_an_inspection_by_dhcp_has_no_configuration(node, program):
    it = node(provision_state="inspecting")
    it = replace(
        it, options={**it.options, "inspector": {**it.options["inspector"], "force_dhcp": True}}
    )
    assert "VMEDIA_BOOT_ISO" == tags(program, medium(it))[0]
    deploying = replace(it, provision_state="deploying")
    assert "config-2" == tags(program, medium(deploying))[0]


def test_a_changed_configuration_makes_another_medium(node):
    it = node(agent=Agent(token="t", pregenerated=True))
    old_medium = medium(it)
    new_medium = medium(replace(it, network_data=V6))
    assert old_medium != new_medium
    assert V6 == json.loads(*on(new_medium, ON_MEDIUM))


@pytest.mark.parametrize(
    ("boot", "info", "complaint"),
    [
        ("pxe", {}, "network_data: boot_interface pxe has no medium for it"),
        ("ipxe", {}, "network_data: boot_interface ipxe has no medium for it"),
        ("http-ipxe", {}, "network_data: boot_interface http-ipxe has no medium for it"),
        *[
            (
                boot,
                {field: "http://x/agent.iso"},
                f"network_data: driver_info/{field} names an image",
            )
            for boot in ("redfish-virtual-media", "redfish-https")
            for field in ("deploy_iso", "rescue_iso", "inspect_iso")
        ],
    ],
)
def test_validation_refuses_a_configuration_that_the_boot_cannot_carry(node, boot, info, complaint):
    it = node(boot, info)
    with pytest.raises(InvalidDriverInfo, match=complaint):
        it.driver.boot.validate(it)
    without = replace(it, network_data={})
    without.driver.boot.validate(without)


def test_cpio_unpacks_an_archive_of_any_names_and_lengths(program, tmp_path):
    content = {"a": b"", "ab/c": b"1", "ab/cd": b"22", "x/y/z/name": b"333", "ü": b"4444"}
    subprocess.run(
        [program("cpio", "cpio"), "--extract", "--quiet", "--no-absolute-filenames"],
        input=initramfs.archive(content), cwd=tmp_path, check=True, timeout=20,
    )  # fmt: skip
    assert content == {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
