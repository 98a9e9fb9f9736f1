"""Redfish documents of the computer system, by path."""

from collections.abc import Callable
from functools import partial

from drivers.simulator.machine import Machine
from drivers.simulator.redfish_bmc.documents import (
    CHASSIS,
    MANAGER,
    OK,
    ROOT,
    STORAGE,
    SYSTEM,
    Document,
    collection,
    link,
    listing,
    redfish_time,
    resource,
)

RESET_TYPES = [
    "On",
    "ForceOn",
    "ForceOff",
    "GracefulShutdown",
    "GracefulRestart",
    "ForceRestart",
    "PowerCycle",
    "PushPowerButton",
    "Nmi",
]
BOOT_TARGETS = ["None", "Pxe", "Hdd", "Cd", "UsbCd", "Floppy", "Usb", "UefiHttp", "BiosSetup"]
BOOT_ENABLED = ["Disabled", "Once", "Continuous"]
BOOT_MODES = ["UEFI", "Legacy"]
INDICATORS = ["Lit", "Blinking", "Off"]
#: RAIDType -> (least number of drives, function: number of drives -> number with data)
RAIDS: dict[str, tuple[int, Callable[[int], int]]] = {
    "RAID0": (1, lambda count: count),
    "RAID1": (2, lambda _: 1),
    "RAID5": (3, lambda count: count - 1),
    "RAID6": (4, lambda count: count - 2),
    "RAID10": (4, lambda count: count // 2),
}
DRIVES = 4
DRIVE_BYTES = 960 * 10**9


def boot_enabled(machine: Machine) -> list[str]:
    """Return the possible values of BootSourceOverrideEnabled."""
    return BOOT_ENABLED[:2] if machine.faults.boot_once_only else BOOT_ENABLED


def boot(machine: Machine) -> Document:
    choices = {"Target": BOOT_TARGETS, "Enabled": boot_enabled(machine), "Mode": BOOT_MODES}
    if machine.faults.boot_choices_hidden:
        choices = {}
    return {
        "BootSourceOverrideEnabled": machine.boot_enabled,
        "BootSourceOverrideTarget": machine.boot_target,
        "BootSourceOverrideMode": machine.boot_mode,
        "HttpBootUri": machine.boot_uri or None,
        **{
            f"BootSourceOverride{name}@Redfish.AllowableValues": values
            for name, values in choices.items()
        },
    }


def system(machine: Machine) -> Document:
    path = machine.system_id
    parts = ("Bios", "SecureBoot", "EthernetInterfaces", "Processors", "Storage", "SimpleStorage")
    return resource(
        path,
        "ComputerSystem.v1_13_0.ComputerSystem",
        machine.name,
        **{name: link(f"{path}/{name}") for name in parts},
        UUID=machine.uuid,
        SystemType="Physical",
        Manufacturer="Simulated",
        Model="Simulated Machine",
        SerialNumber=f"SIM-{machine.number:04d}",
        PartNumber="SIM-1",
        SKU="SIM-SKU",
        AssetTag=machine.asset_tag,
        HostName=machine.name,
        Status={"State": "Enabled", "Health": "OK", "HealthRollup": "OK"},
        PowerState=machine.power,
        IndicatorLED=machine.indicator,
        BiosVersion=machine.firmware["BIOS"],
        BootProgress={
            "LastState": "OSRunning"
            if machine.runs in ("agent", "instance", "rescue")
            else ("SystemHardwareInitializationComplete" if machine.power == "On" else "None")
        },
        Boot=boot(machine),
        ProcessorSummary={
            "Count": 1,
            "CoreCount": machine.cpus,
            "LogicalProcessorCount": machine.cpus,
            "Model": "Simulated CPU",
            "Status": OK,
        },
        MemorySummary={
            "TotalSystemMemoryGiB": machine.memory_gib,
            "Status": {**OK, "HealthRollup": "OK"},
        },
        Links={"ManagedBy": [link(MANAGER)], "Chassis": [link(CHASSIS)]},
        Actions={
            "#ComputerSystem.Reset": {
                "target": f"{path}/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": RESET_TYPES,
            }
        },
    )


def bios(machine: Machine) -> Document:
    path = f"{machine.system_id}/Bios"
    settings: Document = {
        "@odata.type": "#Settings.v1_3_0.Settings",
        "SettingsObject": link(f"{path}/Settings"),
        "SupportedApplyTimes": ["OnReset"],
    }
    if machine.bios_applied is not None:
        settings["Time"] = redfish_time(machine.bios_applied)
        settings["Messages"] = [{"MessageId": "Base.1.0.Success", "Message": "Applied."}]
    return resource(
        path,
        "Bios.v1_2_0.Bios",
        "BIOS Configuration",
        AttributeRegistry="BiosAttributeRegistry.v1_0_0",
        Attributes=machine.bios,
        Actions={"#Bios.ResetBios": {"target": f"{path}/Actions/Bios.ResetBios"}},
        **{"@Redfish.Settings": settings},
    )


def bios_settings(machine: Machine) -> Document:
    return resource(
        f"{machine.system_id}/Bios/Settings",
        "Bios.v1_2_0.Bios",
        "BIOS Settings",
        Attributes={**machine.bios, **machine.bios_pending},
        AttributeRegistry="BiosAttributeRegistry.v1_0_0",
    )


def secure_boot(machine: Machine) -> Document:
    path = f"{machine.system_id}/SecureBoot"
    return resource(
        path,
        "SecureBoot.v1_1_0.SecureBoot",
        "UEFI Secure Boot",
        SecureBootEnable=machine.secure_boot,
        SecureBootCurrentBoot="Enabled" if machine.secure_boot_now else "Disabled",
        SecureBootMode=machine.secure_boot_mode,
        Actions={
            "#SecureBoot.ResetKeys": {
                "target": f"{path}/Actions/SecureBoot.ResetKeys",
                "ResetKeysType@Redfish.AllowableValues": ["ResetAllKeysToDefault", "DeleteAllKeys"],
            }
        },
    )


def nic(index: int, machine: Machine) -> Document:
    return resource(
        f"{machine.system_id}/EthernetInterfaces/NIC{index}",
        "EthernetInterface.v1_6_0.EthernetInterface",
        f"NIC {index}",
        MACAddress=machine.macs[index],
        PermanentMACAddress=machine.macs[index],
        SpeedMbps=1000,
        LinkStatus="LinkUp" if index == 0 else "LinkDown",
        Status=OK,
    )


def processor(machine: Machine) -> Document:
    return resource(
        f"{machine.system_id}/Processors/CPU0",
        "Processor.v1_11_0.Processor",
        "Processor",
        Socket="CPU 0",
        ProcessorType="CPU",
        ProcessorArchitecture="x86",
        InstructionSet="x86-64",
        Manufacturer="Simulated",
        Model="Simulated CPU",
        MaxSpeedMHz=2400,
        TotalCores=machine.cpus,
        TotalThreads=machine.cpus,
        Status=OK,
    )


def simple_storage(machine: Machine) -> Document:
    device = {"Name": "/dev/sda", "Model": "Simulated Disk", "CapacityBytes": machine.disk_bytes}
    return resource(
        f"{machine.system_id}/SimpleStorage/0",
        "SimpleStorage.v1_3_0.SimpleStorage",
        "Simple Storage Controller",
        Devices=[{**device, "Status": OK}],
    )


def storage(machine: Machine) -> Document:
    path = f"{machine.system_id}/Storage/RAID"
    controller = {
        "MemberId": "0",
        "Name": "RAID Controller",
        "Status": OK,
        "SpeedGbps": 12,
        "SupportedControllerProtocols": ["PCIe"],
        "SupportedDeviceProtocols": ["SAS", "SATA"],
        "SupportedRAIDTypes": list(RAIDS),
    }
    return resource(
        path,
        "Storage.v1_10_0.Storage",
        "RAID Controller",
        Status=OK,
        Drives=[link(f"{path}/Drives/{i}") for i in range(DRIVES)],
        StorageControllers=[controller],
        Volumes=link(f"{path}/Volumes"),
    )


def drive(index: int, machine: Machine) -> Document:
    path = f"{machine.system_id}/Storage/RAID/Drives/{index}"
    holding = [
        link(volume["@odata.id"])
        for volume in machine.volumes.values()
        if link(path) in volume["Links"]["Drives"]
    ]
    return resource(
        path,
        "Drive.v1_11_0.Drive",
        f"Drive {index}",
        CapacityBytes=DRIVE_BYTES,
        BlockSizeBytes=512,
        MediaType="SSD",
        Protocol="SAS",
        Manufacturer="Simulated",
        Model="Simulated Disk",
        SerialNumber=f"SIM-{machine.number:04d}-{index}",
        IndicatorLED=machine.drive_indicators.get(index, "Off"),
        Status=OK,
        Links={"Volumes": holding},
    )


def apply_time(machine: Machine) -> str:
    """Return the time at which volume changes apply."""
    return "OnReset" if machine.faults.volumes_on_reset else "Immediate"


def free_bytes(machine: Machine, index: int) -> int:
    """Return the free bytes of a drive."""
    path = link(f"{machine.system_id}/Storage/RAID/Drives/{index}")
    free = DRIVE_BYTES
    for volume in machine.volumes.values():
        drives = volume["Links"]["Drives"]
        if path in drives:
            free -= volume["CapacityBytes"] // RAIDS[volume["RAIDType"]][1](len(drives))
    return free


def volumes(machine: Machine) -> Document:
    path = f"{machine.system_id}/Storage/RAID/Volumes"
    return {
        **collection(path, "Volume", (volume["@odata.id"] for volume in machine.volumes.values())),
        "@Redfish.OperationApplyTimeSupport": {"SupportedValues": [apply_time(machine)]},
    }


SYSTEM_DOCUMENTS: dict[str, Callable[[Machine], Document]] = {
    f"{ROOT}/Systems": lambda machine: collection(
        f"{ROOT}/Systems", "ComputerSystem", [machine.system_id]
    ),
    SYSTEM: system,
    f"{SYSTEM}/Bios": bios,
    f"{SYSTEM}/Bios/Settings": bios_settings,
    f"{SYSTEM}/SecureBoot": secure_boot,
    f"{SYSTEM}/EthernetInterfaces": listing(
        f"{SYSTEM}/EthernetInterfaces", "EthernetInterface", "NIC0", "NIC1"
    ),
    **{f"{SYSTEM}/EthernetInterfaces/NIC{i}": partial(nic, i) for i in range(2)},
    f"{SYSTEM}/Processors": listing(f"{SYSTEM}/Processors", "Processor", "CPU0"),
    f"{SYSTEM}/Processors/CPU0": processor,
    f"{SYSTEM}/SimpleStorage": listing(f"{SYSTEM}/SimpleStorage", "SimpleStorage", "0"),
    f"{SYSTEM}/SimpleStorage/0": simple_storage,
    f"{SYSTEM}/Storage": listing(f"{SYSTEM}/Storage", "Storage", "RAID"),
    STORAGE: storage,
    **{f"{STORAGE}/Drives/{i}": partial(drive, i) for i in range(DRIVES)},
    f"{STORAGE}/Volumes": volumes,
}
