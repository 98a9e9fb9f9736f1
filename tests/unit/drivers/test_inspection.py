"""Inspection by drivers: what hooks make of an inventory, and what a BMC tells."""

import pytest

from app.settings import Settings
from drivers.bmc import Bmcs
from drivers.errors import InspectionFailed, NotSupported
from drivers.inspection import hooks
from drivers.inspection.subject import Material, Subject
from drivers.registry import load
from drivers.simulator.simulator import running
from tests.unit.drivers.machines import target

OPTIONS = Settings().options()
ALL = (
    "ramdisk-error", "validate-interfaces", "ports", "architecture", "cpus", "memory",
    "root-device", "boot-mode", "cpu-capabilities", "physical-network",
)  # fmt: skip
GIB = 1 << 30


def inventory(**parts):
    return {
        "interfaces": [
            {"name": "lo", "mac_address": "00:00:00:00:00:00", "ipv4_address": "127.0.0.1"},
            {"name": "eth0", "mac_address": "52:54:00:AA:00:01", "ipv6_address": "fd00::5%eth0",
             "client_id": "ff:01"},
            {"name": "eth1", "mac_address": "52:54:00:aa:00:02", "ipv4_address": "192.0.2.5"},
            {"name": "eth2", "mac_address": "52:54:00:aa:00:03"},
            {"name": "ib0", "mac_address": "not one"},
            {"mac_address": "52:54:00:aa:00:04"},
        ],
        "cpu": {"architecture": "x86_64", "count": 8, "flags": ["aes", "vmx", "odd"]},
        "memory": {"physical_mb": 4096},
        "disks": [{"name": "/dev/sda", "size": 100 * GIB}, {"name": "/dev/sdb", "size": 2 * GIB}],
        "boot": {"pxe_interface": "52:54:00:aa:00:01", "current_boot_mode": "uefi"},
        **parts,
    }  # fmt: skip


def with_inspector(**values):
    return {**OPTIONS, "inspector": {**OPTIONS["inspector"], **values}}


def run(found, names, options=OPTIONS, ports=(), **plugin_data):
    material = Material(node={"properties": {"capabilities": "a:1"}}, ports=ports)
    subject = Subject.of(material, found, plugin_data)
    hooks.run(names, subject, options)
    return subject


def test_everything_that_is_told_becomes_properties():
    subject = run(inventory(), ALL)
    assert {
        "cpu_arch": "x86_64", "cpus": 8, "memory_mb": 4096, "local_gb": 99,
        "capabilities": "a:1,boot_mode:uefi,cpu_vt:true,cpu_aes:true",
    } == subject.node["properties"]  # fmt: skip


@pytest.mark.parametrize(
    ("add_ports", "pxe", "names"),
    [
        ("pxe", "52:54:00:aa:00:01", ["eth0"]),
        ("pxe", "01-52-54-00-aa-00-01", ["eth0"]),
        ("pxe", None, ["eth0", "eth1", "eth2"]),
        ("active", None, ["eth0", "eth1"]),
        ("all", "52:54:00:aa:00:01", ["eth0", "eth1", "eth2"]),
        ("disabled", "52:54:00:aa:00:01", ["eth0", "eth1", "eth2"]),
    ],
)
def test_interfaces_that_are_to_become_ports(add_ports, pxe, names):
    found = inventory(boot={"pxe_interface": pxe})
    subject = run(found, ["validate-interfaces"], with_inspector(add_ports=add_ports))
    assert names == list(subject.plugin_data["valid_interfaces"])
    assert ["lo", "eth0", "eth1", "eth2"] == list(subject.plugin_data["all_interfaces"])


def test_ports_are_marked_and_those_with_a_vif_are_kept():
    def port(address, **more):
        return {"uuid": address, "address": address, "extra": {}, "pxe_enabled": True, **more}

    ports = [port("52:54:00:aa:00:02"), port("52:54:00:aa:00:09", bound=True), port("52:54:00:0a")]
    names = ["validate-interfaces", "ports"]
    subject = run(inventory(), names, with_inspector(keep_ports="added"), ports)
    assert [("52:54:00:aa:00:09", False), ("52:54:00:aa:00:01", True)] == [
        (each["address"], each["pxe_enabled"]) for each in subject.ports
    ]
    assert {"client-id": "ff:01"} == subject.ports[-1]["extra"]
    subject = run(inventory(), names, with_inspector(update_pxe_enabled=False), ports)
    assert [True] * 4 == [each["pxe_enabled"] for each in subject.ports]


def test_a_physical_network_is_told_by_addresses():
    options = with_inspector(
        add_ports="all", physical_network_cidr_map=("192.0.2.0/24:one", "fd00::/64:two")
    )
    subject = run(inventory(), ["validate-interfaces", "ports", "physical-network"], options)
    assert ["two", "one", None] == [each.get("physical_network") for each in subject.ports]


def test_the_switch_that_a_port_is_wired_to_is_told_by_lldp():
    found = inventory()
    found["interfaces"][2]["lldp"] = [[1, "04aabbccddeeff"], [2, "05" + b"Ethernet1/7".hex()],
                                      [5, b"tor-1".hex()], [2, "zz"], [0, ""], [9, "00"]]  # fmt: skip
    raw = {"eth0": [[1, "04aabbccddee01"], [2, "03aabbccddee02"], [5, "ff00"]]}
    names = ["validate-interfaces", "ports", "local-link-connection"]
    subject = run(found, names, with_inspector(add_ports="all"), lldp_raw=raw)
    assert [
        {"switch_id": "aa:bb:cc:dd:ee:01", "port_id": "aa:bb:cc:dd:ee:02"},
        {"switch_id": "aa:bb:cc:dd:ee:ff", "port_id": "Ethernet1/7", "switch_info": "tor-1"},
        None,
    ] == [port.get("local_link_connection") for port in subject.ports]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"interfaces": []}, "no valid network interface"),
        ({"boot": {"pxe_interface": "52:54:00:aa:00:99"}}, r"add_ports = pxe .* eth0"),
        ({"cpu": {}}, "architecture"),
        ({"memory": None}, "memory"),
        ({"disks": ["nonsense"]}, "hook root-device cannot read what was found"),
    ],
)
def test_what_is_missing_fails_the_inspection(parts, said):
    with pytest.raises(InspectionFailed, match=said):
        run(inventory(**parts), [name for name in ALL if name != "cpus"])


def test_what_the_ramdisk_says_went_wrong_fails_it():
    with pytest.raises(InspectionFailed, match="no disk"):
        run(inventory(), ["ramdisk-error"], error="no disk")


def test_the_disk_that_the_agent_chose_is_the_one_to_install_on():
    disk = {"size": 50 * GIB}
    assert 49 == run(inventory(), ["root-device"], root_disk=disk).node["properties"]["local_gb"]
    assert 0 == run(inventory(disks=[]), ["root-device"]).node["properties"]["local_gb"]


@pytest.mark.parametrize(
    ("names", "said"),
    [(("odd",), "no hook 'odd'"), (("ports", "validate-interfaces"), "needs validate-interfaces")],
)
def test_hooks_that_cannot_be_run_are_refused(names, said):
    with pytest.raises(ValueError, match=said):
        hooks.check(names)


# Out of band


@pytest.fixture(scope="module")
def simulator():
    with running(machines=1) as simulator:
        yield simulator


def test_a_bmc_tells_what_its_machine_is_made_of_while_that_is_off(simulator):
    machine = simulator.machines[0]
    it = target(
        "redfish",
        registry=load(["redfish"], bmcs=Bmcs()),
        driver_info=machine.driver_info(),
        options=OPTIONS,
        material=Material(node={"uuid": machine.uuid, "properties": {"owner": "me"}}),
    )
    it.driver.inspect.inspect_hardware(it)
    found = it.reports["findings"]
    assert {
        "owner": "me", "cpus": 8, "memory_mb": 32 * 1024, "cpu_arch": "x86_64",
        "local_gb": 99, "capabilities": "boot_mode:uefi",
    } == found.node["properties"]  # fmt: skip
    assert list(machine.macs) == [each["address"] for each in found.ports]
    cpu = {"count": 8, "socket_count": 1, "model_name": "Simulated CPU", "frequency": 2400}
    assert {**cpu, "architecture": "x86_64"} == found.inventory["cpu"]
    assert [960 * 10**9] * 4 + [100 * GIB] == [disk["size"] for disk in found.inventory["disks"]]
    assert "SIM-0000" == found.inventory["system_vendor"]["serial_number"]
    assert "Off" == machine.power
    assert list(machine.macs) == it.driver.management.mac_addresses(it)


def test_no_inspect_does_not_validate():
    it = target(interfaces={"inspect": "no-inspect"})
    with pytest.raises(NotSupported):
        it.driver.inspect.validate(it)
