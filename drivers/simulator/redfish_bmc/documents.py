"""Parts of Redfish documents, and the paths of a simulated BMC."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from drivers.simulator.machine import Machine

Document = dict[str, Any]

# Paths; {id} stands for the UUID of the machine.
ROOT = "/redfish/v1"
SYSTEM = f"{ROOT}/Systems/{{id}}"
MANAGER = f"{ROOT}/Managers/BMC"
CHASSIS = f"{ROOT}/Chassis/Chassis"
STORAGE = f"{SYSTEM}/Storage/RAID"
ACCOUNTS = f"{ROOT}/AccountService/Accounts"
SESSIONS = f"{ROOT}/SessionService/Sessions"
TASKS = f"{ROOT}/TaskService/Tasks"
MONITORS = f"{ROOT}/TaskService/TaskMonitors"
REGISTRY = f"{ROOT}/Registries/BiosAttributeRegistry"
EVENTS = f"{ROOT}/EventService"
SUBSCRIPTIONS = f"{EVENTS}/Subscriptions"
INVENTORY = f"{ROOT}/UpdateService/FirmwareInventory"

OK = {"State": "Enabled", "Health": "OK"}


def redfish_time(seconds: float) -> str:
    """Return a time (seconds since the epoch) in Redfish's format."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def link(path: str) -> Document:
    return {"@odata.id": path}


def resource(path: str, kind: str, name: str, **properties: object) -> Document:
    """
    Return a resource of type `kind` ("Bios.v1_2_0.Bios"). Its Id is the last part of its path.
    """
    return {
        "@odata.id": path,
        "@odata.type": f"#{kind}",
        "Id": path.rsplit("/", 1)[-1],
        "Name": name,
        **properties,
    }


def add_member(document: Document, path: str, *, at_start: bool = False) -> None:
    """Add a member to a collection, as the last one or as the first one."""
    members = document["Members"]
    members.insert(0 if at_start else len(members), link(path))
    document["Members@odata.count"] = len(members)


def collection(path: str, kind: str, members: Iterable[str]) -> Document:
    links = [link(member) for member in members]
    return {
        "@odata.id": path,
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Name": f"{kind} Collection",
        "Members": links,
        "Members@odata.count": len(links),
    }


def listing(path: str, kind: str, *names: str) -> Callable[[Machine], Document]:
    """Return the document of a collection that has the same members at all times, by name."""

    def document(machine: Machine) -> Document:
        place = path.replace("{id}", machine.uuid)
        return collection(place, kind, (f"{place}/{name}" for name in names))

    return document
