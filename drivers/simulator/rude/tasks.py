"""Faults of tasks, their monitors, and firmware updates."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from time import time

from drivers.simulator.machine import Task
from drivers.simulator.redfish_bmc.documents import (
    INVENTORY,
    MONITORS,
    ROOT,
    TASKS,
    add_member,
)
from drivers.simulator.refusal import Refusal
from drivers.simulator.rude.row import Exchange, Registry, changed, document
from drivers.simulator.server import CUT, Response, json

FAULTS = Registry()

OUTCOMES = "Orders have outcomes"


def _task_of(exchange: Exchange) -> Task | None:
    """Return the task whose resource or monitor a GET asks for, or None."""
    parent, _, last_part = exchange.path.rpartition("/")
    tasks = exchange.machine.tasks
    if not exchange.reads or parent not in (TASKS, MONITORS) or not last_part.isdigit():
        return None
    return tasks[int(last_part)] if int(last_part) < len(tasks) else None


def _monitored(exchange: Exchange) -> Task | None:
    """Return the ended task whose monitor a GET asks for, or None."""
    task = _task_of(exchange) if exchange.path.startswith(MONITORS) else None
    return task if task is not None and time() >= task.ends else None


# The end of a task


@FAULTS.fault(
    OUTCOMES, state="Completed", status="Critical", message="The package failed its verification."
)
def task_ends_badly(exchange: Exchange) -> Response:
    """A task has no effect, and ends as Completed with TaskStatus Critical (or another state)."""
    response, tasks = exchange.began()
    for task in tasks:
        if exchange.occurs():
            task.state, task.status = exchange["state"], exchange["status"]
            task.message, task.effect = exchange["message"], None
    return response


@FAULTS.fault(OUTCOMES)
def task_never_ends(exchange: Exchange) -> Response:
    """A task runs forever, without effect."""
    response, tasks = exchange.began()
    for task in tasks:
        if exchange.occurs():
            task.ends = inf
    return response


@FAULTS.fault(OUTCOMES, reads=3)
def task_appears_late(exchange: Exchange) -> Response:
    """The first reads of a new task or its monitor are 404, as of Dell's jobs."""
    task = _task_of(exchange)
    if task is not None and exchange.memory.get(task.number, 0):
        exchange.memory[task.number] -= 1
        return exchange.missing()
    response, tasks = exchange.began()
    for task in tasks:
        if exchange.occurs():
            exchange.memory[task.number] = exchange["reads"]
            response = replace(response, body=b"")
    return response


@FAULTS.fault(OUTCOMES)
def task_deleted_at_end(exchange: Exchange) -> Response:
    """A task that has ended is deleted: 404 from both its resource and its monitor."""
    task = _task_of(exchange)
    if task is not None and time() >= task.ends and exchange.occurs():
        return exchange.missing()
    return exchange.go()


@FAULTS.fault(OUTCOMES)
def task_deleted_midrun(exchange: Exchange) -> Response:
    """A task is deleted after half of its time: 404; the work goes on to its end."""
    task = _task_of(exchange)
    if task is not None and time() >= (task.started + task.ends) / 2 and exchange.occurs():
        return exchange.missing()
    return exchange.go()


# Monitors


@FAULTS.fault(OUTCOMES)
def monitor_204(exchange: Exchange) -> Response:
    """The monitor of an ended task answers 204."""
    return Response(204) if _monitored(exchange) and exchange.occurs() else exchange.go()


@FAULTS.fault(OUTCOMES)
def monitor_200_message(exchange: Exchange) -> Response:
    """The monitor of an ended task answers 200, with a message as its only content."""
    if not _monitored(exchange) or not exchange.occurs():
        return exchange.go()
    info = {"MessageId": "Base.1.12.Success", "Message": "The request completed successfully."}
    text = "The request completed successfully."
    return json({"error": {"code": info["MessageId"], "message": text,
                           "@Message.ExtendedInfo": [info]}})  # fmt: skip


@FAULTS.fault(OUTCOMES, status=400, message="The image is not suitable for this system.")
def monitor_error(exchange: Exchange) -> Response:
    """A task fails, and its monitor answers with the error of the operation (4xx)."""
    monitored = _monitored(exchange)
    if monitored is not None and exchange.memory.get(monitored.number):
        refusal = Refusal(exchange["status"], "GeneralError", exchange["message"])
        return refusal.response()
    response, tasks = exchange.began()
    for task in tasks:
        if exchange.occurs():
            exchange.memory[task.number] = True
            task.failure, task.effect = exchange["message"], None
    return response


@FAULTS.fault(OUTCOMES)
def monitor_only(exchange: Exchange) -> Response:
    """An order is answered 202 with the URL of a monitor; there is no task resource."""
    task = _task_of(exchange)
    if task is not None and exchange.path.startswith(f"{TASKS}/") and exchange.occurs():
        return exchange.missing()
    response, tasks = exchange.began()
    return replace(response, body=b"") if tasks else response


@FAULTS.fault(OUTCOMES)
def location_is_task(exchange: Exchange) -> Response:
    """Location names the task instead of its monitor, and the answer has no body."""
    response, tasks = exchange.began()
    if not tasks or not exchange.occurs():
        return response
    return Response(202, headers={"Location": f"{TASKS}/{tasks[-1].number}"})


@FAULTS.fault(OUTCOMES)
def location_missing(exchange: Exchange) -> Response:
    """The answer to an order with a task has no Location: only the body names the task."""
    response, tasks = exchange.began()
    return replace(response, headers=None) if tasks and exchange.occurs() else response


# Firmware updates


@FAULTS.fault(OUTCOMES, status=200)
def update_without_task(exchange: Exchange) -> Response:
    """SimpleUpdate is accepted with 200 and a message, and no task; the update takes its time."""
    response, tasks = exchange.began()
    if not tasks or not exchange.orders("update") or not exchange.occurs():
        return response
    tasks[-1].hidden = True
    if exchange["status"] == 204:
        return Response(204)
    info = {"MessageId": "Update.1.0.UpdateInProgress", "Message": "The update is in progress."}
    return json({"@Message.ExtendedInfo": [info]}, exchange["status"])


@FAULTS.fault(OUTCOMES)
def update_without_effect(exchange: Exchange) -> Response:
    """A firmware update changes no version, and its task ends as Completed and OK."""
    response, tasks = exchange.began()
    for task in tasks if exchange.orders("update") else []:
        if exchange.occurs():
            task.effect = None
    return response


@FAULTS.fault(OUTCOMES, seconds=2.0)
def update_shown_late(exchange: Exchange) -> Response:
    """The new firmware version is shown so many seconds after the end of the task."""
    response, tasks = exchange.began()
    for task in tasks if exchange.orders("update") else []:
        if exchange.occurs():
            task.delay = exchange["seconds"]
    return response


@FAULTS.fault(OUTCOMES)
def update_at_reset(exchange: Exchange) -> Response:
    """A firmware update takes effect at the next start of the machine after its task."""
    response, tasks = exchange.began()
    for task in tasks if exchange.orders("update") else []:
        if task.effect is not None and exchange.occurs():
            task.effect = _at_start(exchange, task.effect)
    return response


def _at_start(exchange: Exchange, effect: Callable[[], object]) -> Callable[[], object]:
    return lambda: exchange.machine.at_start.append(effect)


@FAULTS.fault(OUTCOMES)
def update_targets_demanded(exchange: Exchange) -> Response:
    """SimpleUpdate without Targets is refused with 400."""
    if exchange.orders("update") and not exchange.body().get("Targets") and exchange.occurs():
        return Refusal(400, "ActionParameterMissing", "Targets is missing.").response()
    return exchange.go()


@FAULTS.fault(OUTCOMES)
def update_targets_refused(exchange: Exchange) -> Response:
    """SimpleUpdate with Targets is refused with 400."""
    if exchange.orders("update") and exchange.body().get("Targets") and exchange.occurs():
        text = "The parameter Targets is not supported."
        return Refusal(400, "ActionParameterNotSupported", text).response()
    return exchange.go()


@FAULTS.fault(OUTCOMES, message="SUP029: the package is not applicable to any of the hardware.")
def update_unsuitable(exchange: Exchange) -> Response:
    """SimpleUpdate refuses the package with 400 and a message, as Dell's iDRAC does."""
    if exchange.orders("update") and exchange.occurs():
        return Refusal(400, "SUP029", exchange["message"]).response()
    return exchange.go()


@FAULTS.fault(OUTCOMES, seconds=2.0)
def bmc_restarts_after_update(exchange: Exchange) -> Response:
    """After an update, the BMC cuts all connections for so many seconds, and ends its sessions."""
    begin, end = exchange.memory.get("away", (inf, inf))
    if begin <= time() < end:
        exchange.machine.sessions.clear()
        return CUT
    response, tasks = exchange.began()
    if tasks and exchange.orders("update") and exchange.occurs():
        exchange.memory["away"] = (tasks[-1].ends, tasks[-1].ends + exchange["seconds"])
    return response


#: Id of the neighbour's system.
NEIGHBOUR = "neighbour"


@FAULTS.fault(OUTCOMES)
def second_system(exchange: Exchange) -> Response:
    """The BMC serves a second system, and an update without Targets flashes that one, too."""
    machine, systems = exchange.machine, f"{ROOT}/Systems"
    path = f"{systems}/{NEIGHBOUR}"
    if exchange.path == path and exchange.reads:
        neighbour = exchange.go(path=machine.system_id)
        return replace(
            neighbour, body=neighbour.body.replace(machine.uuid.encode(), NEIGHBOUR.encode())
        )
    if exchange.path.startswith(f"{INVENTORY}/BIOS_{NEIGHBOUR}") and exchange.reads:
        neighbour = exchange.go(path=f"{INVENTORY}/BIOS")
        return replace(
            neighbour, body=neighbour.body.replace(b'/BIOS"', f'/BIOS_{NEIGHBOUR}"'.encode())
        )
    response = exchange.go()
    members = {systems: path, INVENTORY: f"{INVENTORY}/BIOS_{NEIGHBOUR}"}
    if exchange.path in members and exchange.reads:
        return changed(response, lambda content: add_member(content, members[exchange.path]))
    if exchange.orders("update") and not exchange.body().get("Targets") and document(response):
        machine.record("redfish", "update firmware of the neighbour", exchange.body())
    return response
