"""
Redfish: RAID controllers, their drives and volumes.

Volumes without a RAID type are ignored: some controllers list each drive as such a volume.
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
    """A physical disk."""

    path: str
    name: str
    capacity: int  # bytes
    kind: str  # hdd, ssd
    interface: str  # sas, sata, ...


@dataclass(frozen=True, slots=True)
class Volume:
    """A logical disk."""

    path: str
    id: str
    name: str
    raid: str  # RAIDType
    capacity: int  # bytes
    drives: frozenset[str]  # paths; empty if the BMC does not report them


@dataclass(frozen=True, slots=True)
class Controller:
    """A RAID controller."""

    name: str
    volumes_path: str  # of its volume collection
    raids: frozenset[str] | None  # supported RAIDTypes; None: not reported
    apply: str | None  # OperationApplyTime of changes; None: not supported
    drives: tuple[Drive, ...]
    volumes: tuple[Volume, ...]


def read(bmc: Connection) -> list[Controller]:
    """
    Read the RAID controllers. Use inside `client.turn` only.

    Raises HardwareError.
    """
    # a new system resource, since sushy caches the parts of the kept one
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
    """
    Return the RAIDTypes of a storage's first controller.

    None: it does not report them; empty: it has no RAID.
    """
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
    """Read a volume. Some BMCs link volumes to their drives, others drives to their volumes."""
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
