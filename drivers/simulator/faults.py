"""
Delays and faults: how a machine is slow, and how it goes wrong.

Each is a field of `Faults`. They are set for all machines or for one, at the start or while they
run; what is set for one machine wins. Nothing here is random: rates draw from the machine's own
seeded generator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


class BadFault(ValueError):
    """There is no such fault, or its value makes no sense; the message names it."""


@dataclass(frozen=True, slots=True)
class Faults:
    """
    How a machine behaves. Times are in seconds, rates between 0 and 1.

    BMC:
    latency, latency_jitter: each Redfish answer is delayed by latency + random(0, jitter).
    error_rate, drop_rate: share of Redfish requests answered with a 500, or cut without answer.
    bmc_dead: every connection to the BMC is cut. bmc_silent: it is never answered.
    power_on_seconds, power_off_seconds: until the BMC shows the new power state.
    power_stuck: the BMC accepts power orders and nothing happens.
    task_seconds: how long a firmware update takes, or a change of volumes.
    task_fails: the task of a change of volumes ends with this message, and has changed no volume.
    volumes_on_reset: volumes are created and deleted by the next start of the machine.
    boot_once_only: the BMC refuses a boot device that is to last (Continuous).
    boot_choices_hidden: it does not list the values that its boot settings can have.
    boot_fixed_in_post: it refuses boot settings until the machine has booted, as HPE's do.

    Boot:
    boot_seconds: from power-on to the booted system.
    agent_never_boots: the agent's medium is read, and then nothing more is heard.

    Agent:
    heartbeat_gap: least time between two heartbeats. heartbeats_stop: it sends none any more.
    retry_factor: scales the agent's waits after a conflict or an error.
    step_seconds: how long a step takes; a number for all, or by step {"deploy.erase_devices": 3}
        with "*" for the rest.
    step_fails: {step: reason}; the step ends FAILED for that reason, until this is set anew.
    agent_dies: the agent dies in the middle of this step: once per setting.
    steps: {"clean" | "deploy" | "service": [{"interface", "step", "priority", ...}]}, added to the
        agent's steps or, by the same interface and name, instead of them.
    manager_version: version of the agent's hardware manager.
    lacks: what the agent does not know, as old ones: extensions ("deploy") and commands
        ("standby.get_partition_uuids").

    Steps are named "interface.step" or by the step alone.
    """

    latency: float = 0.0
    latency_jitter: float = 0.0
    error_rate: float = 0.0
    drop_rate: float = 0.0
    bmc_dead: bool = False
    bmc_silent: bool = False
    power_on_seconds: float = 0.0
    power_off_seconds: float = 0.0
    power_stuck: bool = False
    task_seconds: float = 0.0
    task_fails: str = ""
    volumes_on_reset: bool = False
    boot_once_only: bool = False
    boot_choices_hidden: bool = False
    boot_fixed_in_post: bool = False
    boot_seconds: float = 0.5
    agent_never_boots: bool = False
    heartbeat_gap: float = 5.0
    heartbeats_stop: bool = False
    retry_factor: float = 1.0
    step_seconds: float | Mapping[str, float] = 0.0
    step_fails: Mapping[str, str] = field(default_factory=dict)
    agent_dies: str = ""
    steps: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    manager_version: str = "1.2"
    lacks: Sequence[str] = ()

    def seconds(self, step: str) -> float:
        """How long `step` ("interface.step") takes."""
        if isinstance(self.step_seconds, Mapping):
            found = find(self.step_seconds, step)
            return float(self.step_seconds.get("*", 0.0) if found is None else found)
        return self.step_seconds


def find(table: Mapping[str, Any], step: str) -> Any:
    """The entry of a step by its full or its bare name, or None."""
    return table.get(step, table.get(step.partition(".")[2]))


def merge(*layers: Mapping[str, Any]) -> Faults:
    """The faults of a machine: later layers win."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(layer)
    return Faults(**merged)


def check(wanted: Mapping[str, Any]) -> None:
    """Raise BadFault unless every entry is a fault with a value it can have (None: the default)."""
    for name, value in wanted.items():
        if name not in KINDS:
            raise BadFault(f"unknown fault {name!r}; known: {', '.join(sorted(KINDS))}")
        if value is not None:
            KINDS[name](name, value)


def _flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise BadFault(f"{name}: true or false, not {value!r}")


def _number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise BadFault(f"{name}: a number from 0 up, not {value!r}")


def _rate(name: str, value: Any) -> None:
    _number(name, value)
    if value > 1:
        raise BadFault(f"{name}: a share between 0 and 1, not {value!r}")


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise BadFault(f"{name}: a text, not {value!r}")


def _durations(name: str, value: Any) -> None:
    for seconds in value.values() if isinstance(value, Mapping) else [value]:
        _number(name, seconds)


def _reasons(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise BadFault(f"{name}: an object of step and reason, not {value!r}")
    for reason in value.values():
        _text(name, reason)


def _texts(name: str, value: Any) -> None:
    if not isinstance(value, list | tuple):
        raise BadFault(f"{name}: a list of texts, not {value!r}")
    for each in value:
        _text(name, each)


def _steps(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) or not set(value) <= {"clean", "deploy", "service"}:
        raise BadFault(f"{name}: lists of steps under clean, deploy, service, not {value!r}")
    for listed in value.values():
        for step in listed if isinstance(listed, list) else [None]:
            if not isinstance(step, dict) or not {"interface", "step", "priority"} <= set(step):
                raise BadFault(f"{name}: a step has interface, step and priority, not {step!r}")


KINDS = {
    **{entry.name: _number for entry in fields(Faults) if entry.type in (float, "float")},
    **{entry.name: _flag for entry in fields(Faults) if entry.type in (bool, "bool")},
    **{entry.name: _text for entry in fields(Faults) if entry.type in (str, "str")},
    "error_rate": _rate,
    "drop_rate": _rate,
    "step_seconds": _durations,
    "step_fails": _reasons,
    "steps": _steps,
    "lacks": _texts,
}
