"""
Redfish: the inventory of a machine, in the format of the agent's inventory.

Facts that the BMC does not report are left out; inspection hooks decide whether they are required.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from drivers.redfish import parts
from drivers.redfish.client import Connection
from drivers.redfish.values import entry, is_present, number, text, word

Document = dict[str, Any]

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
#: InstructionSet -> architecture name of Linux
_ARCHITECTURES = {
    "x86": "i686", "x86-64": "x86_64", "ARM-A32": "arm", "ARM-A64": "aarch64",
    "IA-64": "ia64", "MIPS32": "mips", "MIPS64": "mips64", "PowerISA": "ppc64le",
}  # fmt: skip
#: BootSourceOverrideMode -> Ironic's name of the boot mode
BOOT_MODES = {"UEFI": "uefi", "Legacy": "bios"}


def read(bmc: Connection) -> Document:
    """
    Read the inventory. Use inside `client.turn` only.

    Raises HardwareError.
    """
    system = bmc.system(fresh=True)
    found: Document = {
        "interfaces": _interfaces(bmc, system),
        "cpu": _cpu(parts.members(bmc, system, "processors")),
        "disks": list(_disks(bmc, system)),
        "system_vendor": _known(
            manufacturer=text(system.manufacturer),
            product_name=text(system.model),
            serial_number=text(system.serial_number),
        ),
        "boot": _known(current_boot_mode=BOOT_MODES.get(word(getattr(system.boot, "mode", None)))),
    }
    gib = number(getattr(system.memory_summary, "size_gib", None))
    if gib and is_present(entry(system.json, "MemorySummary")):
        found["memory"] = {"total": gib * 2**30, "physical_mb": gib * 1024}
    return found


def interfaces(bmc: Connection) -> list[Document]:
    """Read the network interfaces that have a MAC address."""
    return _interfaces(bmc, bmc.system(fresh=True))


def _interfaces(bmc: Connection, system: Any) -> list[Document]:
    found = []
    for each in parts.members(bmc, system, "ethernet_interfaces"):
        mac = (text(each.mac_address) or "").lower().replace("-", ":")
        if _MAC.fullmatch(mac):
            about = _known(name=text(each.identity), speed_mbps=number(each.speed_mbps))
            found.append({"mac_address": mac, **about})
    return found


def _cpu(processors: Iterable[Any]) -> Document:
    chips = [each for each in processors if word(each.processor_type) in ("CPU", "")]
    if not chips:
        return {}
    first = chips[0]
    return _known(
        count=sum(number(each.total_threads) or number(each.total_cores) or 1 for each in chips),
        socket_count=len(chips),
        model_name=text(first.model),
        frequency=number(first.max_speed_mhz),
        architecture=_ARCHITECTURES.get(word(first.instruction_set)),
    )


def _disks(bmc: Connection, system: Any) -> Iterator[Document]:
    for drive in parts.drives(bmc, system):
        if number(drive.capacity_bytes):
            yield _known(
                name=text(drive.name) or text(drive.identity),
                size=number(drive.capacity_bytes),
                model=text(drive.model),
                serial=text(drive.serial_number),
                vendor=text(drive.manufacturer),
                rotational=word(drive.media_type) == "HDD",
            )
    for storage in parts.members(bmc, system, "simple_storage"):
        for device in entry(storage.json, "Devices") or ():
            size = number(entry(device, "CapacityBytes"))
            if size and is_present(device):
                yield _known(name=text(entry(device, "Name")), size=size)


def _known(**facts: Any) -> Document:
    return {name: value for name, value in facts.items() if value is not None}
