"""Missing and malformed resources of a BMC: gaps in lists, and errors that name the resource."""

import logging

import pytest

from drivers.core.errors import Busy, NotSupported, Refused, Unexpected
from drivers.core.steps import Done, Flow
from drivers.redfish import inventory, software
from drivers.redfish.transport import client
from drivers.redfish.transport.documents import Documents
from drivers.simulator.redfish_bmc.documents import (
    CHASSIS,
    INVENTORY,
    MANAGER,
    ROOT,
    STORAGE,
    SYSTEM,
)
from tests.unit.drivers.documents import LocalBmc, having, sweep_of, without

ABSENT = having(Status={"State": "Absent"})
CDROM = {"device_type": "cdrom", "image_url": "http://images/a.iso"}


@pytest.fixture
def bmc(monkeypatch):
    return LocalBmc().install(monkeypatch)


@pytest.fixture
def node(bmc):
    return bmc.node()


def inspected(node):
    with client.turn(node, node.driver.power.bmcs) as connection:
        return inventory.read(Documents(connection))


def firmware(node):
    with client.turn(node, node.driver.power.bmcs) as connection:
        return {component["component"]: component for component in software.components(connection)}


def lights(node):
    return {
        (indicator["component"], indicator["name"])
        for indicator in node.driver.management.indicators(node)
    }


def collection(bmc, path, **members):
    """Add a collection of these documents to the BMC."""
    at = path.replace("{id}", bmc.machine.uuid)
    bmc.more[path] = {
        "@odata.id": at, "Name": "c", "Members": [{"@odata.id": f"{at}/{member}"} for member in members],
    }  # fmt: skip
    for name, document in members.items():
        bmc.more[f"{path}/{name}"] = {
            "@odata.id": f"{at}/{name}", "Id": name, "Name": name, **document
        }  # fmt: skip
    return {"@odata.id": at}


def test_absent_sockets_and_bays_are_not_counted(bmc, node):
    whole = inspected(node)
    collection(
        bmc,
        f"{SYSTEM}/Processors",
        CPU1={"ProcessorType": "CPU", "TotalThreads": 16, "Status": {"State": "Enabled"}},
        CPU2={"ProcessorType": "CPU", "Status": {"State": "Absent"}},
    )
    bmc.changes[f"{STORAGE}/Drives/1"] = ABSENT
    bmc.changes[SYSTEM] = having(
        MemorySummary={"TotalSystemMemoryGiB": 32, "Status": {"State": "Absent"}}
    )

    hardware = inspected(node)

    assert (16, 1) == (hardware["cpu"]["count"], hardware["cpu"]["socket_count"])
    assert len(whole["disks"]) - 1 == len(hardware["disks"])
    assert "memory" not in hardware


def test_simple_storage_counts_only_where_there_are_no_drives(bmc, node):
    devices = [
        {"Name": "sda", "CapacityBytes": 1000, "Status": {"State": "Enabled"}},
        {"Name": "sdb", "CapacityBytes": 2000, "Status": {"State": "Absent"}},
    ]
    bmc.changes[f"{SYSTEM}/SimpleStorage/0"] = having(Devices=devices)
    serials = [f"SIM-0000-{index}" for index in range(4)]
    assert serials == [disk.get("serial") for disk in inspected(node)["disks"]]
    bmc.changes[STORAGE] = having(Drives=[])
    assert [{"name": "sda", "size": 1000}] == inspected(node)["disks"]


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (f"{SYSTEM}/Storage", having(Members=None)),
        (f"{SYSTEM}/Storage", having(Members={})),
        (f"{SYSTEM}/Storage", None),
        (STORAGE, None),
        (STORAGE, having(Drives=None)),
        (f"{STORAGE}/Drives/1", None),
        (f"{STORAGE}/Drives/1", having(CapacityBytes="much")),
    ],
)
def test_a_missing_or_malformed_storage_resource_is_skipped(bmc, node, caplog, path, change):
    bmc.changes[path] = change
    with caplog.at_level(logging.WARNING, "drivers.redfish"):
        hardware = inspected(node)
    logged = [record for record in caplog.records if record.msg == "redfish.resource_skipped"]

    expected = 3 if "Drives" in path else 1  # without drives, that of SimpleStorage
    assert (8, expected) == (hardware["cpu"]["count"], len(hardware["disks"]))
    if change is None:
        assert [bmc.machine.redfish_address + path.replace("{id}", bmc.machine.uuid)] == [
            record.url for record in logged
        ]
    assert {("system", "led"), ("chassis", "Chassis")} <= lights(node)


def test_a_collection_without_members_is_empty(bmc, node):
    bmc.changes[f"{SYSTEM}/Storage"] = without("Members")
    assert 1 == len(inspected(node)["disks"])


def test_a_missing_chassis_leaves_the_other_indicators(bmc, node):
    bmc.changes[CHASSIS] = None
    assert {"system", "disk"} == {component for component, _ in lights(node)}


def _sensors(bmc, **documents):
    """Give the chassis a collection of sensors in place of its Thermal and Power resources."""
    collection(bmc, f"{CHASSIS}/Sensors", **documents)
    listed = having(Sensors={"@odata.id": f"{CHASSIS}/Sensors"})
    bmc.changes[CHASSIS] = lambda document: listed(without("Thermal", "Power")(document))


def test_a_chassis_without_thermal_and_power_resources_has_a_collection_of_sensors(bmc, node):
    _sensors(
        bmc,
        T={"Name": "GPU 0", "ReadingType": "Temperature", "Reading": 41.5, "Status": {}},
        F={"ReadingType": "Rotational", "Reading": "9000", "Status": {"Health": "Critical"}},
        P={"Name": "Total", "ReadingType": "Power", "Reading": 1200, "Status": {"Health": "OK"}},
        A={"Name": "gone", "ReadingType": "Voltage", "Reading": 1, "Status": {"State": "Absent"}},
        X={"Name": "Leak", "ReadingType": "Humidity", "Reading": 3},
        N={"Name": "bad", "ReadingType": ["Power"], "Reading": 3},
    )
    readings = {sensor["name"]: sensor for sensor in node.driver.management.sensors(node)}
    assert {"GPU 0", "F", "Total"} == readings.keys()
    assert (41.5, "°C", "unknown") == tuple(
        readings["GPU 0"][n] for n in ("reading", "unit", "health")
    )
    assert (None, "fan", "critical") == tuple(
        readings["F"][n] for n in ("reading", "kind", "health")
    )


def test_a_sensor_that_cannot_be_read_leaves_the_others(bmc, node):
    _sensors(bmc, T={"ReadingType": "Temperature"}, V={"ReadingType": "Voltage", "Reading": 12})
    bmc.changes[f"{CHASSIS}/Sensors/T"] = None
    assert ["V"] == [sensor["name"] for sensor in node.driver.management.sensors(node)]


def test_the_sensors_of_one_missing_part_leave_the_others(bmc, node):
    bmc.changes[f"{CHASSIS}/Thermal"] = None
    assert {"power"} == {sensor["kind"] for sensor in node.driver.management.sensors(node)}
    bmc.changes[f"{CHASSIS}/Power"] = None
    with pytest.raises(NotSupported, match="lists no sensors"):
        node.driver.management.sensors(node)


@pytest.mark.parametrize("reading", [float("nan"), float("inf"), True, "24", None, [24]])
def test_a_reading_that_is_no_number_is_none(bmc, node, reading):
    broken = {
        "Name": "Inlet",
        "MemberId": "0",
        "ReadingCelsius": reading,
        "Status": {"Health": "Odd"},
    }
    bmc.changes[f"{CHASSIS}/Thermal"] = lambda thermal: thermal | {"Temperatures": [broken]}
    (inlet,) = [
        sensor for sensor in node.driver.management.sensors(node) if sensor["name"] == "Inlet"
    ]
    assert (None, "unknown") == (inlet["reading"], inlet["health"])


def test_sensors_are_bounded(bmc, node):
    many = [{"Name": f"T{number}", "MemberId": str(number)} for number in range(900)]
    bmc.changes[f"{CHASSIS}/Thermal"] = lambda thermal: thermal | {"Temperatures": many}
    assert 500 == len(node.driver.management.sensors(node))


def test_a_server_error_of_a_bmc_is_no_skipped_resource(bmc, node, monkeypatch):
    answer = bmc.answer

    def failing(method, path, headers, body=b""):
        return (
            (503, b"{}", {}) if path.endswith("/Storage") else answer(method, path, headers, body)
        )

    monkeypatch.setattr(bmc, "answer", failing)
    with pytest.raises(Busy, match="503"):
        inspected(node)


def test_a_repeated_read_of_the_power_state_is_one_request(bmc, node):
    inspected(node)
    lights(node)
    node.driver.bios.cache_bios_settings(node)
    bmc.changes[f"{SYSTEM}/Bios"] = None
    bmc.request_log.clear()
    assert "power off" == node.driver.power.get_power_state(node)
    assert [("GET", bmc.machine.system_id)] == bmc.request_log


def test_the_virtual_media_of_a_second_manager_are_found(bmc, node):
    second = f"{ROOT}/Managers/Second"
    bmc.more[second] = {
        "@odata.id": second, "Id": "Second", "Name": "Second",
        "VirtualMedia": {"@odata.id": f"{MANAGER}/VirtualMedia"},
    }  # fmt: skip
    managers = [{"@odata.id": MANAGER}, {"@odata.id": second}]
    bmc.changes |= {
        MANAGER: without("VirtualMedia"),
        SYSTEM: having(Links={"ManagedBy": managers}),
    }
    node.driver.management.attach_virtual_media(node, **CDROM)
    assert CDROM["image_url"] == bmc.machine.media["Cd"]


@pytest.mark.parametrize("call", ["list", "attach", "detach", "boot"])
def test_a_bmc_without_virtual_media_is_named(bmc, node, call):
    bmc.changes[MANAGER] = without("VirtualMedia")
    management = node.driver.management
    calls = {
        "list": lambda: management.virtual_media(node),
        "attach": lambda: management.attach_virtual_media(node, **CDROM),
        "detach": lambda: management.detach_virtual_media(node, ["cdrom"]),
        "boot": lambda: node.driver.boot.prepare_ramdisk(node),
    }
    with pytest.raises(NotSupported, match="has no virtual media"):
        calls[call]()


@pytest.mark.parametrize("call", ["get_boot_device", "get_boot_mode"])
def test_a_system_without_boot_settings_is_named(bmc, node, call):
    bmc.changes[SYSTEM] = without("Boot")
    with pytest.raises(NotSupported, match="has no boot"):
        getattr(node.driver.management, call)(node)
    assert "power off" == node.driver.power.get_power_state(node)
    assert {} == inspected(node)["boot"]


@pytest.mark.parametrize("change", [without("Actions"), having(Actions={})])
def test_a_bmc_without_simple_update_is_named(bmc, node, change):
    bmc.changes[f"{ROOT}/UpdateService"] = change
    with (
        pytest.raises(NotSupported, match=r"SimpleUpdate|Actions"),
        client.turn(node, node.driver.power.bmcs) as connection,
    ):
        software.Update("bios", "http://images/bios.bin").request(connection)


def test_a_bmc_without_an_update_service_is_named(bmc, node):
    bmc.changes[ROOT] = without("UpdateService")
    with (
        pytest.raises(NotSupported, match="UpdateService"),
        client.turn(node, node.driver.power.bmcs) as connection,
    ):
        software.Update("bios", "http://images/bios.bin").request(connection)


def with_adapters(bmc):
    """Add two network adapters to the chassis; one has a serial number."""

    def adapter(version, **fields):
        return {
            "Manufacturer": "Acme", "Model": "N1",
            "Controllers": [{"FirmwarePackageVersion": version}], **fields,
        }  # fmt: skip

    adapters = collection(
        bmc,
        f"{CHASSIS}/NetworkAdapters",
        Slot1=adapter("14.1", SerialNumber="S1"),
        Slot2=adapter("16.2"),
        Slot3=adapter(None),
    )
    bmc.changes[CHASSIS] = having(NetworkAdapters=adapters)


def test_the_firmware_of_network_adapters_is_listed_by_serial_number_else_by_id(bmc, node):
    with_adapters(bmc)
    components = firmware(node)
    assert {"bios", "bmc", "nic:S1", "nic:Slot2"} == components.keys()
    assert {
        "component": "nic:S1", "current_version": "14.1", "vendor": "Acme", "model": "N1",
        "serial_number": "S1",
    } == components["nic:S1"]  # fmt: skip


def test_firmware_without_a_version_is_left_out(bmc, node):
    bmc.changes |= {SYSTEM: without("BiosVersion"), f"{CHASSIS}/NetworkAdapters": None}
    assert {"bmc"} == firmware(node).keys()
    bmc.changes[MANAGER] = having(FirmwareVersion=None)
    with pytest.raises(NotSupported, match="firmware"):
        firmware(node)


BIOS, ADAPTER = f"{SYSTEM}/Bios", f"{CHASSIS}/NetworkAdapters/Slot2"
HPE = {
    "1": {"Name": "iLO 5"}, "2": {"Name": "System ROM"}, "3": {"Name": "Redundant System ROM"},
    "4": {"Name": "Intelligent Platform Abstraction Data"},
}  # fmt: skip
DELL = {
    "Previous-159-2.2.11__BIOS.Setup.1-1": {"Name": "BIOS", "Version": "2.2.11"},
    "Current-159-2.3.5__BIOS.Setup.1-1": {"Name": "BIOS", "Version": "2.3.5"},
    "Installed-159-2.3.5__BIOS.Setup.1-1": {"Name": "BIOS", "Version": "2.3.5"},
    "Current-25227-6.10__iDRAC.Embedded.1-1": {
        "Name": "Integrated Dell Remote Access Controller", "RelatedItem": [MANAGER],
    },
}  # fmt: skip
LENOVO = {
    "UEFI": {"Name": "UEFI", "RelatedItem": [BIOS]},
    "BMC-Primary": {"Name": "BMC (Primary)"},
    "BMC-Backup": {"Name": "BMC (Backup)"},
    "Slot_2.Bundle": {"Name": "Mellanox ConnectX", "RelatedItem": [ADAPTER]},
    "LXPM": {"Name": "LXPM", "RelatedItem": [SYSTEM]},
}
UNCLEAR = {"a": {"Name": "BIOS of board 1"}, "b": {"Name": "BIOS of board 2"}, "c": {"Name": "x"}}


@pytest.mark.vendor("Dell", "firmware")
@pytest.mark.vendor("HPE", "firmware")
@pytest.mark.vendor("Lenovo", "firmware")
@pytest.mark.parametrize(
    ("entries", "component", "target"),
    [
        (HPE, "bios", "2"),
        (HPE, "bmc", "1"),
        (HPE, "nic:Slot2", None),
        (DELL, "bios", "Current-159-2.3.5__BIOS.Setup.1-1"),
        (DELL, "bmc", "Current-25227-6.10__iDRAC.Embedded.1-1"),
        (LENOVO, "bios", "UEFI"),
        (LENOVO, "bmc", "BMC-Primary"),
        (LENOVO, "nic:Slot2", "Slot_2.Bundle"),
        (UNCLEAR, "bmc", None),
    ],
)
def test_an_update_names_its_target_only_if_it_is_unambiguous(
    bmc, node, monkeypatch, entries, component, target
):
    def item(entry):
        links = [
            {"@odata.id": path.replace("{id}", bmc.machine.uuid)}
            for path in entry.get("RelatedItem", ())
        ]
        return {"Version": "1", **entry, "RelatedItem": links}

    with_adapters(bmc)
    collection(bmc, INVENTORY, **{name: item(entry) for name, entry in entries.items()})
    expected = [f"{INVENTORY}/{target}"] if target else None
    assert expected == request_of(node, component).body.get("Targets")


def request_of(node, component, **fields):
    with client.turn(node, node.driver.power.bmcs) as connection:
        return software.Update(component, "http://images/new.bin", **fields).request(connection)


@pytest.mark.parametrize(
    ("kind", "step", "clean"),
    [
        ("bios", "apply_configuration", False),
        ("bios", "factory_reset", False),
        ("bios", "cache_bios_settings", False),
        ("firmware", "update", True),
    ],
)
def test_out_of_band_steps_need_the_ramdisk_as_in_ironic(node, kind, step, clean):
    def needs(flow):
        offered = node.driver.by_kind[kind].get_steps(node, flow)
        return {offered_step.name: offered_step.needs_ramdisk for offered_step in offered}.get(step)

    assert clean is needs(Flow.CLEAN)
    assert not needs(Flow.SERVICE)


def test_verification_reads_boot_mode_secure_boot_and_vendor(bmc, node):
    bmc.machine.secure_boot = True
    assert Done() == node.driver.management.run(node, "cache_system_facts", {})
    assert {
        "boot_mode": "uefi", "secure_boot": True, "properties": {"vendor": "Simulated"}
    } == node.reports  # fmt: skip


def test_a_vendor_set_by_an_operator_is_kept(bmc):
    node = bmc.node(properties={"vendor": "Ours"})
    node.driver.management.run(node, "cache_system_facts", {})
    assert "properties" not in node.reports


def test_verification_continues_without_facts_that_the_bmc_does_not_report(bmc, node):
    bmc.changes |= {
        ROOT: without("Vendor"), SYSTEM: having(Boot=None), f"{SYSTEM}/SecureBoot": None,
    }  # fmt: skip
    outcome = node.driver.management.run(node, "cache_system_facts", {})
    assert {"boot_mode", "secure_boot"} == outcome.result.keys()
    assert {"properties": {"vendor": "Simulated"}} == node.reports


@pytest.mark.parametrize(
    "state", [None, [], {}, 5, "Ajar", "Reset", "Unknown", "PoweringOn", "PoweringOff", "Paused"]
)
def test_an_unsettled_power_state_is_none_for_both_readers_and_no_error(bmc, node, state):
    bmc.changes[SYSTEM] = having(PowerState=state)
    assert (None, None) == (sweep_of(node), node.driver.power.get_power_state(node))
    bmc.changes[SYSTEM] = without("PowerState")
    assert (None, None) == (sweep_of(node), node.driver.power.get_power_state(node))


def test_a_sweep_reads_secure_boot_on_request(bmc, node):
    assert "power off" == sweep_of(node, secure_boot=True)
    assert (False, 2) == (node.reports["secure_boot"], len(bmc.request_log))


@pytest.mark.parametrize("change", [None, having(SecureBootEnable="yes"), lambda _: []])
def test_unreadable_secure_boot_does_not_hide_the_power_state(bmc, node, change):
    bmc.changes[f"{SYSTEM}/SecureBoot"] = change
    assert "power off" == sweep_of(node, secure_boot=True)
    assert "secure_boot" not in node.reports


def test_an_error_is_truncated_and_free_of_control_characters(bmc, node):
    bmc.changes[f"{SYSTEM}"] = lambda _: {"PowerState": "\x00" * 10**6}
    with pytest.raises((NotSupported, Refused, Unexpected)) as raised:
        node.driver.power.get_power_state(node)
    assert len(str(raised.value)) <= 1000
    assert str(raised.value).isprintable()
