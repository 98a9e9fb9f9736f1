"""
Parts of a machine: sushy's resources that a system, its managers and its chassis lead to.

Lists of them leave out those that are missing, malformed or marked Absent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from drivers.core.errors import NotSupported
from drivers.redfish.session import Session
from drivers.redfish.values import entry, is_present


def part(resource: Any, name: str) -> Any:
    """A part of a resource that not every BMC has. Raises NotSupported."""
    from sushy import exceptions as theirs

    found = None
    with suppress(theirs.MissingAttributeError):
        found = getattr(resource, name)
    if found is None:
        raise NotSupported(f"{resource.path} has no {name.replace('_', ' ')}")
    return found


def members(bmc: Session, owner: Any, name: str) -> Iterator[Any]:
    """The members of a collection of `owner`, read now; none where there is no such collection."""
    collection = None
    with suppress(NotSupported), bmc.gap(link(owner, name) or owner.path):
        collection = part(owner, name)
    if collection is not None:
        yield from readable(bmc, collection.members_identities, collection.get_member)


def readable(
    bmc: Session, paths: Iterable[str] | None, read: Callable[[str], Any]
) -> Iterator[Any]:
    """The resource that `read` makes of each path, gaps and absent ones left out."""
    for path in paths or ():
        found = None
        with bmc.gap(path):
            found = read(path)
        if found is not None and is_present(found.json):
            yield found


def link(resource: Any, name: str) -> str | None:
    """The path of a part, by sushy's name of it; None when the resource has no such part."""
    path = entry(entry(resource.json, name.title().replace("_", "")), "@odata.id")
    return path if isinstance(path, str) else None


def links(resource: Any, *names: str) -> Sequence[str]:
    """The paths in the list of links that a resource has under these names, one in the other."""
    found = resource.json
    for name in names:
        found = entry(found, name)
    paths = [entry(each, "@odata.id") for each in found] if isinstance(found, list) else []
    return [path for path in paths if isinstance(path, str)]


def chassis(bmc: Session, system: Any) -> Iterator[Any]:
    """The chassis that a system is in."""
    return readable(bmc, links(system, "Links", "Chassis"), bmc.open().get_chassis)


def managers(bmc: Session, system: Any) -> Iterator[Any]:
    """The BMCs that manage a system."""
    paths = links(system, "Links", "ManagedBy") or links(system, "Links", "Managers")
    return readable(bmc, paths, bmc.open().get_manager)


def drives(bmc: Session, system: Any) -> Iterator[Any]:
    """The disks that the storage controllers of a system list."""
    for storage in members(bmc, system, "storage"):
        yield from readable(bmc, storage.drives_identities, storage.get_drive)
