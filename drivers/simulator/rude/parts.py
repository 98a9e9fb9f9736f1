"""Faults of collections, storage, BIOS settings, processors and network interfaces."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import orjson

from drivers.simulator.redfish_bmc.documents import (
    CHASSIS,
    OK,
    ROOT,
    add_member,
    collection,
    link,
    resource,
)
from drivers.simulator.refusal import Refusal
from drivers.simulator.rude.row import Exchange, Registry, changed
from drivers.simulator.server import Response, json

FAULTS = Registry()

COLLECTIONS = "Collections"
STORAGE, BIOS = "Storage", "BIOS"
INSPECTION = "Inspection"

#: RAIDType -> VolumeType of the Volume schema before 1.3.1
VOLUME_TYPES = {
    "RAID0": "NonRedundant",
    "RAID1": "Mirrored",
    "RAID5": "StripedWithParity",
    "RAID6": "StripedWithParity",
    "RAID10": "SpannedMirrors",
}


# Collections


@FAULTS.fault(COLLECTIONS, size=2, next="Members@odata.nextLink")
def pages(exchange: Exchange) -> Response:
    """Collections come in pages of so many members, as of 50 by Dell's iDRAC."""
    query = parse_qs(exchange.request.query)
    text = query.get("$skip", ["0"])[0]
    start, size = int(text) if text.isdigit() else 0, exchange["size"]

    def cut(content: dict[str, object]) -> None:
        members = content.get("Members")
        if isinstance(members, list) and start + size < len(members):
            content[exchange["next"]] = f"{exchange.path}?$skip={start + size}"
        if isinstance(members, list):
            content["Members"] = members[start : start + size]

    return exchange.edited(cut)


@FAULTS.fault(COLLECTIONS)
def pages_endless(exchange: Exchange) -> Response:
    """The next page of each collection is the collection itself."""

    def loop(content: dict[str, object]) -> None:
        if "Members" in content:
            content["Members@odata.nextLink"] = exchange.path

    return exchange.edited(loop)


# Properties of any document


@FAULTS.fault(INSPECTION, property="InstructionSet", path="")
def property_missing(exchange: Exchange) -> Response:
    """A property is in no document: InstructionSet, as of HPE's Cray EX. path: part of a path."""
    return _without(exchange, [exchange["property"]])


@FAULTS.fault(INSPECTION, property="InstructionSet", value="null", path="")
def property_odd(exchange: Exchange) -> Response:
    """A property has another value (given as JSON) in each document that has it."""
    name, value = exchange["property"], orjson.loads(exchange["value"])

    def change(content: object) -> None:
        if isinstance(content, dict) and name in content:
            content[name] = value
        for part in _parts(content):
            change(part)

    return exchange.edited(change, is_concerned=exchange["path"] in exchange.path)


def _without(exchange: Exchange, names: list[str]) -> Response:
    def strip(content: Any) -> None:
        for name in names if isinstance(content, dict) else []:
            content.pop(name, None)
        for part in _parts(content):
            strip(part)

    return exchange.edited(strip, is_concerned=exchange["path"] in exchange.path)


def _parts(content: object) -> list[object]:
    if isinstance(content, dict):
        return list(content.values())
    return content if isinstance(content, list) else []


# Storage


@FAULTS.fault(STORAGE)
def volume_type_only(exchange: Exchange) -> Response:
    """Volumes have VolumeType and no RAIDType, as of Cisco's CIMC and Dell's older iDRAC."""

    def change(content: dict[str, Any]) -> None:
        kind = content.pop("RAIDType", None)
        if kind:
            content["VolumeType"] = VOLUME_TYPES[kind]

    return exchange.edited(change, is_concerned="/Volumes/" in exchange.path)


@FAULTS.fault(STORAGE)
def volume_of_raw_drive(exchange: Exchange) -> Response:
    """A drive is shown as a volume of VolumeType RawDevice, which cannot be deleted."""
    volumes = f"{exchange.machine.system_id}/Storage/RAID/Volumes"
    path, drive = f"{volumes}/raw", f"{exchange.machine.system_id}/Storage/RAID/Drives/3"
    if exchange.path == path:
        if not exchange.reads:
            return Refusal(400, "OperationNotAllowed", "A raw drive is no volume.").response()
        document = resource(
            path, "Volume.v1_0_3.Volume", "Raw drive", VolumeType="RawDevice", Status=OK,
            CapacityBytes=960 * 10**9, Links={"Drives": [link(drive)]},
        )  # fmt: skip
        return json(document)
    return exchange.edited(
        lambda content: add_member(content, path), is_concerned=exchange.path == volumes
    )


@FAULTS.fault(STORAGE, status=500)
def delete_apply_time_refused(exchange: Exchange) -> Response:
    """A DELETE of a volume with OperationApplyTime is refused (500, SYS029), as by Dell's iDRAC."""
    is_concerned = exchange.request.method == "DELETE" and exchange.orders("volume")
    if is_concerned and "@Redfish.OperationApplyTime" in exchange.body() and exchange.occurs():
        text = "Unsupported parameter name @Redfish.OperationApplyTime."
        return Refusal(exchange["status"], "SYS029", text).response()
    return exchange.go()


@FAULTS.fault(STORAGE, index=0)
def drive_missing(exchange: Exchange) -> Response:
    """A drive that its controller names is 404."""
    if exchange.path.endswith(f"/Drives/{exchange['index']}") and exchange.occurs():
        return exchange.missing()
    return exchange.go()


@FAULTS.fault(STORAGE)
def controller_missing(exchange: Exchange) -> Response:
    """Storage shows no controllers."""
    return exchange.edited(
        lambda content: content.pop("StorageControllers"),
        is_concerned=exchange.path.endswith("/Storage/RAID"),
    )


@FAULTS.fault(STORAGE)
def nvme_attached_directly(exchange: Exchange) -> Response:
    """A second Storage has an NVMe drive, and neither a controller nor volumes."""
    storages = f"{exchange.machine.system_id}/Storage"
    path, drive = f"{storages}/NVMe", f"{storages}/NVMe/Drives/0"
    if exchange.reads and exchange.path == path:
        kind = "Storage.v1_10_0.Storage"
        return json(resource(path, kind, "NVMe", Status=OK, Drives=[link(drive)]))
    if exchange.reads and exchange.path == drive:
        document = resource(
            drive, "Drive.v1_11_0.Drive", "NVMe drive", CapacityBytes=10**12, MediaType="SSD",
            Protocol="NVMe", Model="Simulated NVMe", Status=OK,
        )  # fmt: skip
        return json(document)
    return exchange.edited(
        lambda content: add_member(content, path, at_start=True),
        is_concerned=exchange.path == storages,
    )


# BIOS


@FAULTS.fault(BIOS)
def bios_values_as_text(exchange: Exchange) -> Response:
    """The BIOS shows integers as texts, and demands integers."""

    def change(content: dict[str, Any]) -> None:
        content["Attributes"] = {
            name: str(value) for name, value in content.get("Attributes", {}).items()
        }

    return exchange.edited(change, is_concerned="/Bios" in exchange.path)


@FAULTS.fault(BIOS)
def bios_without_registry(exchange: Exchange) -> Response:
    """The BIOS names no attribute registry, and there is none."""
    if exchange.path.startswith(f"{ROOT}/Registries"):
        return exchange.missing()
    return changed(exchange.go(), lambda content: content.pop("AttributeRegistry", None))


@FAULTS.fault(BIOS, attribute="NumLock", value="Automatic")
def registry_changes_with_update(exchange: Exchange) -> Response:
    """After an update of the BIOS, the attribute registry has a value more for a setting."""

    def change(content: dict[str, Any]) -> None:
        is_updated = exchange.machine.firmware["BIOS"] != "1.0.0"
        for entry in content["RegistryEntries"]["Attributes"]:
            if is_updated and entry["AttributeName"] == exchange["attribute"]:
                entry["Value"].append({"ValueName": exchange["value"]})

    return exchange.edited(change, is_concerned=exchange.path.endswith("/BiosAttributeRegistry/en"))


# Network interfaces and sensors


@FAULTS.fault(INSPECTION, mac="00:00:00:00:00:00")
def mac_invalid(exchange: Exchange) -> Response:
    """The second interface has an address that names no card: zeros, or a multicast address."""
    return _with_macs(exchange, 1, exchange["mac"], exchange["mac"])


@FAULTS.fault(INSPECTION)
def mac_only_permanent(exchange: Exchange) -> Response:
    """The first interface has its address as PermanentMACAddress only; MACAddress is null."""
    return _with_macs(exchange, 0, None, exchange.machine.macs[0])


def _with_macs(exchange: Exchange, index: int, current_mac: str | None, permanent: str) -> Response:
    path = f"{exchange.machine.system_id}/EthernetInterfaces/NIC{index}"
    addresses = {"MACAddress": current_mac, "PermanentMACAddress": permanent}
    return exchange.edited(
        lambda content: content.update(addresses), is_concerned=exchange.path == path
    )


@FAULTS.fault(INSPECTION, expands=False)
def sensors_only(exchange: Exchange) -> Response:
    """
    The chassis has Sensors only, and neither Power nor Thermal. expands: with $expand the
    collection has them whole; else such a query is answered with 501.
    """
    path, reading = f"{CHASSIS}/Sensors", f"{CHASSIS}/Sensors/Inlet"
    document = resource(
        reading, "Sensor.v1_2_0.Sensor", "Inlet", Reading=24, ReadingUnits="Cel",
        ReadingType="Temperature", PhysicalContext="Intake", Status=OK,
    )  # fmt: skip
    if exchange.reads and exchange.path == path and "$expand" in exchange.request.query:
        if not exchange["expands"]:
            return Refusal(501, "QueryNotSupported", "There are no queries.").response()
        return json(collection(path, "Sensor", [reading]) | {"Members": [document]})
    documents = {path: collection(path, "Sensor", [reading]), reading: document}
    return _without_lists(exchange, documents, {"Sensors": link(path)})


@FAULTS.fault(INSPECTION)
def sensors_in_subsystems(exchange: Exchange) -> Response:
    """The chassis has ThermalSubsystem and PowerSubsystem, and no other sensors."""
    thermal, power = f"{CHASSIS}/ThermalSubsystem", f"{CHASSIS}/PowerSubsystem"
    fan, supply = f"{thermal}/Fans/F0", f"{power}/PowerSupplies/P0"
    documents = {
        thermal: resource(
            thermal, "ThermalSubsystem.v1_3_0.ThermalSubsystem", "Thermal Subsystem",
            Fans=link(f"{thermal}/Fans"), ThermalMetrics=link(f"{thermal}/ThermalMetrics"),
        ),
        f"{thermal}/Fans": collection(f"{thermal}/Fans", "Fan", [fan]),
        fan: resource(
            fan, "Fan.v1_5_0.Fan", "Fan 0", SpeedPercent={"Reading": 40, "SpeedRPM": 4200},
            Status=OK,
        ),
        f"{thermal}/ThermalMetrics": resource(
            f"{thermal}/ThermalMetrics", "ThermalMetrics.v1_3_0.ThermalMetrics", "Metrics",
            TemperatureReadingsCelsius=[{"DeviceName": "Inlet", "Reading": 24}],
        ),
        power: resource(
            power, "PowerSubsystem.v1_1_0.PowerSubsystem", "Power Subsystem",
            PowerSupplies=link(f"{power}/PowerSupplies"),
        ),
        f"{power}/PowerSupplies": collection(f"{power}/PowerSupplies", "PowerSupply", [supply]),
        supply: resource(
            supply, "PowerSupply.v1_5_0.PowerSupply", "Power Supply 0", Status=OK,
            Metrics=link(f"{supply}/Metrics"),
        ),
        f"{supply}/Metrics": resource(
            f"{supply}/Metrics", "PowerSupplyMetrics.v1_1_0.PowerSupplyMetrics", "Metrics",
            OutputPowerWatts={"Reading": 210},
        ),
    }  # fmt: skip
    links = {"ThermalSubsystem": link(thermal), "PowerSubsystem": link(power)}
    return _without_lists(exchange, documents, links)


def _without_lists(
    exchange: Exchange, documents: Mapping[str, object], links: Mapping[str, object]
) -> Response:
    """Answer with documents of sensors; the chassis has links to them, but no Power and Thermal."""
    if exchange.path in (f"{CHASSIS}/Power", f"{CHASSIS}/Thermal"):
        return exchange.missing()
    if exchange.reads and exchange.path in documents:
        return json(documents[exchange.path])

    def change(content: dict[str, Any]) -> None:
        del content["Power"], content["Thermal"]
        content.update(links)

    return exchange.edited(change, is_concerned=exchange.path == CHASSIS)
