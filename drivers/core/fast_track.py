"""Fast track: the agent keeps running between operations, and the next operation uses it."""

from collections.abc import Mapping

from drivers.core.interface_kinds import POWER_ON
from drivers.core.target import Target

_YES = ("true", "1", "yes", "on", "t", "y")


def is_enabled_by(driver_info: Mapping[str, object], default: bool) -> bool:
    """Return whether fast track is enabled for a node. default: `[deploy]fast_track`."""
    return str(driver_info.get("fast_track", default)).lower() in _YES


def is_enabled(target: Target) -> bool:
    return is_enabled_by(target.driver_info, target.options["deploy"]["fast_track"])


def agent_runs(target: Target) -> bool:
    """Return whether fast track is enabled and the agent has sent a heartbeat recently."""
    return is_enabled(target) and target.power_state == POWER_ON and was_heard(target)


def was_heard(target: Target) -> bool:
    """Return whether the agent has sent a heartbeat within `[deploy]fast_track_timeout`."""
    agent = target.agent
    return (
        bool(agent.url)
        and agent.silent_for is not None
        and agent.silent_for <= target.options["deploy"]["fast_track_timeout"]
    )
