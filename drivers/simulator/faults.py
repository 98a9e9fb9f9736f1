"""
Delays and injected faults of one simulated machine.

Settings, files and the check of their values are in `fault_settings`. Behaviour is reproducible:
rates draw from the machine's seeded generator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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
    password_refused: str = ""  # message of a refused change of the password; "": it is changed
    password_unapplied: bool = False  # the BMC accepts a new password, and keeps the old one
    password_cut: str = ""  # the connection is cut "before" or "after" a change of the password
    lockout_after: float = 0  # wrong logins in a row that lock the user out; 0: none do
    lockout_seconds: float = 600.0
    lockout_hidden: bool = False  # a locked user's login is answered as one with a wrong password
    boot_once_only: bool = False  # the BMC refuses a persistent boot device (Continuous)
    boot_choices_hidden: bool = False  # the BMC does not list the values of its boot settings
    sensor_critical: str = ""  # name of a sensor of Thermal or Power whose health is Critical
    most_subscriptions: float = 20  # to events; a further one is refused with 503
    events_need_tls: bool = False  # a subscription with an http destination is refused
    event_types_unknown: bool = False  # a subscription with EventTypes is refused
    events_lost: bool = False  # no event is sent, although there are subscriptions
    events_suspended_by_failure: bool = False  # a failed delivery disables its subscription
    subscriptions_volatile: bool = False  # a reset of the BMC drops all subscriptions
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
    #: Step -> what the step returns, as {"metrics": {...}}.
    step_results: Mapping[str, Any] = field(default_factory=dict)
    agent_dies: str = ""  # the agent dies during this step, once per setting
    #: "clean", "deploy" or "service" -> steps {"interface", "step", "priority", ...} of the agent,
    #: in addition to its others, or in place of those with the same interface and name.
    steps: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    manager_version: str = "1.2"  # of the agent's hardware manager
    #: Extensions ("deploy") and commands ("standby.get_partition_uuids") that the agent does not
    #: have, as in old versions.
    lacks: Sequence[str] = ()

    #: Rude fault -> its options, in the order of `rude.table.ROWS`.
    rude: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def seconds(self, step: str) -> float:
        """Return the duration of a step ("interface.step")."""
        if isinstance(self.step_seconds, Mapping):
            seconds = find(self.step_seconds, step)
            return float(self.step_seconds.get("*", 0.0) if seconds is None else seconds)
        return self.step_seconds


def find(table: Mapping[str, Any], step: str) -> Any:
    """
    Return the entry of a step by its full name, or by its name without the interface, or None.
    """
    return table.get(step, table.get(step.partition(".")[2]))
