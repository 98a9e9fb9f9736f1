"""
Inspection hooks: they derive properties and ports from an inventory, as `[inspector]hooks` lists.

A hook receives the subject, and the settings by group and name. It changes the subject, or raises
InspectionFailed. Other packages add hooks by the entry point group `ingot.inspection_hooks`, whose
entries name functions with this signature.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, cast

from app.inspection import lldp, pci
from app.inspection.inventory_interfaces import (
    addresses_of,
    interfaces_of,
    is_local,
    pxe_mac,
    reasons_of,
)
from app.inspection.subject import Subject
from app.observe import log
from drivers.core import capabilities
from drivers.core.errors import InspectionFailed
from drivers.core.target import Options

logger = log.get(__name__)

ENTRY_POINTS = "ingot.inspection_hooks"
Hook = Callable[[Subject, Options], None]

_HOOKS: dict[str, Hook] = {}
#: Hook -> hooks that must run before it.
_NEEDS: dict[str, tuple[str, ...]] = {}
#: Bytes of the smallest disk that a system can be installed on.
_SMALLEST_DISK = 4 << 30


def hook(name: str, *, needs: tuple[str, ...] = ()) -> Callable[[Hook], Hook]:
    """Register a hook. needs: hooks that must run before it."""

    def register(function: Hook) -> Hook:
        _HOOKS[name], _NEEDS[name] = function, needs
        return function

    return register


@cache
def known() -> Mapping[str, Hook]:
    """Return all hooks by name, including hooks of other packages."""
    return {
        entry_point.name: entry_point.load() for entry_point in entry_points(group=ENTRY_POINTS)
    } | _HOOKS


def check(names: Iterable[str]) -> None:
    """
    Check a list of hooks.

    Raises ValueError: a hook is unknown, or another one must run before it.
    """
    previous_names: list[str] = []
    for name in names:
        if name not in known():
            raise ValueError(f"there is no hook {name!r}; there are {', '.join(sorted(known()))}")
        for required_hook in _NEEDS.get(name, ()):
            if required_hook not in previous_names:
                raise ValueError(f"hook {name} needs {required_hook} before it")
        previous_names.append(name)


def run(names: Iterable[str], subject: Subject, options: Options) -> None:
    """Run hooks in order. Raises InspectionFailed."""
    for name in names:
        try:
            known()[name](subject, options)
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # malformed data
            raise InspectionFailed(
                f"hook {name} cannot read the inventory: {type(error).__name__}: {error}"
            ) from error


@hook("ramdisk-error")
def ramdisk_error(subject: Subject, options: Options) -> None:
    """Fail the inspection if the agent reported an error."""
    error = subject.plugin_data.get("error")
    if error:
        raise InspectionFailed(f"the ramdisk reported: {error}")


@hook("validate-interfaces")
def validate_interfaces(subject: Subject, options: Options) -> None:
    """
    Select the network interfaces that become ports, by `[inspector]add_ports`.

    Sets plugin data: `all_interfaces` and `valid_interfaces` (name -> interface), and `macs` of the
    valid ones; `ignored_interfaces` (name -> reason) if there are any.
    """
    interfaces, refused_interfaces = interfaces_of(subject.inventory)
    if refused_interfaces:
        subject.plugin_data["ignored_interfaces"] = refused_interfaces
        node = subject.node.get("uuid")
        logger.warning("inspection.interfaces_ignored", node=node, interfaces=refused_interfaces)
    if not interfaces:
        subject.missing("has no valid network interface" + reasons_of(refused_interfaces))
    port_policy = options["inspector"]["add_ports"]
    valid = {
        name: interface for name, interface in interfaces.items() if not is_local(interface)
        and not (port_policy == "pxe" and not interface["pxe_enabled"])
        and not (port_policy == "active" and not addresses_of(interface))
    }  # fmt: skip
    if interfaces and not valid:
        subject.missing(
            f"has no network interface that qualifies for a port by [inspector]add_ports ="
            f" {port_policy}: it has {', '.join(interfaces)}"
        )
    subject.plugin_data |= {
        "all_interfaces": interfaces,
        "valid_interfaces": valid,
        "macs": [interface["mac_address"] for interface in valid.values()],
    }


@hook("ports", needs=("validate-interfaces",))
def ports(subject: Subject, options: Options) -> None:
    """
    Add, remove and mark ports, by `[inspector]add_ports`, `keep_ports` and `update_pxe_enabled`.
    """
    settings, data = options["inspector"], subject.plugin_data
    interfaces = {
        interface["mac_address"]: interface for interface in data["all_interfaces"].values()
    }
    if not data["valid_interfaces"]:
        return  # without an interface that has to have a port, none is added or removed
    if settings["add_ports"] != "disabled":
        for interface in data["valid_interfaces"].values():
            if subject.port(interface["mac_address"]) is None:
                subject.add_port(interface["mac_address"], pxe_enabled=interface["pxe_enabled"])
    kept_addresses = {"present": set(interfaces), "added": set(data["macs"])}.get(
        settings["keep_ports"]
    )
    subject.ports = [
        port
        for port in subject.ports
        if kept_addresses is None or port["address"] in kept_addresses or port.get("bound")
    ]
    for port in subject.ports:
        pxe_interface = interfaces.get(port["address"], {})
        if settings["update_pxe_enabled"] and pxe_mac(subject.inventory):
            port["pxe_enabled"] = bool(pxe_interface.get("pxe_enabled"))
        if pxe_interface.get("client_id"):
            port["extra"] = {**port["extra"], "client-id": pxe_interface["client_id"]}


@hook("architecture")
def architecture(subject: Subject, options: Options) -> None:
    """Set `properties/cpu_arch`."""
    _copy(subject, "cpu", "architecture", "cpu_arch", "the architecture of the processor")


@hook("cpus")
def cpus(subject: Subject, options: Options) -> None:
    _copy(subject, "cpu", "count", "cpus", "the number of processors")


@hook("memory")
def memory(subject: Subject, options: Options) -> None:
    """Set `properties/memory_mb`."""
    _copy(subject, "memory", "physical_mb", "memory_mb", "the size of the memory")


@hook("root-device")
def root_device(subject: Subject, options: Options) -> None:
    """
    Set `properties/local_gb`: size of the root disk less 1 GiB for partition tables.

    The root disk is the one that the agent would install on, or else the smallest that is large
    enough. 0: the machine has no disks.
    """
    disk = subject.plugin_data.get("root_disk") or {}
    sizes = [disk["size"]] if disk.get("size") else _disk_sizes(subject)
    subject.set_property("local_gb", max(min(sizes, default=0) // (1 << 30) - 1, 0))


@hook("boot-mode")
def boot_mode(subject: Subject, options: Options) -> None:
    """Set the capability `boot_mode`, unless the machine reports an unknown mode."""
    mode = str(_part(subject, "boot").get("current_boot_mode")).lower()
    if mode in capabilities.VALUES["boot_mode"]:
        subject.set_capabilities(boot_mode=mode)


@hook("cpu-capabilities")
def cpu_capabilities(subject: Subject, options: Options) -> None:
    """Set capabilities for CPU flags, by `[inspector]cpu_capabilities`."""
    flags = set(_part(subject, "cpu").get("flags") or ())
    capability_by_flag = options["inspector"]["cpu_capabilities"]
    subject.set_capabilities(
        **{name: "true" for flag, name in capability_by_flag.items() if flag in flags}
    )


@hook("physical-network", needs=("validate-interfaces",))
def physical_network(subject: Subject, options: Options) -> None:
    """Set `physical_network` of ports, by `[inspector]physical_network_cidr_map`."""
    networks = {
        ipaddress.ip_network(cidr): name
        for cidr, _, name in (
            pair.rpartition(":") for pair in options["inspector"]["physical_network_cidr_map"]
        )
    }
    for interface in subject.plugin_data["all_interfaces"].values():
        port = subject.port(interface["mac_address"])
        names = [
            name
            for address in addresses_of(interface)
            for network, name in networks.items()
            if address in network
        ]
        if port is not None and names:
            port["physical_network"] = names[0]


@hook("local-link-connection", needs=("validate-interfaces",))
def local_link_connection(subject: Subject, options: Options) -> None:
    """Set `local_link_connection` of ports: switch and switch port from LLDP packets."""
    packets = subject.plugin_data.get("lldp_raw") or {}
    for name, interface in subject.plugin_data["all_interfaces"].items():
        port = subject.port(interface["mac_address"])
        link = lldp.neighbour(packets.get(name) or interface.get("lldp") or ())
        if port is not None and link:
            port["local_link_connection"] = {**port.get("local_link_connection", {}), **link}


@hook("parse-lldp")
def parse_lldp(subject: Subject, options: Options) -> None:
    """Set plugin data `parsed_lldp`: facts of LLDP packets, by interface."""
    packets = subject.plugin_data.get("lldp_raw") or {}
    parsed = {}
    for interface in subject.inventory.get("interfaces") or ():
        name = interface.get("name")
        lldp_facts = lldp.facts(packets.get(name) or interface.get("lldp") or ())
        if name and lldp_facts:
            parsed[name] = lldp_facts
    if parsed:
        subject.plugin_data["parsed_lldp"] = parsed


@hook("pci-devices")
def pci_devices(subject: Subject, options: Options) -> None:
    """Set capabilities with the number of devices, by `[inspector]pci_device_alias`."""
    device_counts = pci.count(_pci_devices(subject), options["inspector"]["pci_device_alias"])
    subject.set_capabilities(**{name: str(count) for name, count in device_counts.items()})


@hook("accelerators")
def accelerators(subject: Subject, options: Options) -> None:
    """Set `properties/accelerators`, by `[inspector]known_accelerators`."""
    devices = _pci_devices(subject)
    if devices:
        known_path = options["inspector"]["known_accelerators"]
        subject.set_property("accelerators", pci.accelerators(devices, known_path))


@hook("extra-hardware")
def extra_hardware(subject: Subject, options: Options) -> None:
    """
    Set plugin data `extra` from `data`, the output of hardware-detect.

    `data` is a list of [kind, thing, property, value]; `extra` is nested by the first three. With
    `[inspector]extra_hardware_strict` a malformed item invalidates the list.
    """
    data, strict = subject.plugin_data.get("data"), options["inspector"]["extra_hardware_strict"]
    if data is None:
        return
    is_list = isinstance(data, list) and all(isinstance(item, list) for item in data)
    readable = is_list and not (strict and any(len(item) != 4 for item in data))
    if readable or strict:
        del subject.plugin_data["data"]
    if not readable:
        return
    extra: dict[str, dict[str, dict[str, Any]]] = {}
    for item in data:
        if len(item) == 4 and all(isinstance(name, str) for name in item[:3]):
            kind, component, name, value = item
            extra.setdefault(kind, {}).setdefault(component, {})[name] = _as_number(value)
    subject.plugin_data["extra"] = extra


@hook("raid-device")
def raid_device(subject: Subject, options: Options) -> None:
    """
    Set `properties/root_device`, unless set, to the disk that is new since the previous inspection.

    The disk is identified by its serial number; two or more new disks set nothing.
    """
    if "root_device" in subject.node.get("properties", {}) or subject.before is None:
        return
    new_serials = _serials(subject.inventory) - _serials(subject.before)
    if len(new_serials) == 1:
        subject.set_property("root_device", {"serial": new_serials.pop()})


def _serials(inventory: Mapping[str, Any]) -> set[str]:
    return {disk["serial"] for disk in inventory.get("disks") or () if disk.get("serial")}


def _pci_devices(subject: Subject) -> Sequence[Mapping[str, object]]:
    """Return the PCI devices: agents send them next to the inventory, BMCs in it."""
    devices = subject.plugin_data.get("pci_devices") or subject.inventory.get("pci_devices") or ()
    return cast(Sequence[Mapping[str, Any]], devices)


def _as_number(value: Any) -> Any:
    try:
        return int(value)
    except (ValueError, TypeError):
        return value


def _part(subject: Subject, name: str) -> Mapping[str, Any]:
    section = subject.inventory.get(name)
    return section if isinstance(section, Mapping) else {}


def _copy(subject: Subject, part: str, key: str, name: str, fact: str) -> None:
    """
    Set a property to a value of the inventory. fact: the name of the value in messages.

    Raises InspectionFailed: it is missing, and the inventory has to be complete.
    """
    value = _part(subject, part).get(key)
    if not value:
        subject.missing(f"does not contain {fact}")
    subject.set_property(name, value or None)


def _disk_sizes(subject: Subject) -> list[int]:
    disks = subject.inventory.get("disks") or ()
    return [disk["size"] for disk in disks if (disk.get("size") or 0) >= _SMALLEST_DISK]
