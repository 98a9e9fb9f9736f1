"""
Facts of a machine that rules of baselines compare: inventory, firmware, BIOS, measured numbers.

Agents and BMCs report the inventory, with any content. A fact of another type than expected, or
beyond its limits, is unknown; so is a number of items of which one cannot be judged.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
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
Fact = int | float | str | None


@dataclass(frozen=True, slots=True)
class Facts:
    """Recorded facts of a machine."""

    inventory: Any = None  # of the last inspection
    firmware: Mapping[str, object] = field(default_factory=dict)  # component -> current version
    bios: Mapping[str, object] = field(default_factory=dict)  # name -> value
    #: metric -> measured numbers, the newest first
    measured: Mapping[str, Sequence[float]] = field(default_factory=dict)
    #: metric -> median of the newest numbers of all nodes of the baseline
    medians: Mapping[str, float] = field(default_factory=dict)


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


def of_measured(facts: Facts, metric: str) -> float | None:
    """Return the newest number of a metric."""
    return next(iter(facts.measured.get(metric, ())), None)


def of_own_median(facts: Facts, metric: str) -> float | None:
    """
    Return the newest number of a metric, in percent of the median of those before.

    The first number is 100.
    """
    newest, *earlier = facts.measured.get(metric, ()) or (None,)
    if newest is not None and not earlier:
        return 100.0
    return _percent(newest, median(earlier) if earlier else None)


def of_group_median(facts: Facts, metric: str) -> float | None:
    """Return the newest number of a metric, in percent of the median of the baseline's nodes."""
    return _percent(of_measured(facts, metric), facts.medians.get(metric))


def _percent(value: float | None, reference: float | None) -> float | None:
    """Return a percentage to two decimals; None: there is none of this reference."""
    if value is None or reference is None or reference <= 0:
        return None
    percentage = 100 * (value / reference)
    return round(percentage, 2) if math.isfinite(percentage) else None


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
