"""
Redfish: the inventory of a machine, in the words that the agent uses for its own.

What a BMC does not tell is left out; it is for hooks to miss it.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from drivers.errors import NotSupported
from drivers.redfish.client import Connection, part

Document = dict[str, Any]

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
#: InstructionSet -> what Linux calls it
_ARCHITECTURES = {
    "x86": "i686", "x86-64": "x86_64", "ARM-A32": "arm", "ARM-A64": "aarch64",
    "IA-64": "ia64", "MIPS32": "mips", "MIPS64": "mips64", "PowerISA": "ppc64le",
}  # fmt: skip
_BOOT_MODES = {"UEFI": "uefi", "Legacy": "bios"}


def read(bmc: Connection) -> Document:
    """The inventory. Use inside `client.turn` only; raises what that does."""
    system = bmc.system(fresh=True)
    found: Document = {
        "interfaces": interfaces(bmc),
        "cpu": _cpu(system),
        "disks": list(_disks(system)),
        "system_vendor": _known(
            manufacturer=system.manufacturer,
            product_name=system.model,
            serial_number=system.serial_number,
        ),
        "boot": _known(current_boot_mode=_BOOT_MODES.get(_word(system.boot.mode))),
    }
    size = system.memory_summary and system.memory_summary.size_gib
    if size:
        found["memory"] = {"total": int(size * 2**30), "physical_mb": int(size * 1024)}
    return found


def interfaces(bmc: Connection) -> list[Document]:
    """The network interfaces that have an address."""
    found = []
    for each in _members(bmc.system(fresh=False), "ethernet_interfaces"):
        mac = str(each.mac_address or "").lower().replace("-", ":")
        if _MAC.fullmatch(mac):
            about = _known(name=each.identity, speed_mbps=each.speed_mbps)
            found.append({"mac_address": mac, **about})
    return found


def _cpu(system: Any) -> Document:
    processors = _members(system, "processors")
    chips = [each for each in processors if _word(each.processor_type) in ("CPU", "")]
    if not chips:
        return {}
    threads = sum(each.total_threads or each.total_cores or 1 for each in chips)
    first = chips[0]
    return _known(
        count=threads,
        socket_count=len(chips),
        model_name=first.model,
        frequency=first.max_speed_mhz,
        architecture=_ARCHITECTURES.get(_word(first.instruction_set)),
    )


def _disks(system: Any) -> Iterator[Document]:
    for storage in _members(system, "storage"):
        for drive in storage.drives:
            if drive.capacity_bytes:
                yield _known(
                    name=drive.name or drive.identity,
                    size=drive.capacity_bytes,
                    model=drive.model,
                    serial=drive.serial_number,
                    vendor=drive.manufacturer,
                    rotational=_word(drive.media_type) == "HDD",
                )
    for storage in _members(system, "simple_storage"):
        for device in storage.devices or ():
            if device.capacity_bytes:
                yield _known(name=device.name, size=device.capacity_bytes)


def _members(system: Any, name: str) -> Iterable[Any]:
    """The members of a collection, read anew; none where there is no such collection."""
    try:
        collection = part(system, name)
    except NotSupported:
        return []
    collection.refresh(force=True)
    return list(collection.get_members())


def _word(value: Any) -> str:
    """What an enumeration of sushy's says."""
    return str(getattr(value, "value", value) or "")


def _known(**facts: Any) -> Document:
    return {name: value for name, value in facts.items() if value is not None}
