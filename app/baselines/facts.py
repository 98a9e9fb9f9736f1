"""
Facts of a machine that rules of baselines compare, from its recorded inventory, firmware and BIOS.

Agents and BMCs report the inventory, with any content. A fact of another type than expected, or
beyond its limits, is unknown; so is a number of items of which one cannot be judged.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Largest number of a fact, and most characters of a text.
LARGEST, LONGEST = 2**53, 255
#: Most disks, and most network interfaces, of a machine.
MOST_ITEMS = 10_000
#: Bytes of a gigabyte, in which disks are sold.
GIGABYTE = 10**9
_LOOPBACK = "lo"

Item = Mapping[Any, Any]
#: Value of a fact; None: it is unknown.
Fact = int | str | None


@dataclass(frozen=True, slots=True)
class Facts:
    """Recorded facts of a machine."""

    inventory: Any = None  # of the last inspection
    firmware: Mapping[str, object] = field(default_factory=dict)  # component -> current version
    bios: Mapping[str, object] = field(default_factory=dict)  # name -> value


def number(value: object) -> int | None:
    """Return an integer within the limits, else None."""
    return value if type(value) is int and 0 <= value <= LARGEST else None


def text(value: object) -> str | None:
    """Return a text without characters that cannot be printed, or None if nothing is left."""
    if not isinstance(value, str):
        return None
    return "".join(filter(str.isprintable, value[:LONGEST])).strip() or None


def of_section(
    name: str, key: str, convert: Callable[[object], Fact]
) -> Callable[[Facts, str], Fact]:
    """Return the function of a value in an object of the inventory, as `cpu.count`."""

    def fact(facts: Facts, _key: str) -> Fact:
        section = _member(facts.inventory, name)
        return convert(_member(section, key))

    return fact


def of_disks(facts: Facts, gigabytes: str) -> int | None:
    """Return the number of disks, or of those with at least a number of gigabytes."""
    disks = _items(facts, "disks")
    if not gigabytes:
        return None if disks is None else len(disks)
    smallest = int(gigabytes) * GIGABYTE
    return _count(disks, lambda disk: _at_least(number(disk.get("size")), smallest))


def of_interfaces(facts: Facts, megabits: str) -> int | None:
    """Return the number of network interfaces, or of those with at least a speed in Mbit/s."""
    interfaces = _interfaces(facts)
    if not megabits:
        return None if interfaces is None else len(interfaces)

    def is_fast(interface: Item) -> bool | None:
        if interface.get("has_carrier") is False:  # a port without a link has no speed
            return False
        return _at_least(number(interface.get("speed_mbps")), int(megabits))

    return _count(interfaces, is_fast)


def of_links(facts: Facts, _key: str) -> int | None:
    """Return the number of network interfaces with a link."""

    def has_link(interface: Item) -> bool | None:
        carrier = interface.get("has_carrier")
        return carrier if isinstance(carrier, bool) else None

    return _count(_interfaces(facts), has_link)


def of_firmware(facts: Facts, component: str) -> str | None:
    """Return the version of a component."""
    return text(facts.firmware.get(component))


def of_bios(facts: Facts, name: str) -> str | None:
    """Return the value of a BIOS setting."""
    return text(facts.bios.get(name))


def _member(document: object, key: str) -> object:
    return document.get(key) if isinstance(document, Mapping) else None


def _items(facts: Facts, name: str) -> list[Item] | None:
    """Return the objects of a list of the inventory; None: it is no list of objects."""
    items = _member(facts.inventory, name)
    if not isinstance(items, list) or len(items) > MOST_ITEMS:
        return None
    return items if all(isinstance(item, Mapping) for item in items) else None


def _interfaces(facts: Facts) -> list[Item] | None:
    interfaces = _items(facts, "interfaces")
    if interfaces is None:
        return None
    return [interface for interface in interfaces if interface.get("name") != _LOOPBACK]


def _at_least(value: int | None, smallest: int) -> bool | None:
    return None if value is None else value >= smallest


def _count(items: Iterable[Item] | None, judge: Callable[[Item], bool | None]) -> int | None:
    """Return the number of items that pass; None: one of them cannot be judged."""
    verdicts = [judge(item) for item in items or ()]
    return None if items is None or None in verdicts else verdicts.count(True)
