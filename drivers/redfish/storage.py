"""
Redfish: RAID controllers, their drives and volumes.

A part that cannot be read is left out of the lists, and named in `Storage.unreadable`: its volumes
may exist.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from drivers.core.errors import HardwareError, NotSupported, Refused, Unexpected
from drivers.redfish.transport import navigation
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import (
    elements,
    entry,
    is_present,
    last_part,
    link_path,
    link_paths,
    number,
    text,
)

#: VolumeType, which volumes have before schema 1.3.1 in place of RAIDType -> RAIDType, where there
#: is only one. RawDevice: no RAID.
TYPES: Mapping[str, str] = {
    "NonRedundant": "RAID0",
    "Mirrored": "RAID1",
    "SpannedMirrors": "RAID10",
}
#: RAIDType -> VolumeType, where several share one
_SHARED_TYPES: Mapping[str, str] = {
    "RAID5": "StripedWithParity",
    "RAID6": "StripedWithParity",
    "RAID50": "SpannedStripesWithParity",
    "RAID60": "SpannedStripesWithParity",
}
_RAW = "RawDevice"
#: Raid of a volume of several drives whose type the BMC does not report.
UNKNOWN = "unknown"


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
    raid: str  # RAIDType; else VolumeType, or UNKNOWN
    capacity: int  # bytes
    drives: frozenset[str]  # paths; empty if the BMC does not report them

    def is_of(self, raid: str) -> bool:
        """Whether the volume may be of a RAIDType."""
        return self.raid in (raid, _SHARED_TYPES.get(raid), UNKNOWN)


@dataclass(frozen=True, slots=True)
class Controller:
    """A storage subsystem with volumes."""

    name: str
    volumes_path: str  # of its volume collection
    raids: frozenset[str] | None  # supported RAIDTypes; None: not reported; empty: no RAID
    apply: str | None  # OperationApplyTime of changes; None: not supported
    drives: tuple[Drive, ...]
    volumes: tuple[Volume, ...]
    other_paths: frozenset[str] = frozenset()  # paths of volumes without RAID: drives, namespaces


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage of a system."""

    controllers: tuple[Controller, ...]
    #: path of an unreadable subsystem, volume collection or volume -> reason
    unreadable: Mapping[str, str]

    @property
    def volumes(self) -> list[Volume]:
        return [volume for controller in self.controllers for volume in controller.volumes]

    @property
    def paths(self) -> list[str]:
        """The paths of all volumes that can be read, also of those without RAID."""
        volume_paths = [volume.path for volume in self.volumes]
        return volume_paths + [
            path for controller in self.controllers for path in controller.other_paths
        ]


def read(bmc: Connection) -> Storage:
    """
    Read the storage of the system. Use inside `client.turn` only.

    Raises NotSupported: the system has none.
    Raises HardwareError: the list of its subsystems cannot be read.
    """
    path = navigation.link(bmc.system(fresh=True), "storage")
    if path is None:
        raise NotSupported(f"BMC {bmc.access.address} reports no storage")
    controllers, unreadable = [], dict[str, str]()
    for member in _members(bmc, path):
        document = _resource(bmc, member, unreadable)
        volumes_path = link_path(document, "Volumes")
        if document is not None and "Volumes" in document:
            if volumes_path is None:
                unreadable[member] = "Volumes is no link"
                continue
            controller = _controller(bmc, member, document, volumes_path, unreadable)
            if controller is not None:
                controllers.append(controller)
    return Storage(tuple(controllers), unreadable)


def _controller(
    bmc: Connection,
    path: str,
    document: Mapping[str, Any],
    volumes_path: str,
    unreadable: dict[str, str],
) -> Controller | None:
    collection = _document(bmc, volumes_path, unreadable)
    if collection is None:
        return None
    try:
        members = _members(bmc, volumes_path)
    except HardwareError as error:
        unreadable[volumes_path] = str(error)
        return None
    lost_documents: dict[str, str] = {}  # a missing drive keeps its path in the volumes
    documents = {
        drive_path: _document(bmc, drive_path, lost_documents)
        for drive_path in link_paths(document, "Drives")
    }
    drives = {drive_path: facts for drive_path, facts in documents.items() if facts is not None}
    volumes, other_paths = [], set()
    for member in members:
        volume = _resource(bmc, member, unreadable)
        if volume is None:
            continue
        drive_paths = _drives_of(member, volume, drives)
        raid = raid_of(volume, drive_paths)
        if raid is None:
            other_paths.add(member)
        else:
            volumes.append(_volume(member, volume, raid, drive_paths))
    times = elements(collection, "@Redfish.OperationApplyTimeSupport", "SupportedValues")
    return Controller(
        name=_identity(path, document),
        volumes_path=volumes_path,
        raids=_raids(bmc, document, drives.values()),
        apply=next(
            (apply_time for apply_time in ("Immediate", "OnReset") if apply_time in times), None
        ),
        drives=tuple(
            drive
            for drive_path, facts in drives.items()
            if (drive := _drive(drive_path, facts)) is not None
        ),
        volumes=tuple(volumes),
        other_paths=frozenset(other_paths),
    )


def raid_of(volume: Mapping[str, object], drives: frozenset[str]) -> str | None:
    """
    Return the RAIDType of a volume, else its VolumeType, or None for a drive or a namespace.

    A volume of several drives is RAID, whether or not the BMC reports a type.
    """
    raid, kind = text(entry(volume, "RAIDType")), text(entry(volume, "VolumeType"))
    if raid is not None:
        return None if raid == "None" else raid
    if kind is not None:
        return None if kind == _RAW else TYPES.get(kind, kind)
    if entry(volume, "NVMeNamespaceProperties") is not None:
        return None
    return UNKNOWN if len(drives) > 1 else None


def _raids(
    bmc: Connection, document: Mapping[str, Any], drives: Iterable[Mapping[str, Any]]
) -> frozenset[str] | None:
    """Return the RAIDTypes of a subsystem's controllers; see `Controller.raids`."""
    controllers = elements(document, "StorageControllers")
    if path := link_path(document, "Controllers"):
        controllers = [bmc.find(member) for member in link_paths(bmc.find(path), "Members")]
    if not controllers:
        return frozenset()
    lists = [entry(controller, "SupportedRAIDTypes") for controller in controllers]
    type_lists = [type_list for type_list in lists if isinstance(type_list, list)]
    if type_lists:
        return frozenset(
            name for type_list in type_lists for name in type_list if isinstance(name, str)
        )
    protocols = [text(entry(drive, "Protocol")) for drive in drives]
    # directly attached drives
    return frozenset() if protocols and set(protocols) == {"NVMe"} else None


def _drive(path: str, document: Mapping[str, object]) -> Drive | None:
    """Return a drive, or None if its bay is empty, or it has no size."""
    capacity = number(entry(document, "CapacityBytes"))
    if capacity is None or not is_present(document):
        return None
    return Drive(
        path=path,
        name=_identity(path, document),
        capacity=capacity,
        kind=(text(entry(document, "MediaType")) or "").lower(),
        interface=(text(entry(document, "Protocol")) or "").lower(),
    )


def _volume(path: str, document: Mapping[str, object], raid: str, drives: frozenset[str]) -> Volume:
    identity = _identity(path, document)
    return Volume(
        path=path,
        id=identity,
        name=text(entry(document, "Name")) or identity,
        raid=raid,
        capacity=number(entry(document, "CapacityBytes")) or 0,
        drives=drives,
    )


def _identity(path: str, document: Mapping[str, object]) -> str:
    return text(entry(document, "Id")) or last_part(path)


def _drives_of(
    path: str, volume: Mapping[str, Any], drives: Mapping[str, Mapping[str, Any]]
) -> frozenset[str]:
    """Return a volume's drives. Some BMCs link volumes to them, others drives to their volumes."""
    linked_drives = link_paths(volume, "Links", "Drives")
    back_links = (
        drive_path
        for drive_path, facts in drives.items()
        if path in link_paths(facts, "Links", "Volumes")
    )
    return frozenset(linked_drives or back_links)


def _members(bmc: Connection, path: str) -> list[str]:
    """
    Read the paths of a collection's members.

    Raises Unexpected: it has no list of links.
    """
    members = entry(bmc.document(path), "Members")
    paths = link_paths(members)
    if not isinstance(members, list) or len(paths) != len(members):
        raise Unexpected(f"BMC {bmc.access.address} sent a malformed document: {path} Members")
    return paths


def _document(
    bmc: Connection, path: str, unreadable: dict[str, str]
) -> Mapping[str, object] | None:
    """
    Read a document; if it is missing or malformed, record it as `unreadable`, and return None.
    """
    try:
        return bmc.document(path)
    except (NotSupported, Refused, Unexpected) as error:
        unreadable[path] = str(error)
        return None


def _resource(
    bmc: Connection, path: str, unreadable: dict[str, str]
) -> Mapping[str, object] | None:
    """Read a resource, as `_document`. An object without an identity is malformed."""
    document = _document(bmc, path, unreadable)
    if document is None or {"@odata.id", "Id"}.intersection(document):
        return document
    unreadable[path] = "it has neither @odata.id nor Id"
    return None
