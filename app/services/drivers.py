"""
Drivers: the hardware types that live conductors have loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.errors import NotFound
from app.models import Conductor
from app.runtime import of
from app.services import conductors
from drivers.core.kinds import Raid
from drivers.core.registry import Registry
from drivers.noop import NoRaid


@dataclass(slots=True)
class LoadedDriver:
    """
    hosts: conductors that loaded it, sorted.
    interfaces: kind -> names of what all of them together accept, the default first.
    """

    name: str
    hosts: list[str] = field(default_factory=list)
    interfaces: dict[str, list[str]] = field(default_factory=dict)


def loaded(session: Session) -> dict[str, LoadedDriver]:
    """name -> driver, in alphabetical order."""
    timeout = of(session).settings.conductor.heartbeat_timeout
    alive = {each.name for each in conductors.alive(session, timeout)}
    found: dict[str, LoadedDriver] = {}
    rows = session.execute(
        select(Conductor.hostname, Conductor.interfaces).order_by(Conductor.hostname)
    )
    for host, types in rows:
        if host not in alive:
            continue
        for name, kinds in types.items():
            driver = found.setdefault(name, LoadedDriver(name))
            driver.hosts.append(host)
            for kind, names in (kinds or {}).items():
                known = driver.interfaces.setdefault(kind, [])
                known.extend(each for each in names if each not in known)
    return dict(sorted(found.items()))


UNKNOWN = "The driver '{ident}' is unknown: no live conductor has loaded it."


def find(session: Session, name: str) -> LoadedDriver:
    """Raises NotFound for a driver that no live conductor has loaded."""
    driver = loaded(session).get(name)
    if driver is None:
        raise NotFound("driver", name, UNKNOWN)
    return driver


def properties(registry: Registry, name: str) -> Mapping[str, str]:
    """driver_info key -> what it means, of all interfaces that a driver accepts."""
    kinds = registry.types.get(name, {})
    return {
        key: text
        for interfaces in kinds.values()
        for interface in interfaces.values()
        for key, text in interface.properties.items()
    }


def logical_disk_properties(registry: Registry, name: str) -> Mapping[str, str]:
    """
    property of a logical disk -> what it means, of the driver's default RAID interface, or of the
    first that has RAID. Raises NotFound.
    """
    for interface in registry.types.get(name, {}).get("raid", {}).values():
        if isinstance(interface, Raid) and interface.name != NoRaid.name:
            return interface.logical_disk_properties()
    raise NotFound("RAID of driver", name)
