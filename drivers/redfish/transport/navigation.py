"""
Navigation from a system to its parts, managers and chassis, as resources of sushy.

Lists omit resources that are missing, malformed or marked Absent.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from drivers.core.errors import NotSupported
from drivers.redfish.transport.conversions import is_present, link_path, link_paths
from drivers.redfish.transport.session import Session

if TYPE_CHECKING:
    from sushy.resources.base import ResourceBase
    from sushy.resources.chassis.chassis import Chassis
    from sushy.resources.manager.manager import Manager
    from sushy.resources.system.storage.drive import Drive
    from sushy.resources.system.system import System

Resource = TypeVar("Resource", bound="ResourceBase")


def part(resource: "ResourceBase", name: str) -> "ResourceBase":
    """
    Return an optional part of a resource.

    Raises NotSupported: the BMC lacks it.
    """
    from sushy import exceptions as theirs

    attribute = None
    with suppress(theirs.MissingAttributeError):
        attribute = getattr(resource, name)
    if attribute is None:
        raise NotSupported(f"{resource.path} has no {name.replace('_', ' ')}")
    return attribute


def members(bmc: Session, owner: "ResourceBase", name: str) -> Iterator["ResourceBase"]:
    """Read the members of a collection of `owner`; empty without such a collection."""
    collection = None
    with suppress(NotSupported), bmc.skip_unreadable(link(owner, name) or owner.path):
        collection = part(owner, name)
    if collection is not None:
        yield from readable(bmc, collection.members_identities, collection.get_member)


def readable(
    bmc: Session, paths: Iterable[str] | None, read_resource: Callable[[str], Resource]
) -> Iterator[Resource]:
    """Read the resource of each path; omit unreadable and absent ones."""
    for path in paths or ():
        resource = None
        with bmc.skip_unreadable(path):
            resource = read_resource(path)
        if resource is not None and is_present(resource.json):
            yield resource


def link(resource: "ResourceBase", name: str) -> str | None:
    """Return the path of a part, by sushy's name of it; None if the resource lacks it."""
    return link_path(resource.json, name.title().replace("_", ""))


def chassis(bmc: Session, system: "System") -> Iterator["Chassis"]:
    """Read the chassis that contain a system."""
    return readable(bmc, link_paths(system.json, "Links", "Chassis"), bmc.open().get_chassis)


def managers(bmc: Session, system: "System") -> Iterator["Manager"]:
    """Read the managers (BMCs) of a system."""
    document = system.json
    paths = link_paths(document, "Links", "ManagedBy") or link_paths(document, "Links", "Managers")
    return readable(bmc, paths, bmc.open().get_manager)


def drives(bmc: Session, system: "System") -> Iterator["Drive"]:
    """Read the disks of a system's storage controllers."""
    for storage in members(bmc, system, "storage"):
        yield from readable(bmc, storage.drives_identities, storage.get_drive)
