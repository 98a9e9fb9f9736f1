"""Redfish: firmware components of a machine, and the command to update one."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any
from urllib.parse import urlsplit

from drivers.core.errors import NotSupported
from drivers.redfish import parts
from drivers.redfish.client import Connection
from drivers.redfish.values import entry, text

#: Prefix of components that are network adapters.
NIC = "nic:"
#: component -> vendors' names of it, in the Id or the Name of an inventory entry
_NAMES = {
    "bios": ("bios", "uefi", "system rom"),
    "bmc": ("bmc", "idrac", "ilo", "xcc", "integrated dell remote access controller"),
}
#: Words in the Id or the Name of an entry that is not the running firmware.
_NOT_RUNNING = {"available", "backup", "pending", "previous", "redundant"}


def components(bmc: Connection) -> list[dict[str, Any]]:
    """
    Read the firmware components that have a version, as `target.report(firmware=...)` takes them.

    Raises NotSupported: there are none.
    """
    found: dict[str, dict[str, Any]] = {}
    for component, version, about in _versions(bmc, bmc.system(fresh=True)):
        if text(version):
            facts = {name: text(value) for name, value in about.items()}
            found.setdefault(
                component, {"component": component, "current_version": text(version), **facts}
            )
    if not found:
        raise NotSupported(f"BMC {bmc.access.address} reports no firmware version")
    return list(found.values())


def _versions(bmc: Connection, system: Any) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield (component, version, other facts), unchecked values of the BMC's documents."""
    made = {"vendor": system.manufacturer, "model": system.model}
    yield "bios", system.bios_version, {**made, "serial_number": system.serial_number}
    for manager in parts.managers(bmc, system):
        yield "bmc", manager.firmware_version, {**made, "model": manager.model}
    for component, adapter in _adapters(bmc, system):
        about = {"vendor": adapter.manufacturer, "model": adapter.model}
        for controller in adapter.controllers or ():
            version = controller.firmware_package_version
            yield component, version, {**about, "serial_number": adapter.serial_number}


def update(bmc: Connection, component: str, url: str, before_order: Callable[[], None]) -> str:
    """
    Start an update from a URL; return the path of the BMC's task.

    before_order: called right before the order, after all reads: an attempt that was stopped
    between its check and its order gives it a second time.
    """
    from sushy import exceptions as theirs

    service = bmc.open().get_update_service()
    if entry(entry(service.json, "Actions"), "#UpdateService.SimpleUpdate") is None:
        raise NotSupported(f"BMC {bmc.access.address} has no SimpleUpdate: it fetches no firmware")
    protocol, path = urlsplit(url).scheme.upper(), _target(bmc, service, component)
    before_order()
    try:
        monitor = service.simple_update(url, [path] if path else None, protocol)
    except theirs.BadRequestError:
        if path is None:
            raise
        # some BMCs refuse Targets, and read the component from the image
        before_order()
        monitor = service.simple_update(url, transfer_protocol=protocol)
    return str(monitor.task_monitor_uri)


def _adapters(bmc: Connection, system: Any) -> Iterator[tuple[str, Any]]:
    """Yield (component, network adapter) of the chassis of a system."""
    for chassis in parts.chassis(bmc, system):
        for adapter in parts.members(bmc, chassis, "network_adapters"):
            name = text(adapter.serial_number) or text(adapter.identity)
            if name:
                yield f"{NIC}{name}"[:255], adapter


def _target(bmc: Connection, service: Any, component: str) -> str | None:
    """
    Return the path of a component's entry in the firmware inventory; None if it is ambiguous.

    It is the only entry that links to the component's resource and has one of the component's
    names, else the only one that links to it, else the only one that has such a name.
    """
    system = bmc.system(fresh=False)
    resources: set[str | None]
    if component == "bios":
        resources = {parts.link(system, "bios")}
    elif component == "bmc":
        resources = {each.path for each in parts.managers(bmc, system)}
    else:
        resources = {each.path for name, each in _adapters(bmc, system) if name == component}
    entries = [
        each
        for each in parts.members(bmc, service, "firmware_inventory")
        if not _NOT_RUNNING.intersection(_words(each))
    ]
    related = [each for each in entries if resources.intersection(parts.links(each, "RelatedItem"))]
    named = [each for each in entries if _is_named(each, _NAMES.get(component, ()))]
    both = [each for each in related if each in named]
    for candidates in (both, related, named):
        # an iDRAC lists the running firmware twice, as Current-... and as Installed-...
        different = {f"{each.name} {each.version}": str(each.path) for each in reversed(candidates)}
        if len(different) == 1:
            return different.popitem()[1]
    return None


def _words(item: Any) -> list[str]:
    return re.findall(r"[a-z]+", f"{item.identity} {item.name}".lower())


def _is_named(item: Any, names: Collection[str]) -> bool:
    return any(f" {name} " in f" {' '.join(_words(item))} " for name in names)
