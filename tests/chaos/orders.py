"""
Orders: commands in a machine's own log, and which of them were given twice.

Only orders that must not be repeated count: commands to the agent (image writing and RAID creation
among them) and firmware updates. An order is identified by its content: a step of the agent's by
the mark of the step, a firmware update by the URL of its image.
"""

from dataclasses import dataclass

#: Commands that only read, or that may be repeated.
QUESTIONS = {"sync", "get_partition_uuids", "collect_system_logs", "get_hardware_info"}
#: Log entries after which the agent's memory is lost.
ENDS = ("boots ", "is off", "the agent dies", "finds no bootable device")


@dataclass(frozen=True, slots=True)
class Second:
    """A second start of an order."""

    machine: int
    summary: str
    first_at: float  # seconds since 1970
    at: float  # seconds since 1970
    running: bool
    operation: str = ""  # of its step, if known
    position: str = ""  # of its step, if known


def counted(log):
    """Number of orders to a machine, by kind of order that must not be repeated."""
    counts = {"agent commands": 0, "image writes": 0, "RAID creations": 0, "firmware updates": 0}
    for entry in log:
        summary = entry["what"]
        if entry["kind"] == "redfish" and summary == "update firmware":
            counts["firmware updates"] += 1
        if entry["kind"] != "agent" or summary.startswith("finished ") or _asks(summary):
            continue
        counts["agent commands"] += 1
        counts["image writes"] += summary.endswith("deploy.write_image")
        counts["RAID creations"] += summary.endswith("raid.create_configuration")
    return counts


def second_starts(number, log):
    """
    Return orders that were given while the same one was running or complete.

    An agent loses its memory when its machine restarts: a complete step must still not be repeated,
    an interrupted one may be; an order without a mark counts for that one start only.
    """
    starts = []
    finished_orders, running = {}, {}
    updates = {}
    for entry in log:
        kind, summary, at = entry["kind"], entry["what"], entry["at"]
        if kind == "redfish" and summary == "update firmware":
            image = entry["detail"]["image"]
            if image in updates:
                starts.append(Second(number, summary, updates[image], at, running=False))
            updates.setdefault(image, at)
        if kind == "machine" and summary.startswith(ENDS):
            running.clear()
            finished_orders = {key: began for key, began in finished_orders.items() if key[0]}
        if kind != "agent" or _asks(summary):
            continue
        key = _key(entry)
        if summary.startswith("finished "):
            began = running.pop(key, None)
            if began is not None and entry["detail"] == "SUCCEEDED":
                finished_orders[key] = began
            continue
        if key in running or key in finished_orders:
            first_at = running.get(key, finished_orders.get(key))
            operation, _, position = key[0].partition(":")
            starts.append(Second(number, key[1], first_at, at, key in running, operation, position))
        running[key] = at
    return starts


def _asks(summary):
    name = summary.removeprefix("finished ").partition(" ")[0]
    return name in QUESTIONS or (name.startswith("get_") and name.endswith("_steps"))


def _key(entry):
    """Return (mark of its step, its name)."""
    step = entry.get("step") or {}
    return str(step.get("ingot_step") or ""), entry["what"].removeprefix("finished ")
