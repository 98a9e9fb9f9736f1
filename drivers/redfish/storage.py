"""
Redfish: RAID controllers, their drives and volumes.

Only volumes that have a RAID type count: some controllers show each drive as a volume, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from drivers.core.errors import NotSupported
from drivers.redfish.client import Connection
from drivers.redfish.parts import part

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Drive:
    """A physical disk. kind: hdd, ssd. interface: sas, sata, ..."""

    path: str
    name: str
    capacity: int
    kind: str
    interface: str


@dataclass(frozen=True, slots=True)
class Volume:
    """A logical disk. raid: its RAIDType. drives: their paths; empty when the BMC tells none."""

    path: str
    id: str
    name: str
    raid: str
    capacity: int
    drives: frozenset[str]


@dataclass(frozen=True, slots=True)
class Controller:
    """
    What can build volumes of its drives.

    volumes_path: where they are created. raids: the RAIDTypes that it has; None: it does not tell.
    apply: the OperationApplyTime to ask for; None: it knows none.
    """

    name: str
    volumes_path: str
    raids: frozenset[str] | None
    apply: str | None
    drives: tuple[Drive, ...]
    volumes: tuple[Volume, ...]


def read(bmc: Connection) -> list[Controller]:
    """
    Read the RAID controllers, from the BMC and no cache.

    Use inside `client.turn` only; raises what that does.
    """
    # sushy keeps parts of a system that it has read: a system of our own has read none
    system = bmc.open().get_system(bmc.system(fresh=False).path)
    found = []
    for storage in part(system, "storage").get_members():
        raids = _raids(storage)
        try:
            collection = part(storage, "volumes")
        except NotSupported:
            continue
        if raids is None or raids:
            found.append(_controller(storage, collection, raids))
    return found


def _controller(storage: Any, collection: Any, raids: frozenset[str] | None) -> Controller:
    drives = list(storage.drives)
    support = collection.json.get("@Redfish.OperationApplyTimeSupport") or {}
    times = support.get("SupportedValues") or ()
    return Controller(
        name=storage.identity,
        volumes_path=collection.path,
        raids=raids,
        apply=next((each for each in ("Immediate", "OnReset") if each in times), None),
        drives=tuple(_drive(each) for each in drives if _is_there(each)),
        volumes=tuple(
            _volume(each, drives)
            for each in collection.get_members()
            if each.json.get("RAIDType") not in (None, "None")
        ),
    )


def _raids(storage: Any) -> frozenset[str] | None:
    """What the first controller of a storage can build; an empty set for one that has no RAID."""
    try:
        controllers = [each.json for each in part(storage, "controllers").get_members()]
    except NotSupported:
        controllers = storage.json.get("StorageControllers") or []
    types = controllers[0].get("SupportedRAIDTypes") if controllers else None
    return None if types is None else frozenset(types)


def _is_there(drive: Any) -> bool:
    state = (drive.json.get("Status") or {}).get("State")
    return bool(drive.capacity_bytes) and state != "Absent"


def _drive(drive: Any) -> Drive:
    return Drive(
        path=drive.path,
        name=drive.identity,
        capacity=drive.capacity_bytes,
        kind=str(drive.json.get("MediaType") or "").lower(),
        interface=str(drive.json.get("Protocol") or "").lower(),
    )


def _volume(volume: Any, drives: Iterable[Any]) -> Volume:
    """Some BMCs tell at the volume which drives it has, others at the drives."""
    own = _links(volume.json, "Drives")
    return Volume(
        path=volume.path,
        id=volume.identity,
        name=volume.name or volume.identity,
        raid=volume.json["RAIDType"],
        capacity=volume.capacity_bytes or 0,
        drives=own or frozenset(e.path for e in drives if volume.path in _links(e.json, "Volumes")),
    )


def _links(document: Document, name: str) -> frozenset[str]:
    links = (document.get("Links") or {}).get(name) or ()
    return frozenset(each["@odata.id"] for each in links)
