"""
Delays and injected faults of simulated machines.

Each is a field of `Faults`. Fields are set for all machines or for one, at the start or later; a
value for one machine takes precedence. Behaviour is reproducible: rates draw from the machine's
seeded generator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


class BadFault(ValueError):
    """There is no such fault, or its value is invalid; the message names it."""


@dataclass(frozen=True, slots=True)
class Faults:
    """
    Behaviour of a machine. Times are in seconds, rates between 0 and 1.

    Steps are named "interface.step", or by the step alone.
    """

    # The BMC
    latency: float = 0.0  # delay of each Redfish answer
    latency_jitter: float = 0.0  # upper bound of a random addition to `latency`
    error_rate: float = 0.0  # share of Redfish requests answered with a 500
    drop_rate: float = 0.0  # share of Redfish requests whose connection is cut
    bmc_dead: bool = False  # all connections to the BMC are cut
    bmc_silent: bool = False  # the BMC accepts connections and never answers
    power_on_seconds: float = 0.0  # until the BMC shows the new power state
    power_off_seconds: float = 0.0
    power_stuck: bool = False  # the BMC accepts power commands without effect
    task_seconds: float = 0.0  # duration of a firmware update or a change of volumes
    task_fails: str = ""  # message of a failed change of volumes; "": changes succeed
    volumes_on_reset: bool = False  # volumes change at the next start of the machine
    boot_once_only: bool = False  # the BMC refuses a persistent boot device (Continuous)
    boot_choices_hidden: bool = False  # the BMC does not list the values of its boot settings
    boot_fixed_in_post: bool = False  # boot settings are refused during POST, as by HPE's BMCs

    # The boot
    boot_seconds: float = 0.5  # from power-on to the booted system
    agent_never_boots: bool = False  # the agent's medium is read, but no agent starts

    # The agent
    heartbeat_gap: float = 5.0  # least time between two heartbeats
    heartbeats_stop: bool = False  # no more heartbeats
    retry_factor: float = 1.0  # scales the agent's waits after a conflict or an error
    #: Duration of all steps, or by step: {"deploy.erase_devices": 3}, "*" for the others.
    step_seconds: float | Mapping[str, float] = 0.0
    #: Step -> reason: the step ends FAILED, until this field is set again.
    step_fails: Mapping[str, str] = field(default_factory=dict)
    agent_dies: str = ""  # the agent dies during this step, once per setting
    #: "clean", "deploy" or "service" -> steps {"interface", "step", "priority", ...} of the agent,
    #: in addition to its others, or in place of those with the same interface and name.
    steps: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    manager_version: str = "1.2"  # of the agent's hardware manager
    #: Extensions ("deploy") and commands ("standby.get_partition_uuids") that the agent does not
    #: have, as in old versions.
    lacks: Sequence[str] = ()

    def seconds(self, step: str) -> float:
        """Return the duration of a step ("interface.step")."""
        if isinstance(self.step_seconds, Mapping):
            found = find(self.step_seconds, step)
            return float(self.step_seconds.get("*", 0.0) if found is None else found)
        return self.step_seconds


def find(table: Mapping[str, Any], step: str) -> Any:
    """
    Return the entry of a step by its full name, or by its name without the interface, or None.
    """
    return table.get(step, table.get(step.partition(".")[2]))


def merge(*layers: Mapping[str, Any]) -> Faults:
    """Merge the faults of a machine: later layers take precedence."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(layer)
    return Faults(**merged)


def check(wanted: Mapping[str, Any]) -> None:
    """Raise BadFault unless each entry is a fault with a valid value (None: the default)."""
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
