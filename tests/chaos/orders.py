"""
Orders: what a machine was told, by its own log, and which of it was told a second time.

Looked at are the orders that must not be given twice: commands to the agent (image writing and RAID
creation among them) and firmware updates. What an order belongs to is told by what it carries: a
step of the agent's the mark of its step, a firmware update the URL of its image.
"""

from dataclasses import dataclass

#: Commands that only ask, or that may be given any number of times.
QUESTIONS = {"sync", "get_partition_uuids", "collect_system_logs", "get_hardware_info"}
#: What is said when nothing of an agent is left.
ENDS = ("boots ", "is off", "the agent dies", "finds no bootable device")


@dataclass(frozen=True, slots=True)
class Second:
    """A second start. first, at: seconds since 1970. operation, position: of its step, if known."""

    machine: int
    what: str
    first: float
    at: float
    running: bool
    operation: str = ""
    position: str = ""


def counted(log):
    """How many orders a machine was given, by what must not be done twice."""
    found = {"agent commands": 0, "image writes": 0, "RAID creations": 0, "firmware updates": 0}
    for entry in log:
        what = entry["what"]
        if entry["kind"] == "redfish" and what == "update firmware":
            found["firmware updates"] += 1
        if entry["kind"] != "agent" or what.startswith("finished ") or _asks(what):
            continue
        found["agent commands"] += 1
        found["image writes"] += what.endswith("deploy.write_image")
        found["RAID creations"] += what.endswith("raid.create_configuration")
    return found


def second_starts(number, log):
    """
    Orders that were given while the same one ran or was done.

    An agent forgets what it did when its machine starts anew: then a step that was done is done,
    one that was cut short may be started again; what has no mark belongs to that one start.
    """
    found = []
    done, running = {}, {}
    updates = {}
    for entry in log:
        kind, what, at = entry["kind"], entry["what"], entry["at"]
        if kind == "redfish" and what == "update firmware":
            image = entry["detail"]["image"]
            if image in updates:
                found.append(Second(number, what, updates[image], at, running=False))
            updates.setdefault(image, at)
        if kind == "machine" and what.startswith(ENDS):
            running.clear()
            done = {key: began for key, began in done.items() if key[0]}
        if kind != "agent" or _asks(what):
            continue
        key = _key(entry)
        if what.startswith("finished "):
            began = running.pop(key, None)
            if began is not None and entry["detail"] == "SUCCEEDED":
                done[key] = began
            continue
        if key in running or key in done:
            first = running.get(key, done.get(key))
            operation, _, position = key[0].partition(":")
            found.append(Second(number, key[1], first, at, key in running, operation, position))
        running[key] = at
    return found


def _asks(what):
    name = what.removeprefix("finished ").partition(" ")[0]
    return name in QUESTIONS or (name.startswith("get_") and name.endswith("_steps"))


def _key(entry):
    """(mark of its step, its name)"""
    step = entry.get("step") or {}
    return str(step.get("ingot_step") or ""), entry["what"].removeprefix("finished ")
