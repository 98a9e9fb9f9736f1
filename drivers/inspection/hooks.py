"""
Inspection hooks: what is made of an inventory, by name, as `[inspector]hooks` lists them.

A hook gets the subject and the settings by group and name; it changes the subject, or raises
InspectionFailed. Others come through the entry point group `ingot.inspection_hooks`, each naming a
function that takes the same.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, cast

from drivers.core.errors import InspectionFailed
from drivers.core.target import Options
from drivers.inspection import lldp, pci
from drivers.inspection.subject import Subject

ENTRY_POINTS = "ingot.inspection_hooks"
Hook = Callable[[Subject, Options], None]
Interface = dict[str, Any]

_HOOKS: dict[str, Hook] = {}
#: hook -> those that must come before it
_NEEDS: dict[str, tuple[str, ...]] = {}
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
#: A disk smaller than this is none to install on.
_SMALLEST_DISK = 4 << 30


def hook(name: str, *, needs: tuple[str, ...] = ()) -> Callable[[Hook], Hook]:
    """Declare a hook. needs: the hooks that must come before it."""

    def declare(function: Hook) -> Hook:
        _HOOKS[name], _NEEDS[name] = function, needs
        return function

    return declare


@cache
def known() -> Mapping[str, Hook]:
    """Every hook by its name, those of other packages included."""
    return {each.name: each.load() for each in entry_points(group=ENTRY_POINTS)} | _HOOKS


def check(names: Iterable[str]) -> None:
    """Raises ValueError for a list of hooks that cannot be run."""
    before: list[str] = []
    for name in names:
        if name not in known():
            raise ValueError(f"there is no hook {name!r}; there are {', '.join(sorted(known()))}")
        for needed in _NEEDS.get(name, ()):
            if needed not in before:
                raise ValueError(f"hook {name} needs {needed} before it")
        before.append(name)


def run(names: Iterable[str], subject: Subject, options: Options) -> None:
    """Run hooks in order. Raises InspectionFailed."""
    for name in names:
        try:
            known()[name](subject, options)
        except (
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
        ) as error:  # what was sent is nonsense
            raise InspectionFailed(
                f"hook {name} cannot read what was found: {type(error).__name__}: {error}"
            ) from error


@hook("ramdisk-error")
def ramdisk_error(subject: Subject, options: Options) -> None:
    """The agent could not find out everything: its word counts."""
    error = subject.plugin_data.get("error")
    if error:
        raise InspectionFailed(f"the ramdisk reported: {error}")


@hook("validate-interfaces")
def validate_interfaces(subject: Subject, options: Options) -> None:
    """
    Sort the network interfaces; plugin data: `all_interfaces`, `valid_interfaces` (those that are
    to become ports, by `[inspector]add_ports`), each {name: interface}, and `macs` of the latter.
    """
    every = _interfaces(subject.inventory)
    if not every:
        raise InspectionFailed("the inventory names no valid network interface")
    wanted = options["inspector"]["add_ports"]
    valid = {
        name: each for name, each in every.items() if not _is_local(name, each)
        and not (wanted == "pxe" and not each["pxe_enabled"])
        and not (wanted == "active" and not _addresses(each))
    }  # fmt: skip
    if not valid:
        raise InspectionFailed(
            f"no network interface is what [inspector]add_ports = {wanted} asks for, of"
            f" {', '.join(every)}"
        )
    subject.plugin_data |= {
        "all_interfaces": every,
        "valid_interfaces": valid,
        "macs": [each["mac_address"] for each in valid.values()],
    }


@hook("ports", needs=("validate-interfaces",))
def ports(subject: Subject, options: Options) -> None:
    """Add, remove and mark ports, as `[inspector]add_ports`, `keep_ports`, `update_pxe_enabled`."""
    settings, data = options["inspector"], subject.plugin_data
    every = {each["mac_address"]: each for each in data["all_interfaces"].values()}
    if settings["add_ports"] != "disabled":
        for each in data["valid_interfaces"].values():
            if subject.port(each["mac_address"]) is None:
                subject.add_port(each["mac_address"], pxe_enabled=each["pxe_enabled"])
    kept = {"present": set(every), "added": set(data["macs"])}.get(settings["keep_ports"])
    subject.ports = [
        port
        for port in subject.ports
        if kept is None or port["address"] in kept or port.get("bound")
    ]
    for port in subject.ports:
        found = every.get(port["address"], {})
        if settings["update_pxe_enabled"] and _pxe_mac(subject.inventory):
            port["pxe_enabled"] = bool(found.get("pxe_enabled"))
        if found.get("client_id"):
            port["extra"] = {**port["extra"], "client-id": found["client_id"]}


@hook("architecture")
def architecture(subject: Subject, options: Options) -> None:
    """`properties/cpu_arch`"""
    complaint = "the inventory does not name the architecture of the processor"
    subject.set_property("cpu_arch", _needed(subject, "cpu", "architecture", complaint))


@hook("cpus")
def cpus(subject: Subject, options: Options) -> None:
    """`properties/cpus`"""
    complaint = "the inventory does not count the processors"
    subject.set_property("cpus", _needed(subject, "cpu", "count", complaint))


@hook("memory")
def memory(subject: Subject, options: Options) -> None:
    """`properties/memory_mb`"""
    complaint = "the inventory does not tell the size of the memory"
    subject.set_property("memory_mb", _needed(subject, "memory", "physical_mb", complaint))


@hook("root-device")
def root_device(subject: Subject, options: Options) -> None:
    """
    `properties/local_gb`, of the disk that the agent would install on, or else of the smallest
    that is large enough, less one for tables; 0 for a machine without disks.
    """
    disk = subject.plugin_data.get("root_disk") or {}
    sizes = [disk["size"]] if disk.get("size") else _disk_sizes(subject)
    subject.set_property("local_gb", max(min(sizes, default=0) // (1 << 30) - 1, 0))


@hook("boot-mode")
def boot_mode(subject: Subject, options: Options) -> None:
    """Capability `boot_mode`"""
    found = _part(subject, "boot").get("current_boot_mode")
    if found:
        subject.set_capabilities(boot_mode=found)


@hook("cpu-capabilities")
def cpu_capabilities(subject: Subject, options: Options) -> None:
    """Capabilities for flags of the processor, by `[inspector]cpu_capabilities`."""
    flags = set(_part(subject, "cpu").get("flags") or ())
    wanted = options["inspector"]["cpu_capabilities"]
    subject.set_capabilities(**{name: "true" for flag, name in wanted.items() if flag in flags})


@hook("physical-network", needs=("validate-interfaces",))
def physical_network(subject: Subject, options: Options) -> None:
    """`physical_network` of ports, by `[inspector]physical_network_cidr_map`."""
    networks = {
        ipaddress.ip_network(cidr): name
        for cidr, _, name in (
            pair.rpartition(":") for pair in options["inspector"]["physical_network_cidr_map"]
        )
    }
    for each in subject.plugin_data["all_interfaces"].values():
        port = subject.port(each["mac_address"])
        names = [
            name for at in _addresses(each) for network, name in networks.items() if at in network
        ]
        if port is not None and names:
            port["physical_network"] = names[0]


@hook("local-link-connection", needs=("validate-interfaces",))
def local_link_connection(subject: Subject, options: Options) -> None:
    """`local_link_connection` of ports: the switch and its port, as LLDP packets name them."""
    packets = subject.plugin_data.get("lldp_raw") or {}
    for name, each in subject.plugin_data["all_interfaces"].items():
        port = subject.port(each["mac_address"])
        link = lldp.neighbour(packets.get(name) or each.get("lldp") or ())
        if port is not None and link:
            port["local_link_connection"] = {**port.get("local_link_connection", {}), **link}


@hook("parse-lldp")
def parse_lldp(subject: Subject, options: Options) -> None:
    """Plugin data `parsed_lldp`: what LLDP packets say, by the name of the interface."""
    packets = subject.plugin_data.get("lldp_raw") or {}
    parsed = {}
    for each in subject.inventory.get("interfaces") or ():
        name = each.get("name")
        found = lldp.facts(packets.get(name) or each.get("lldp") or ())
        if name and found:
            parsed[name] = found
    if parsed:
        subject.plugin_data["parsed_lldp"] = parsed


@hook("pci-devices")
def pci_devices(subject: Subject, options: Options) -> None:
    """Capabilities that count devices, by `[inspector]pci_device_alias`."""
    found = pci.count(_pci_devices(subject), options["inspector"]["pci_device_alias"])
    subject.set_capabilities(**{name: str(count) for name, count in found.items()})


@hook("accelerators")
def accelerators(subject: Subject, options: Options) -> None:
    """`properties/accelerators`, by `[inspector]known_accelerators`."""
    devices = _pci_devices(subject)
    if devices:
        known = options["inspector"]["known_accelerators"]
        subject.set_property("accelerators", pci.accelerators(devices, known))


@hook("extra-hardware")
def extra_hardware(subject: Subject, options: Options) -> None:
    """
    Plugin data `extra`, nested, made of `data`, a list of [kind, thing, property, value] as the
    tool hardware-detect has it. With `[inspector]extra_hardware_strict` all of it must be that.
    """
    data, strict = subject.plugin_data.get("data"), options["inspector"]["extra_hardware_strict"]
    if data is None:
        return
    listed = isinstance(data, list) and all(isinstance(item, list) for item in data)
    readable = listed and not (strict and any(len(item) != 4 for item in data))
    if readable or strict:
        del subject.plugin_data["data"]
    if not readable:
        return
    extra: dict[str, dict[str, dict[str, Any]]] = {}
    for item in data:
        if len(item) == 4 and all(isinstance(name, str) for name in item[:3]):
            kind, thing, name, value = item
            extra.setdefault(kind, {}).setdefault(thing, {})[name] = _as_number(value)
    subject.plugin_data["extra"] = extra


@hook("raid-device")
def raid_device(subject: Subject, options: Options) -> None:
    """
    `properties/root_device`, where it is not known: the disk that is there since the inspection
    before, told by its serial number, if that is one.
    """
    if "root_device" in subject.node.get("properties", {}) or subject.before is None:
        return
    new = _serials(subject.inventory) - _serials(subject.before)
    if len(new) == 1:
        subject.set_property("root_device", {"serial": new.pop()})


def _serials(inventory: Mapping[str, Any]) -> set[str]:
    return {disk["serial"] for disk in inventory.get("disks") or () if disk.get("serial")}


def _pci_devices(subject: Subject) -> Sequence[Mapping[str, Any]]:
    """Agents tell them beside the inventory, BMCs in it."""
    found = subject.plugin_data.get("pci_devices") or subject.inventory.get("pci_devices") or ()
    return cast(Sequence[Mapping[str, Any]], found)


def _as_number(value: Any) -> Any:
    try:
        return int(value)
    except (ValueError, TypeError):
        return value


def _part(subject: Subject, name: str) -> Mapping[str, Any]:
    found = subject.inventory.get(name)
    return found if isinstance(found, Mapping) else {}


def _needed(subject: Subject, part: str, key: str, complaint: str) -> Any:
    """A value that the inventory must have. Raises InspectionFailed with the complaint."""
    found = _part(subject, part).get(key)
    if not found:
        raise InspectionFailed(complaint)
    return found


def _disk_sizes(subject: Subject) -> list[int]:
    disks = subject.inventory.get("disks") or ()
    return [disk["size"] for disk in disks if (disk.get("size") or 0) >= _SMALLEST_DISK]


def _pxe_mac(inventory: Mapping[str, Any]) -> str | None:
    """The address of the interface that booted; pxelinux puts 01- before it."""
    found = str((inventory.get("boot") or {}).get("pxe_interface") or "").lower()
    if "-" in found:
        found = found.partition("-")[2] if found.count("-") > 5 else found
        found = found.replace("-", ":")
    return found or None


def _interfaces(inventory: Mapping[str, Any]) -> dict[str, Interface]:
    """
    name -> interface, of those that have a name and an address. `pxe_enabled` of one: the machine
    has booted from it, as far as that is known.
    """
    pxe = _pxe_mac(inventory)
    found: dict[str, Interface] = {}
    for each in inventory.get("interfaces") or ():
        name, mac = each.get("name"), str(each.get("mac_address") or "").lower()
        if name and _MAC.fullmatch(mac):
            address = str(each.get("ipv6_address") or "").partition("%")[0] or None
            found[name] = {
                **each,
                "mac_address": mac,
                "ipv6_address": address,
                "pxe_enabled": pxe is None or mac == pxe,
            }
    return found


def _addresses(interface: Mapping[str, Any]) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    found = []
    for name in ("ipv4_address", "ipv6_address"):
        try:
            found.append(ipaddress.ip_address(interface.get(name) or ""))
        except ValueError:
            continue
    return found


def _is_local(name: str, interface: Mapping[str, Any]) -> bool:
    return name == "lo" or any(each.is_loopback for each in _addresses(interface))
