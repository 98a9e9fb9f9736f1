"""
Ironic's hardware types and interfaces, and what serves their machines here; and the way back.

A name that the hardware type has at the destination stays as it is; only other names are looked up
in the tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivers.core.interface_kinds import KINDS


@dataclass(frozen=True, slots=True)
class Successor:
    """The hardware type that serves the machines of one of Ironic's."""

    name: str
    #: prefix of options in `driver_info` -> the prefix that they get, if the new one is not set
    renamed: tuple[str, str] = ("", "")


#: Hardware type of Ironic -> its successor.
HARDWARE_TYPES: Mapping[str, Successor] = {
    "ilo": Successor("redfish", ("ilo_", "redfish_")),
    "ilo5": Successor("redfish", ("ilo_", "redfish_")),
    "irmc": Successor("redfish", ("irmc_", "redfish_")),
    "ibmc": Successor("redfish", ("ibmc_", "redfish_")),
    "idrac": Successor("idrac", ("drac_", "redfish_")),
}
#: Options whose prefix changes; others mean nothing to the successor.
RENAMED = ("address", "username", "password", "system_id", "verify_ca")

#: (kind, interface of Ironic) -> interfaces that replace it, the first that the hardware type has;
#: and what its users lose, empty: nothing.
INTERFACES: Mapping[tuple[str, str], tuple[Sequence[str], str]] = {
    ("bios", "idrac-wsman"): (("idrac-redfish",), ""),
    ("bios", "ilo"): (("redfish",), ""),
    ("bios", "irmc"): (("redfish",), ""),
    ("boot", "ilo-virtual-media"): (("redfish-virtual-media",), ""),
    ("boot", "ilo-uefi-https"): (("redfish-https",), ""),
    ("boot", "irmc-virtual-media"): (("redfish-virtual-media",), ""),
    ("boot", "ilo-ipxe"): (("ipxe",), ""),
    ("boot", "ilo-pxe"): (("pxe",), ""),
    ("boot", "irmc-pxe"): (("pxe",), ""),
    ("console", "ilo"): (("no-console",), "console"),
    ("console", "ipmitool-shellinabox"): (("no-console",), "console"),
    ("console", "ipmitool-socat"): (("no-console",), "console"),
    ("console", "fake-graphical"): (("no-console",), "console"),
    ("inspect", "idrac"): (("idrac-redfish",), ""),
    ("inspect", "idrac-wsman"): (("idrac-redfish",), ""),
    ("inspect", "ilo"): (("redfish",), ""),
    ("inspect", "inspector"): (("agent",), ""),
    ("inspect", "irmc"): (("redfish",), ""),
    ("management", "ibmc"): (("redfish",), ""),
    ("management", "idrac-wsman"): (("idrac-redfish",), ""),
    ("management", "ilo"): (("redfish",), ""),
    ("management", "ilo5"): (("redfish",), ""),
    ("management", "irmc"): (("redfish",), ""),
    ("power", "ibmc"): (("redfish",), ""),
    ("power", "idrac-wsman"): (("idrac-redfish",), ""),
    ("power", "ilo"): (("redfish",), ""),
    ("power", "irmc"): (("redfish",), ""),
    ("raid", "ibmc"): (("redfish",), ""),
    ("raid", "idrac-wsman"): (("idrac-redfish",), ""),
    ("raid", "ilo5"): (("redfish",), ""),
    ("raid", "irmc"): (("redfish",), ""),
    ("vendor", "ibmc"): (("redfish",), "vendor functions of iBMC"),
    ("vendor", "idrac-wsman"): (("idrac-redfish",), ""),
    ("vendor", "ilo"): (("redfish",), "vendor functions of iLO"),
    ("vendor", "irmc"): (("redfish",), "vendor functions of iRMC"),
}
#: Of the way back: (kind, interface here) -> interfaces of Ironic, and what
#: users lose.
WAY_BACK: Mapping[tuple[str, str], tuple[Sequence[str], str]] = {
    ("boot", "redfish-virtual-media"): (("idrac-redfish-virtual-media",), ""),
    ("console", "ipmitool-shellinabox"): (("ipmitool-socat",), "the console as a web page"),
    ("console", "redfish-serial"): (("no-console",), "console"),
    ("inspect", "redfish"): (("idrac-redfish",), ""),
    ("management", "redfish"): (("idrac-redfish",), ""),
    ("raid", "redfish"): (("idrac-redfish",), ""),
}


@dataclass(frozen=True, slots=True)
class Direction:
    """The tables of a move, and the words of its refusals."""

    successors: Mapping[str, Successor]
    interfaces: Mapping[tuple[str, str], tuple[Sequence[str], str]]
    no_type: str  # of an unserved hardware type, before the list of the others
    offered: str  # before the list of interfaces


ARRIVAL = Direction(
    HARDWARE_TYPES,
    INTERFACES,
    "is not enabled here; see [DEFAULT]enabled_hardware_types, which has",
    "is not served; enabled are",
)
DEPARTURE = Direction({}, WAY_BACK, "is none of Ironic, which has", "is not in Ironic, which has")


class NotServed(Exception):
    """The destination serves no such hardware type or interface; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """Driver, interfaces and `driver_info` of a node, and the changes of them in words."""

    driver: str
    interfaces: Mapping[str, str | None]  # field -> name; None: there was none
    driver_info: Mapping[str, Any]
    notes: Sequence[str]


def mapped(
    node: Mapping[str, Any],
    driver_info: Mapping[str, Any],
    types: Mapping[str, Mapping[str, Sequence[str]]],
    replacements: Mapping[tuple[str, str], str],
    direction: Direction = ARRIVAL,
) -> Mapped:
    """
    Map driver and interfaces of a node to those of the destination.

    types: {hardware type: {kind: [interface]}} of the destination.
    replacements: (kind, interface) -> its replacement, by the operator; it precedes the table.

    Raises NotServed.
    """
    name = node["driver"]
    successor = direction.successors.get(name, Successor(name))
    if successor.name not in types:
        raise NotServed(
            f"driver {name}: hardware type {successor.name} {direction.no_type}"
            f" {', '.join(sorted(types)) or 'none'}"
        )
    notes = [f"driver {name} -> {successor.name}"] if successor.name != name else []
    info, renamed = _renamed(driver_info, successor)
    interfaces: dict[str, str | None] = {}
    for kind in KINDS:
        field = f"{kind}_interface"
        old_name, available = node.get(field), types[successor.name][kind]
        new_name, lost = _interface(kind, old_name, available, replacements, direction)
        interfaces[field] = new_name
        if new_name != old_name:
            loss = f" (without {lost})" if lost else ""
            notes.append(f"{field} {old_name} -> {new_name}{loss}")
    return Mapped(successor.name, interfaces, info, [*notes, *renamed])


def _interface(
    kind: str,
    name: str | None,
    available: Sequence[str],
    replacements: Mapping[tuple[str, str], str],
    direction: Direction,
) -> tuple[str | None, str]:
    """Return the interface that replaces one, and what is lost. Raises NotServed."""
    if name is None:
        return available[0], ""
    selected = replacements.get((kind, name))
    if selected is not None:
        if selected not in available:
            raise NotServed(
                f"--interface {kind}:{name}={selected}: there are {', '.join(available)}"
            )
        return selected, ""
    if name in available:
        return name, ""
    candidates, lost = direction.interfaces.get((kind, name), ((), ""))
    for candidate in candidates:
        if candidate in available:
            return candidate, lost
    raise NotServed(
        f"{kind}_interface {name} {direction.offered} {', '.join(available)}: choose one by"
        f" --interface {kind}:{name}=NAME"
    )


def _renamed(info: Mapping[str, Any], successor: Successor) -> tuple[dict[str, Any], list[str]]:
    """Return `driver_info` with options of the successor, and the renamed ones in words."""
    renamed, notes = dict(info), []
    old_prefix, new_prefix = successor.renamed
    for option in RENAMED if old_prefix else ():
        old_key, new_key = f"{old_prefix}{option}", f"{new_prefix}{option}"
        if old_key in info and new_key not in info:
            renamed[new_key] = renamed.pop(old_key)
            notes.append(f"driver_info {old_key} -> {new_key}")
    return renamed, notes
