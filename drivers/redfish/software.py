"""Redfish: firmware components of a machine, and the command to update one."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from drivers.core.errors import BadArgument, NotFound, NotSupported
from drivers.redfish.changes.orders import Order, Request
from drivers.redfish.transport import navigation
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import entry, link_paths, text

if TYPE_CHECKING:
    from sushy.resources.system.network.adapter import NetworkAdapter
    from sushy.resources.system.system import System
    from sushy.resources.updateservice.softwareinventory import SoftwareInventory


#: Prefix of components that are network adapters.
NIC = "nic:"
#: component -> vendors' names of it, in the Id or the Name of an inventory entry
_NAMES = {
    "bios": ("bios", "uefi", "system rom"),
    "bmc": ("bmc", "idrac", "ilo", "xcc", "integrated dell remote access controller"),
}
#: Words in the Id or the Name of an entry that is not the running firmware.
_NOT_RUNNING = {"available", "backup", "pending", "previous", "redundant"}


def components(bmc: Connection) -> list[dict[str, object]]:
    """
    Read the firmware components that have a version, as `target.report(firmware=...)` takes them.

    Raises NotSupported: there are none.
    """
    entries: dict[str, dict[str, object]] = {}
    for component, version, attributes in _versions(bmc, bmc.system(fresh=True)):
        if text(version):
            facts = {name: text(value) for name, value in attributes.items()}
            entries.setdefault(
                component, {"component": component, "current_version": text(version), **facts}
            )
    if not entries:
        raise NotSupported(f"BMC {bmc.access.address} reports no firmware version")
    return list(entries.values())


def _versions(bmc: Connection, system: "System") -> Iterator[tuple[str, object, dict[str, object]]]:
    """Yield (component, version, other facts), unchecked values of the BMC's documents."""
    system_attributes = {"vendor": system.manufacturer, "model": system.model}
    yield "bios", system.bios_version, {**system_attributes, "serial_number": system.serial_number}
    for manager in navigation.managers(bmc, system):
        yield "bmc", manager.firmware_version, {**system_attributes, "model": manager.model}
    for component, adapter in _adapters(bmc, system):
        adapter_attributes = {"vendor": adapter.manufacturer, "model": adapter.model}
        for controller in adapter.controllers or ():
            version = controller.firmware_package_version
            yield component, version, {**adapter_attributes, "serial_number": adapter.serial_number}


class Update(Order):
    """
    Update of a component from a URL, by SimpleUpdate.

    target: path or Id of the inventory entry to update; by default the component's. version:
    version of the image, if known.
    """

    is_compared: ClassVar[bool] = False  # BIOS versions change at the restart after all updates

    def __init__(
        self, component: str, url: str, target: str | None = None, version: str | None = None
    ) -> None:
        self.component, self.url, self.target, self.version = component, url, target, version
        self.subject = f"the update of {component}"

    def facts(self, bmc: Connection) -> dict[str, object]:
        return {"version": current_version(bmc, self.component), "systems": systems(bmc)}

    def request(self, bmc: Connection) -> Request:
        """
        Return the request, with the target if it is known.

        Raises NotSupported: the BMC fetches no firmware.
        Raises BadArgument: several targets match.
        """
        service = bmc.open().get_update_service()
        service.refresh(force=True)
        action = entry(service.json, "Actions", "#UpdateService.SimpleUpdate")
        path = text(entry(action, "target"), 2000)
        if path is None or not path.startswith("/"):
            raise NotSupported(
                f"BMC {bmc.access.address} has no SimpleUpdate: it fetches no firmware"
            )
        body = {"ImageURI": self.url, "TransferProtocol": urlsplit(self.url).scheme.upper()}
        update_target = _target(bmc, service, self.component, self.target)
        return Request(
            "POST", path, {**body, **({"Targets": [update_target]} if update_target else {})}
        )

    def instead(
        self, request: Request, facts: Mapping[str, object], refusal: str
    ) -> Request | None:
        """
        Leave out Targets if the BMC does not know the parameter, and has no other system.

        Without Targets, the BMC updates all parts that the image is for. A refusal of the target's
        value is final: the image may be for another part.
        """
        is_unknown = "Targets" in refusal and "value" not in refusal.lower()
        body = dict(request.body or {})
        if facts["systems"] != 1 or self.target or not is_unknown or "Targets" not in body:
            return None
        del body["Targets"]
        return replace(request, body=body)

    def difference(self, bmc: Connection, facts: Mapping[str, object]) -> str:
        """Compare the version with that of the image; if that is unknown, with the former one."""
        version = current_version(bmc, self.component)
        if version is None:
            return f"the BMC does not report the version of {self.component}"
        if self.version is None:
            return f"the version is still {version}" if version == facts["version"] else ""
        return "" if version == self.version else f"the version is {version}, not {self.version}"

    def was_taken(self, bmc: Connection, facts: Mapping[str, object]) -> bool:
        """Whether the version has changed: the same one is no sign that an update has ended."""
        version = current_version(bmc, self.component)
        return version not in (None, facts["version"]) and not self.difference(bmc, facts)


def current_version(bmc: Connection, component: str) -> str | None:
    """Read the version of a component; None if the BMC does not report it."""
    versions = _versions(bmc, bmc.system(fresh=True))
    return next((text(version) for name, version, _ in versions if name == component), None)


def systems(bmc: Connection) -> int | None:
    """Count the systems of the BMC; None if it does not list them."""
    path = navigation.link(bmc.open(), "systems")
    members = entry(bmc.find(path), "Members") if path else None
    return len(members) if isinstance(members, list) and members else None


def _adapters(bmc: Connection, system: "System") -> Iterator[tuple[str, "NetworkAdapter"]]:
    """Yield (component, network adapter) of the chassis of a system."""
    for chassis in navigation.chassis(bmc, system):
        for adapter in navigation.members(bmc, chassis, "network_adapters"):
            name = text(adapter.serial_number) or text(adapter.identity)
            if name:
                yield f"{NIC}{name}"[:255], adapter


def _target(bmc: Connection, service: object, component: str, choice: str | None) -> str | None:
    """
    Return the path of a component's entry in the firmware inventory.

    The entry links to the component's resource and has one of the component's names, or links to
    it, or has such a name. At a BMC with several systems, or an unknown number of them, it also
    belongs to this system; without such an entry, the target is the system's own resource. None:
    the BMC has one system and no entry, and finds the part by the image.

    choice: path or Id of the entry.

    Raises BadArgument: several entries match, or none is the choice.
    """
    system = bmc.system(fresh=False)
    entries = [
        inventory_item
        for inventory_item in navigation.members(bmc, service, "firmware_inventory")
        if not _NOT_RUNNING.intersection(_words(inventory_item))
    ]
    if choice is not None:
        return _chosen(choice, system, entries)
    owner, *other_owners = _owners(bmc, system, component)
    is_shared = systems(bmc) != 1
    updateable = [
        inventory_item
        for inventory_item in entries
        if inventory_item.json.get("Updateable") is not False
    ]
    if is_shared and component != "bmc":
        updateable = [
            inventory_item for inventory_item in updateable if _is_of_system(inventory_item, system)
        ]
    matches = _matches(component, updateable, system, {owner, *other_owners})
    for paths in matches:
        if len(paths) == 1:
            return paths[0]
    ambiguous = next((ambiguous_paths for ambiguous_paths in matches if ambiguous_paths), None)
    if ambiguous:
        raise BadArgument(
            f"settings: {component} may be any of {', '.join(sorted(ambiguous))}: name one of them"
            " as `target`"
        )
    return str(owner) if is_shared else None


def _matches(
    component: str,
    updateable: Sequence["SoftwareInventory"],
    system: "System",
    resources: set[str],
) -> list[list[str]]:
    """
    Return the paths of the entries that match a component: of those that link to it and have its
    name, of those that link to it, of those that have its name.

    resources: paths of the resources that the component is part of.
    """
    names = _NAMES.get(component, ())
    related_items = [
        inventory_item
        for inventory_item in updateable
        if resources.intersection(link_paths(inventory_item.json, "RelatedItem"))
    ]
    named_items = [
        inventory_item for inventory_item in updateable if _is_named(inventory_item, names)
    ]
    common_items = [
        inventory_item for inventory_item in related_items if inventory_item in named_items
    ]
    if component == "bios":  # entries of other parts link to the system, too
        related_items = [
            inventory_item
            for inventory_item in related_items
            if _links_to(inventory_item, navigation.link(system, "bios"))
        ]
    return [_different(candidates) for candidates in (common_items, related_items, named_items)]


def _owners(bmc: Connection, system: "System", component: str) -> list[str]:
    """
    Return the paths of the resources that a component is part of, the most general first.

    Raises NotFound: the machine does not have the component.
    """
    if component == "bios":
        return [system.path, *filter(None, [navigation.link(system, "bios")])]
    if component == "bmc":
        paths = [manager.path for manager in navigation.managers(bmc, system)]
    else:
        paths = [
            adapter_path.path for name, adapter_path in _adapters(bmc, system) if name == component
        ]
    if not paths:
        raise NotFound(f"BMC {bmc.access.address} has no {component}")
    return paths


def _different(entries: Sequence["SoftwareInventory"]) -> list[str]:
    """
    Return the paths of different entries.

    An iDRAC lists the running firmware twice, as Current-... and as Installed-...
    """
    return list(
        {f"{item.name} {item.version}": str(item.path) for item in reversed(entries)}.values()
    )


def _chosen(choice: str, system: "System", entries: Collection["SoftwareInventory"]) -> str:
    paths = [str(item.path) for item in entries]
    matching_paths = [str(item.path) for item in entries if item.identity == choice]
    for path in (*paths, str(system.path)):
        if path.rstrip("/") == choice.rstrip("/"):
            return path
    if len(matching_paths) == 1:
        return matching_paths[0]
    raise BadArgument(
        f"settings: target {choice!r} is none of {', '.join((*paths, str(system.path)))}"
    )


def _links_to(item: "SoftwareInventory", path: str | None) -> bool:
    return path in link_paths(item.json, "RelatedItem")


def _is_of_system(item: "SoftwareInventory", system: "System") -> bool:
    """Whether an entry belongs to a system: it links to it or its parts, or has its Id."""
    links = link_paths(item.json, "RelatedItem")
    system_path = str(system.path).rstrip("/")
    folder = system_path.rpartition("/")[0] + "/"
    of_systems = [link for link in links if link.startswith(folder)]
    if of_systems:
        return any(f"{link}/".startswith(f"{system_path}/") for link in of_systems)
    name = str(system.identity).lower()
    # a number is no name: entries and slots are numbered, too
    return not name.isdecimal() and name in re.split(
        r"[^a-z0-9]+", f"{item.identity} {item.name}".lower()
    )


def _words(item: "SoftwareInventory") -> list[str]:
    return re.findall(r"[a-z]+", f"{item.identity} {item.name}".lower())


def _is_named(item: "SoftwareInventory", names: Collection[str]) -> bool:
    return any(f" {name} " in f" {' '.join(_words(item))} " for name in names)
