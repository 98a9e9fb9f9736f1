"""
Hardware types that live conductors have loaded, and their properties.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.cluster import conductors
from app.errors import NotFound
from app.models import Conductor
from app.runtime import runtime_of
from drivers.core.interface_kinds import Raid
from drivers.core.registry import Registry


@dataclass(slots=True)
class LoadedDriver:
    """A hardware type, as the live conductors have it."""

    name: str
    hosts: list[str] = field(default_factory=list)  # names of the conductors, sorted
    #: kind -> names of all interfaces that at least one conductor accepts, the default first
    interfaces: dict[str, list[str]] = field(default_factory=dict)


def loaded(session: Session) -> dict[str, LoadedDriver]:
    """Return the loaded drivers by name, in alphabetical order."""
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    live_hosts = {conductor.name for conductor in conductors.alive(session, timeout)}
    drivers: dict[str, LoadedDriver] = {}
    rows = session.execute(
        select(Conductor.hostname, Conductor.interfaces).order_by(Conductor.hostname)
    )
    for host, types in rows:
        if host not in live_hosts:
            continue
        for name, kinds in types.items():
            driver = drivers.setdefault(name, LoadedDriver(name))
            driver.hosts.append(host)
            for kind, names in (kinds or {}).items():
                interface_names = driver.interfaces.setdefault(kind, [])
                interface_names.extend(name for name in names if name not in interface_names)
    return dict(sorted(drivers.items()))


UNKNOWN = "The driver '{ident}' is unknown: no live conductor has loaded it."


def find(session: Session, name: str) -> LoadedDriver:
    """
    Return a loaded driver.

    Raises NotFound: no live conductor has loaded it.
    """
    driver = loaded(session).get(name)
    if driver is None:
        raise NotFound("driver", name, UNKNOWN)
    return driver


def properties(registry: Registry, name: str) -> Mapping[str, str]:
    """Return keys of driver_info and their descriptions, of all interfaces of a driver."""
    kinds = registry.types.get(name, {})
    return {
        key: text
        for interfaces in kinds.values()
        for interface in interfaces.values()
        for key, text in interface.properties.items()
    }


def logical_disk_properties(registry: Registry, name: str) -> Mapping[str, str]:
    """
    Return properties of logical disks and their descriptions, of the driver's RAID interface.

    That is the default interface, or the first one that is not `absent`.

    Raises NotFound: the driver has no RAID interface.
    """
    for interface in registry.types.get(name, {}).get("raid", {}).values():
        if isinstance(interface, Raid) and not interface.absent:
            return interface.logical_disk_properties()
    raise NotFound("RAID of driver", name)
