"""Inspection by drivers: results of hooks, and inventories from BMCs."""

import pytest

from app.config import settings
from app.config.settings import Settings, SettingsError
from app.inspection import hooks
from app.inspection.process import process
from app.inspection.subject import Subject
from drivers.builtin import HARDWARE_TYPES
from drivers.core.bmc import Bmcs
from drivers.core.errors import InspectionFailed, NotSupported
from drivers.core.registry import load
from drivers.core.target import Material
from drivers.simulator.simulator import running
from tests.unit.drivers.machines import target

OPTIONS = {**Settings().options(), "bmc": {"denied_networks": (), "allowed_networks": ()}}
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


def run(facts, names, options=OPTIONS, ports=(), **plugin_data):
    material = Material(node={"properties": {"capabilities": "a:1"}}, ports=ports)
    subject = Subject.of(material, facts, plugin_data)
    hooks.run(names, subject, options)
    return subject


def test_all_facts_of_an_inventory_become_properties():
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
def test_the_setting_selects_the_interfaces_that_become_ports(add_ports, pxe, names):
    facts = inventory(boot={"pxe_interface": pxe})
    subject = run(facts, ["validate-interfaces"], with_inspector(add_ports=add_ports))
    assert names == list(subject.plugin_data["valid_interfaces"])
    assert ["eth0", "eth1", "eth2"] == list(subject.plugin_data["all_interfaces"])


@pytest.mark.parametrize(
    "reported", ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:80:c2:00:00:0e", "52:54:00:aa:00"]
)
def test_an_agents_interface_without_an_address_of_a_station_gets_no_port(reported):
    facts = inventory(boot={})
    facts["interfaces"][1]["mac_address"] = reported
    subject = run(facts, ["validate-interfaces", "ports"], with_inspector(add_ports="all"))
    assert ["52:54:00:aa:00:02", "52:54:00:aa:00:03"] == [port["address"] for port in subject.ports]
    assert {"eth0", "ib0"} == subject.plugin_data["ignored_interfaces"].keys()


def test_a_report_without_usable_interfaces_names_what_is_wrong_with_each():
    bad = [{"name": "eth0", "mac_address": "00:00:00:00:00:00"}, {"name": "eth1"}]
    with pytest.raises(
        InspectionFailed, match=r"no valid network interface; eth0: .*is all zeros$"
    ):
        run(inventory(interfaces=bad), ["validate-interfaces"])


def test_ports_are_marked_and_those_with_a_vif_are_kept():
    def port(address, **fields):
        return {"uuid": address, "address": address, "extra": {}, "pxe_enabled": True, **fields}

    ports = [port("52:54:00:aa:00:02"), port("52:54:00:aa:00:09", bound=True), port("52:54:00:0a")]
    names = ["validate-interfaces", "ports"]
    subject = run(inventory(), names, with_inspector(keep_ports="added"), ports)
    assert [("52:54:00:aa:00:09", False), ("52:54:00:aa:00:01", True)] == [
        (entry["address"], entry["pxe_enabled"]) for entry in subject.ports
    ]
    assert {"client-id": "ff:01"} == subject.ports[-1]["extra"]
    subject = run(inventory(), names, with_inspector(update_pxe_enabled=False), ports)
    assert [True] * 4 == [entry["pxe_enabled"] for entry in subject.ports]


def test_a_physical_network_is_found_by_addresses():
    options = with_inspector(
        add_ports="all", physical_network_cidr_map=("192.0.2.0/24:one", "fd00::/64:two")
    )
    subject = run(inventory(), ["validate-interfaces", "ports", "physical-network"], options)
    assert ["two", "one", None] == [port.get("physical_network") for port in subject.ports]


def test_the_switch_of_a_port_is_read_from_lldp():
    facts = inventory()
    facts["interfaces"][2]["lldp"] = [[1, "04aabbccddeeff"], [2, "05" + b"Ethernet1/7".hex()],
                                      [5, b"tor-1".hex()], [2, "zz"], [0, ""], [9, "00"]]  # fmt: skip
    raw = {"eth0": [[1, "04aabbccddee01"], [2, "03aabbccddee02"], [5, "ff00"]]}
    names = ["validate-interfaces", "ports", "local-link-connection"]
    subject = run(facts, names, with_inspector(add_ports="all"), lldp_raw=raw)
    assert [
        {"switch_id": "aa:bb:cc:dd:ee:01", "port_id": "aa:bb:cc:dd:ee:02"},
        {"switch_id": "aa:bb:cc:dd:ee:ff", "port_id": "Ethernet1/7", "switch_info": "tor-1"},
        None,
    ] == [port.get("local_link_connection") for port in subject.ports]


def test_all_lldp_values_are_kept_by_name():
    """The packet has values of every kind; some are repeated, truncated or invalid."""
    dot1, dot3 = "0080c2", "00120f"
    packet = [
        [1, "0501c0000201"], [2, "05" + b"Ethernet1/7".hex()], [3, "0078"], [4, b"uplink".hex()],
        [5, b"tor-1".hex()], [5, b"other".hex()], [6, b"Switch OS\n1.0".hex()], [7, "00140004"],
        [8, "0501c0000201020000000100"], [8, "11020" + "0" * 30 + "1"], [8, "0501c0"],
        [127, dot1 + "010064"], [127, dot1 + "02060065"], [127, dot1 + "02060066"],
        [127, dot1 + "03006404" + b"vlan".hex()], [127, dot1 + "04020800"], [127, dot1 + "060005"],
        [127, dot1 + "070300000009"], [127, dot3 + "010300" + "030010"], [127, dot3 + "0405dc"],
        [127, dot3 + "0103000103e7"], [127, "ffffff01"], [127, ""], [0, ""], [99, "00"], "nonsense",
    ]  # fmt: skip
    facts = inventory()
    subject = run(facts, ["parse-lldp"], lldp_raw={"eth0": packet, "eth1": [], "gone": packet})
    assert {"eth0"} == set(subject.plugin_data["parsed_lldp"])
    assert {
        "switch_chassis_id": "192.0.2.1",
        "switch_port_id": "Ethernet1/7",
        "switch_port_description": "uplink",
        "switch_system_name": "tor-1",
        "switch_system_description": "Switch OS\n1.0",
        "switch_capabilities_support": ["Bridge", "Router"],
        "switch_capabilities_enabled": ["Bridge"],
        "switch_mgmt_addresses": ["192.0.2.1", "::1"],
        "switch_port_untagged_vlan_id": 100,
        "switch_port_protocol_vlan_enabled": True,
        "switch_port_protocol_vlan_support": True,
        "switch_port_protocol_vlan_ids": [101, 102],
        "switch_port_vlans": [{"name": "vlan", "id": 100}],
        "switch_protocol_identities": ["0800"],
        "switch_port_management_vlan_id": 5,
        "switch_port_link_aggregation_enabled": True,
        "switch_port_link_aggregation_support": True,
        "switch_port_link_aggregation_id": 9,
        "switch_port_autonegotiation_enabled": True,
        "switch_port_autonegotiation_support": True,
        "switch_port_physical_capabilities": ["1000BASE-T fdx", "1000BASE-T hdx"],
        "switch_port_mau_type": "100BASE-TX full duplex",
        "switch_port_mtu": 1500,
    } == subject.plugin_data["parsed_lldp"]["eth0"]


T4 = {"vendor_id": "10de", "product_id": "1eb8", "bus": "0000:3b:00.0"}
OTHER = {"vendor_id": "8086", "product_id": "1572", "bus": "0000:3c:00.0"}


def test_pci_devices_become_capabilities_and_accelerators(tmp_path):
    options = with_inspector(pci_device_alias=("8086:1572:x710", "8086:9999:none"))
    hooks_of_pci = ["pci-devices", "accelerators"]
    for subject in (
        run(inventory(), hooks_of_pci, options, pci_devices=[T4, OTHER, OTHER]),
        run(inventory(pci_devices=[T4, OTHER, OTHER]), hooks_of_pci, options),
    ):
        assert {
            "capabilities": "a:1,x710:2",
            "accelerators": [
                {"vendor_id": "10de", "device_id": "1eb8", "type": "GPU",
                 "device_info": "NVIDIA Corporation Tesla T4", "pci_address": "0000:3b:00.0"},
            ],
        } == subject.node["properties"]  # fmt: skip
    listed = tmp_path / "known.yaml"
    listed.write_text("pci_devices: [{vendor_id: '8086', device_id: '1572', type: NIC}]")
    options = with_inspector(known_accelerators=str(listed))
    subject = run(inventory(), ["accelerators"], options, pci_devices=[T4, OTHER])
    assert ["NIC"] == [
        accelerator["type"] for accelerator in subject.node["properties"]["accelerators"]
    ]
    assert "accelerators" not in run(inventory(), ["accelerators"]).node["properties"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("pci_device_alias", "10de:1eb8", "vendor:product:name"),
        ("known_accelerators", "/nowhere.yaml", "cannot be read"),
        ("known_accelerators", "{here}/none.yaml", "no list pci_devices"),
        ("known_accelerators", "{here}/half.yaml", "lacks vendor_id or device_id"),
    ],
)
def test_device_files_of_settings_are_checked_at_start(tmp_path, name, value, message):
    (tmp_path / "none.yaml").write_text("[]")
    (tmp_path / "half.yaml").write_text("pci_devices: [{vendor_id: '8086'}]")
    variable = f"INGOT_INSPECTOR_{name.upper()}"
    with pytest.raises(SettingsError, match=message) as caught:
        settings.load({variable: value.format(here=tmp_path)})
    assert variable in str(caught.value)


@pytest.mark.parametrize(
    ("data", "strict", "extra", "remainder"),
    [
        ([["cpu", "physical_0", "cores", "4"], ["cpu", "physical_0", "model", "x"]], True,
         {"cpu": {"physical_0": {"cores": 4, "model": "x"}}}, None),
        ([["cpu", "physical_0", "cores", 4], ["short"], []], False,
         {"cpu": {"physical_0": {"cores": 4}}}, None),
        ([["cpu", "physical_0", "cores", 4], ["short"]], True, None, None),
        ("nonsense", False, None, "nonsense"),
        (None, True, None, None),
    ],
)  # fmt: skip
def test_facts_of_hardware_detect_are_nested_for_rules(data, strict, extra, remainder):
    plugin_data = {} if data is None else {"data": data}
    subject = run(
        inventory(), ["extra-hardware"], with_inspector(extra_hardware_strict=strict), **plugin_data
    )
    assert (extra, remainder) == (subject.plugin_data.get("extra"), subject.plugin_data.get("data"))


@pytest.mark.parametrize(
    ("earlier_serials", "serials", "properties", "root"),
    [
        (None, ["a"], {}, None),
        (["a"], ["a", "b"], {}, {"serial": "b"}),
        (["a"], ["b", "c"], {}, None),
        (["a"], ["a"], {}, None),
        (["a"], ["a", "b"], {"root_device": {"name": "/dev/sda"}}, {"name": "/dev/sda"}),
    ],
)
def test_the_new_disk_of_a_raid_is_the_root_device(earlier_serials, serials, properties, root):
    def disks(names):
        return {"disks": [{"serial": name} for name in names] + [{"name": "/dev/x"}]}

    earlier = None if earlier_serials is None else disks(earlier_serials)
    subject = Subject.of(
        Material(node={"properties": properties}, before=earlier), disks(serials), {}
    )
    hooks.run(["raid-device"], subject, OPTIONS)
    assert root == subject.node["properties"].get("root_device")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"interfaces": []}, "no valid network interface"),
        ({"boot": {"pxe_interface": "52:54:00:aa:00:99"}}, r"add_ports = pxe: .* eth0"),
        ({"cpu": {}}, "architecture"),
        ({"memory": None}, "memory"),
        ({"disks": ["nonsense"]}, "hook root-device cannot read the inventory"),
    ],
)
def test_a_missing_part_fails_the_inspection(parts, message):
    with pytest.raises(InspectionFailed, match=message):
        run(inventory(**parts), [name for name in ALL if name != "cpus"])


def test_an_error_reported_by_the_ramdisk_fails_the_inspection():
    with pytest.raises(InspectionFailed, match="no disk"):
        run(inventory(), ["ramdisk-error"], error="no disk")


def test_local_gb_is_the_size_of_the_agents_root_disk():
    disk = {"size": 50 * GIB}
    assert 49 == run(inventory(), ["root-device"], root_disk=disk).node["properties"]["local_gb"]
    assert 0 == run(inventory(disks=[]), ["root-device"]).node["properties"]["local_gb"]


@pytest.mark.parametrize(
    ("names", "message"),
    [(("odd",), "no hook 'odd'"), (("ports", "validate-interfaces"), "needs validate-interfaces")],
)
def test_hooks_that_cannot_be_run_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        hooks.check(names)


# Out of band


@pytest.fixture(scope="module")
def simulator():
    with running(machines=1) as simulator:
        yield simulator


def test_a_bmc_reports_the_hardware_of_a_machine_that_is_off(simulator):
    machine = simulator.machines[0]
    it = target(
        "redfish",
        registry=load(HARDWARE_TYPES, ["redfish"], bmcs=Bmcs()),
        driver_info=machine.driver_info(),
        options=OPTIONS,
        material=Material(node={"uuid": machine.uuid, "properties": {"owner": "me"}}),
    )
    it.driver.inspect.inspect_hardware(it)
    process(it)
    findings = it.reports["findings"]
    assert {
        "owner": "me", "cpus": 8, "memory_mb": 32 * 1024, "cpu_arch": "x86_64",
        "local_gb": 893, "capabilities": "boot_mode:uefi",
    } == findings.node["properties"]  # fmt: skip
    assert list(machine.macs) == [port["address"] for port in findings.ports]
    cpu = {"count": 8, "socket_count": 1, "model_name": "Simulated CPU", "frequency": 2400}
    assert {**cpu, "architecture": "x86_64"} == findings.inventory["cpu"]
    assert [960 * 10**9] * 4 == [disk["size"] for disk in findings.inventory["disks"]]
    assert "SIM-0000" == findings.inventory["system_vendor"]["serial_number"]
    assert "Off" == machine.power
    assert list(machine.macs) == it.driver.management.mac_addresses(it)


def test_no_inspect_does_not_validate():
    it = target(interfaces={"inspect": "no-inspect"})
    with pytest.raises(NotSupported):
        it.driver.inspect.validate(it)
