"""
Redfish: the inventory of a machine, in the format of the agent's inventory.

Each fact is optional: facts that the BMC does not report, or reports in an invalid form, are left
out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from drivers.net.mac_addresses import station
from drivers.redfish.transport.conversions import (
    elements,
    entry,
    is_present,
    number,
    text,
    word,
)
from drivers.redfish.transport.documents import Documents

Inventory = dict[str, Any]

#: InstructionSet or ProcessorArchitecture -> architecture name of Linux
_ARCHITECTURES: Mapping[str, str] = {
    "x86": "i686", "x86-64": "x86_64", "ARM-A32": "arm", "ARM-A64": "aarch64", "IA-64": "ia64",
    "MIPS32": "mips", "MIPS64": "mips64", "PowerISA": "ppc64le", "RV32": "riscv32",
    "RV64": "riscv64", "Power": "ppc64le", "RISC-V": "riscv64",
}  # fmt: skip
#: ProcessorArchitecture -> architecture of the 64-bit processors that servers have today; its other
#: values are in the table above
_FAMILIES: Mapping[str, str] = {"x86": "x86_64", "ARM": "aarch64", "MIPS": "mips64"}
#: MediaType of a drive -> whether it has turning disks
_ROTATIONAL: Mapping[str, bool] = {"HDD": True, "SMR": True, "SSD": False}
#: BootSourceOverrideMode -> Ironic's name of the boot mode
BOOT_MODES = {"UEFI": "uefi", "Legacy": "bios"}


def read(documents: Documents) -> Inventory:
    """
    Read the inventory.

    Raises HardwareError: the BMC has no system, or does not answer.
    """
    system = documents.system
    vendor = _known(
        manufacturer=text(entry(system, "Manufacturer")),
        product_name=text(entry(system, "Model")),
        serial_number=text(entry(system, "SerialNumber")),
    )
    mode = BOOT_MODES.get(word(entry(system, "Boot", "BootSourceOverrideMode")))
    inventory: Inventory = {
        "interfaces": interfaces(documents),
        "cpu": _cpu(documents),
        "disks": list(_disks(documents)),
        "system_vendor": vendor,
        "boot": _known(current_boot_mode=mode),
    }
    memory = entry(system, "MemorySummary")
    gib = number(entry(memory, "TotalSystemMemoryGiB"))
    if gib and is_present(memory):
        inventory["memory"] = {"total": gib * 2**30, "physical_mb": gib * 1024}
    return inventory


def interfaces(documents: Documents) -> list[Inventory]:
    """
    Read the network interfaces that report a MAC address, usable or not.

    `mac_address` is MACAddress, which the network sees, also if a profile has assigned it. It is
    PermanentMACAddress if MACAddress is no station's, or is that of several interfaces: members of
    a bond report the address of the bond.
    """
    nics = list(documents.members(documents.system, "EthernetInterfaces"))
    shared = Counter(mac for nic in nics if (mac := _station(entry(nic, "MACAddress"))))
    found_nics = []
    for nic in nics:
        current_mac = _station(entry(nic, "MACAddress"))
        permanent = _station(entry(nic, "PermanentMACAddress"))
        mac = (
            permanent if permanent and (not current_mac or shared[current_mac] > 1) else current_mac
        )
        reported_mac = (
            mac or text(entry(nic, "MACAddress")) or text(entry(nic, "PermanentMACAddress"))
        )
        if reported_mac:
            facts = _known(name=text(entry(nic, "Id")), speed_mbps=number(entry(nic, "SpeedMbps")))
            found_nics.append({"mac_address": reported_mac, **facts})
    return found_nics


def stations(documents: Documents) -> list[str]:
    """Read the MAC addresses that ports can have."""
    return [mac for nic in interfaces(documents) if (mac := _station(nic["mac_address"]))]


def _station(value: object) -> str | None:
    try:
        return station(value)
    except ValueError:
        return None


def _cpu(documents: Documents) -> Inventory:
    chips = [
        chip
        for chip in documents.members(documents.system, "Processors")
        if word(entry(chip, "ProcessorType")) in ("CPU", "")
    ]
    if not chips:
        return _cpu_summary(entry(documents.system, "ProcessorSummary"))
    first_chip = chips[0]
    counts = [
        number(entry(chip, "TotalThreads")) or number(entry(chip, "TotalCores")) or 1
        for chip in chips
    ]
    architectures = (architecture for chip in chips if (architecture := _architecture(chip)))
    return _known(
        count=sum(counts),
        socket_count=len(chips),
        model_name=text(entry(first_chip, "Model")),
        frequency=number(entry(first_chip, "MaxSpeedMHz")),
        architecture=next(architectures, None),
    )


def _cpu_summary(summary: object) -> Inventory:
    """Return the facts that the system itself has of its processors."""
    return _known(
        count=number(entry(summary, "LogicalProcessorCount")) or number(entry(summary, "Count")),
        socket_count=number(entry(summary, "Count")),
        model_name=text(entry(summary, "Model")),
    )


def _architecture(chip: object) -> str | None:
    instructions = _ARCHITECTURES.get(word(entry(chip, "InstructionSet")))
    family = word(entry(chip, "ProcessorArchitecture"))
    return instructions or _FAMILIES.get(family) or _ARCHITECTURES.get(family)


def _disks(documents: Documents) -> list[Inventory]:
    """Return the drives; SimpleStorage, which may have them again, counts only without any."""
    return [*_drives(documents)] or [*_simple_devices(documents)]


def _drives(documents: Documents) -> Iterator[Inventory]:
    for storage in documents.members(documents.system, "Storage"):
        for drive in documents.members(storage, "Drives"):
            size = number(entry(drive, "CapacityBytes"))
            if size:
                yield _known(
                    name=text(entry(drive, "Name")) or text(entry(drive, "Id")),
                    size=size,
                    model=text(entry(drive, "Model")),
                    serial=text(entry(drive, "SerialNumber")),
                    vendor=text(entry(drive, "Manufacturer")),
                    rotational=_ROTATIONAL.get(word(entry(drive, "MediaType"))),
                )


def _simple_devices(documents: Documents) -> Iterator[Inventory]:
    for storage in documents.members(documents.system, "SimpleStorage"):
        for device in elements(storage, "Devices"):
            size = number(entry(device, "CapacityBytes"))
            if size and is_present(device):
                yield _known(name=text(entry(device, "Name")), size=size)


def _known(**facts: object) -> Inventory:
    return {name: value for name, value in facts.items() if value is not None}
