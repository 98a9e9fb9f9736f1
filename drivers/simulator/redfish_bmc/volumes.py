"""Volumes of a simulated RAID controller: changed at once, or by tasks."""

from collections.abc import Callable
from math import inf
from time import time
from typing import Any

from drivers.simulator.machine import Machine, Task
from drivers.simulator.redfish_bmc import bmc, system
from drivers.simulator.redfish_bmc.documents import MONITORS, OK, link, resource
from drivers.simulator.refusal import Refusal, choice
from drivers.simulator.server import Response, json

DONE = Response(204)


def create(machine: Machine, body: dict[str, Any]) -> Response:
    """Create a volume, as a POST to the collection does. Raises Refusal."""
    kind = choice(body, "RAIDType", list(system.RAIDS))
    drives = (body.get("Links") or {}).get("Drives") or []
    min_drives, data = system.RAIDS[kind]
    known_links = [
        link(f"{machine.system_id}/Storage/RAID/Drives/{i}") for i in range(system.DRIVES)
    ]
    if len(drives) < min_drives or any(drive not in known_links for drive in drives):
        raise Refusal(400, "PropertyValueNotInList", f"{kind} cannot be made of {drives}.")
    room = data(len(drives)) * min(
        system.free_bytes(machine, known_links.index(drive_link)) for drive_link in drives
    )
    size = body.get("CapacityBytes") or room
    if not 0 < size <= room:
        raise Refusal(400, "ResourceInUse", f"{size} bytes are not left on {drives}.")
    number = f"{machine.random.getrandbits(32):08x}"
    path = f"{machine.system_id}/Storage/RAID/Volumes/{number}"
    volume = resource(
        path,
        "Volume.v1_5_0.Volume",
        str(body.get("Name") or body.get("DisplayName") or number),
        RAIDType=kind,
        CapacityBytes=size,
        Encrypted=False,
        Status=OK,
        Links={"Drives": drives},
    )

    def add() -> None:
        machine.volumes[path] = volume

    created = json(volume, 201, {"Location": path})
    return _change(machine, "create volume", body, add, created)


def delete(machine: Machine, path: str, body: dict[str, Any]) -> Response:
    """Delete a volume. Raises Refusal."""

    def remove() -> None:
        machine.volumes.pop(path, None)

    return _change(machine, "delete volume", {**body, "volume": path}, remove, DONE)


def _change(
    machine: Machine,
    summary: str,
    body: dict[str, Any],
    change: Callable[[], None],
    response: Response,
) -> Response:
    """Make a change at once, or by a task that starts now or at the machine's next start."""
    faults = machine.faults
    allowed_time = system.apply_time(machine)
    if body.get("@Redfish.OperationApplyTime", allowed_time) != allowed_time:
        raise Refusal(400, "PropertyValueNotInList", f"Volumes are changed {allowed_time}.")
    machine.record("redfish", summary, body)
    if not (faults.volumes_on_reset or faults.task_seconds or faults.task_fails):
        change()
        return response
    task = begin_task(machine, summary.capitalize(), change, inf, faults.task_fails)

    def begin() -> None:
        task.ends = time() + faults.task_seconds

    if faults.volumes_on_reset:
        machine.at_start.append(begin)
    else:
        begin()
    return task_response(machine, task.number)


def begin_task(
    machine: Machine, name: str, effect: Callable[[], object], seconds: float, failure: str = ""
) -> Task:
    """Begin a task of the BMC, whose effect comes at its end unless it fails."""
    now = time()
    task = Task(len(machine.tasks), name, now, now + seconds, effect, failure)
    machine.tasks.append(task)
    machine.unsettled.append(task)
    return task


def task_response(machine: Machine, number: int) -> Response:
    """Return the BMC's answer to a request that has started a task."""
    headers = {"Location": f"{MONITORS}/{number}"}
    return json(bmc.task(machine, number), 202, headers)


def ordered_task(
    machine: Machine, name: str, effect: Callable[[], object], seconds: float, failure: str = ""
) -> Response:
    """Begin a task; return the answer to its order."""
    task = begin_task(machine, name, effect, seconds, failure)
    return task_response(machine, task.number)
