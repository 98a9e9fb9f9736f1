"""
Recorded facts of a machine as texts by name, as `bios.BootMode`, and their comparison.

The names of BIOS settings and firmware are those that rules of baselines have. Values come from
BMCs: they are cut, and have no characters that cannot be printed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.inventory import hardware_inventory
from app.models import BiosSetting, FirmwareComponent, NodeInventory

#: Name -> value. None: no fact is recorded.
Facts = Mapping[str, str | None] | None
#: Most characters of a name, and of a value.
LONGEST = 255
#: Keys that name an item of a list, the best first.
_NAMES = ("serial", "mac_address", "name")
#: A fact that another one has in other units.
_REDUNDANT = frozenset({"memory.total"})


def of_bios(session: Session, node_id: int) -> Facts:
    """Return the BIOS settings, as `bios.NAME`."""
    query = select(BiosSetting.name, BiosSetting.value).where(BiosSetting.node_id == node_id)
    return _named("bios", session.execute(query))


def of_firmware(session: Session, node_id: int) -> Facts:
    """Return the versions of components, as `firmware.COMPONENT`."""
    columns = FirmwareComponent.component, FirmwareComponent.current_version
    query = select(*columns).where(FirmwareComponent.node_id == node_id)
    return _named("firmware", session.execute(query))


def of_inventory(session: Session, node_id: int) -> Facts:
    """
    Return the facts that the BMC has shown: members of sections as `memory.physical_mb`, items of
    lists as `disks.SERIAL`.
    """
    inventory = hardware_inventory.of_bmc(session.get(NodeInventory, node_id))
    return None if inventory is None else dict(_facts_of(inventory))


def changes(
    old_facts: Mapping[str, str | None], facts: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """Return the facts that differ: [{"fact", "before", "after"}], by name. None: there is none."""
    return [
        {"fact": name, "before": old_facts.get(name), "after": facts.get(name)}
        for name in sorted({*old_facts, *facts})
        if old_facts.get(name) != facts.get(name)
    ]


def text(value: object) -> str:
    """Return a value as a text of a line."""
    return "".join(filter(str.isprintable, str(value)[:LONGEST]))


def _named(kind: str, rows: Any) -> Facts:
    facts = {text(f"{kind}.{name}"): None if value is None else text(value) for name, value in rows}
    return facts or None


def _facts_of(inventory: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for section, value in inventory.items():
        if isinstance(value, Mapping):
            for key, member in value.items():
                if f"{section}.{key}" not in _REDUNDANT:
                    yield text(f"{section}.{key}"), text(member)
        elif isinstance(value, list):
            yield from _items(section, value)
        else:
            yield text(section), text(value)


def _items(section: str, items: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield the items of a list; equal names get a number."""
    counts: dict[str, int] = {}
    for item in items:
        members = item if isinstance(item, Mapping) else {"name": item}
        name = next((str(members[key]) for key in _NAMES if members.get(key)), "unnamed")
        counts[name] = counts.get(name, 0) + 1
        number = f" ({counts[name]})" if counts[name] > 1 else ""
        described = ", ".join(f"{key} {members[key]}" for key in sorted(members, key=str))
        yield text(f"{section}.{name}{number}"), text(described)
