"""Proofs of the faults of collections, properties, volumes, drives, BIOS and sensors."""

from drivers.simulator.machine import BIOS_DEFAULTS
from drivers.simulator.redfish_bmc.documents import CHASSIS, ROOT, TASKS

from .proofs import proves
from .update_proofs import end_of


@proves({"size": 1})
def pages(bmc):
    path, members = f"{bmc.system}/EthernetInterfaces", []
    page = bmc.read(path)
    assert (1, 2) == (len(page["Members"]), page["Members@odata.count"])
    members += page["Members"]
    page = bmc.read(page["Members@odata.nextLink"])
    members += page["Members"]
    assert "Members@odata.nextLink" not in page
    assert ["NIC0", "NIC1"] == [member["@odata.id"].rsplit("/", 1)[-1] for member in members]


@proves()
def pages_endless(bmc):
    assert TASKS == bmc.read(TASKS)["Members@odata.nextLink"]


@proves()
def property_missing(bmc):
    processor = bmc.read(f"{bmc.system}/Processors/CPU0")
    assert ("InstructionSet" not in processor, "CPU") == (True, processor["ProcessorType"])


@proves({"property": "CoreCount", "value": '"many"'})
def property_odd(bmc):
    assert "many" == bmc.read(bmc.system)["ProcessorSummary"]["CoreCount"]


@proves()
def volume_type_only(bmc):
    volume = bmc.read(bmc.volume())
    assert ("Mirrored", None) == (volume.get("VolumeType"), volume.get("RAIDType"))


@proves()
def volume_of_raw_drive(bmc):
    (raw,) = bmc.members(bmc.volumes)
    assert "RawDevice" == bmc.read(raw)["VolumeType"]
    assert 400 == bmc.send("DELETE", raw).status_code


@proves()
def delete_apply_time_refused(bmc):
    volume = bmc.volume()
    apply = {"@Redfish.OperationApplyTime": "Immediate"}
    answer = bmc.send("DELETE", volume, apply)
    assert (500, True) == (answer.status_code, "SYS029" in answer.text)
    assert 202 == bmc.send("DELETE", volume).status_code


@proves({"index": 1})
def drive_missing(bmc):
    drives = bmc.read(f"{bmc.system}/Storage/RAID")["Drives"]
    statuses = [bmc.get(drive["@odata.id"]).status_code for drive in drives]
    assert [200, 404, 200, 200] == statuses


@proves()
def controller_missing(bmc):
    assert "StorageControllers" not in bmc.read(f"{bmc.system}/Storage/RAID")


@proves()
def nvme_attached_directly(bmc):
    nvme, _ = bmc.members(f"{bmc.system}/Storage")
    storage = bmc.read(nvme)
    assert {"StorageControllers", "Volumes"}.isdisjoint(storage)
    assert "NVMe" == bmc.read(storage["Drives"][0]["@odata.id"])["Protocol"]


@proves()
def bios_values_as_text(bmc):
    assert "115200" == bmc.read(f"{bmc.system}/Bios")["Attributes"]["SerialBaudRate"]
    path = f"{bmc.system}/Bios/Settings"
    changes = [{"Attributes": {"SerialBaudRate": value}} for value in ("9600", 9600)]
    assert [400, 204] == [bmc.patch(change, path).status_code for change in changes]


@proves()
def bios_without_registry(bmc):
    assert "AttributeRegistry" not in bmc.read(f"{bmc.system}/Bios")
    assert 404 == bmc.get(f"{ROOT}/Registries").status_code
    assert set(BIOS_DEFAULTS) == set(bmc.read(f"{bmc.system}/Bios")["Attributes"])


@proves()
def registry_changes_with_update(bmc):
    def choices():
        registry = bmc.read(f"{ROOT}/Registries/BiosAttributeRegistry/en")
        entries = registry["RegistryEntries"]["Attributes"]
        (entry,) = [entry for entry in entries if entry["AttributeName"] == "NumLock"]
        return [value["ValueName"] for value in entry["Value"]]

    assert ["On", "Off"] == choices()
    end_of(bmc, bmc.update())
    assert ["On", "Off", "Automatic"] == choices()


@proves({"mac": "01:00:5e:00:00:01"})
def mac_invalid(bmc):
    interface = bmc.read(f"{bmc.system}/EthernetInterfaces/NIC1")
    assert "01:00:5e:00:00:01" == interface["MACAddress"] == interface["PermanentMACAddress"]
    assert bmc.machine.mac == bmc.read(f"{bmc.system}/EthernetInterfaces/NIC0")["MACAddress"]


@proves()
def mac_only_permanent(bmc):
    interface = bmc.read(f"{bmc.system}/EthernetInterfaces/NIC0")
    assert (None, bmc.machine.mac) == (interface["MACAddress"], interface["PermanentMACAddress"])


@proves()
def sensors_only(bmc):
    chassis = bmc.read(CHASSIS)
    assert {"Power", "Thermal"}.isdisjoint(chassis)
    assert 404 == bmc.get(f"{CHASSIS}/Thermal").status_code
    (sensor,) = bmc.members(chassis["Sensors"]["@odata.id"])
    assert 24 == bmc.read(sensor)["Reading"]
    assert 501 == bmc.get(f"{CHASSIS}/Sensors?$expand=.").status_code


@proves()
def sensors_in_subsystems(bmc):
    chassis = bmc.read(CHASSIS)
    assert {"Power", "Thermal", "Sensors"}.isdisjoint(chassis)
    thermal = bmc.read(chassis["ThermalSubsystem"]["@odata.id"])
    assert bmc.read(thermal["ThermalMetrics"]["@odata.id"])["TemperatureReadingsCelsius"]
    (supply,) = bmc.members(f"{CHASSIS}/PowerSubsystem/PowerSupplies")
    assert bmc.read(bmc.read(supply)["Metrics"]["@odata.id"])["OutputPowerWatts"]
