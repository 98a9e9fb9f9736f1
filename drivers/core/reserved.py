"""
Reserved steps: power_on, power_off, reboot, hold, wait. Every flow and hardware type has them.

Their names take precedence over steps of interfaces; the interface in a request is only shown.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from drivers.core.conditions import AS_FOUND, Condition, Conditions
from drivers.core.errors import NotSupported
from drivers.core.interface_kinds import REBOOT
from drivers.core.steps import Arg, Done, Hold, Outcome, Wait
from drivers.core.target import Target, run_parts

SECONDS = Arg("seconds", "How long to wait; without it, until the agent's next heartbeat")


def power_on(target: Target, *, ramdisk: bool) -> Outcome:
    """Switch the machine on; it boots the agent if the flow has one."""
    return _start(target, target.driver.power.power_on, ramdisk=ramdisk)


def power_off(target: Target, *, ramdisk: bool) -> Outcome:
    """
    Switch the machine off.

    Raises NotSupported: the power interface can only restart it.
    """
    power = target.driver.power
    if not power.switches_off:
        raise NotSupported(f"power_interface: {power.name!r} cannot switch the machine off")
    return power.power_off(target)


def reboot(target: Target, *, ramdisk: bool) -> Outcome:
    """Reboot the machine; it boots the agent if the flow has one."""
    power = target.driver.power
    return _start(target, lambda part: power.change(part, REBOOT), ramdisk=ramdisk)


def hold(target: Target, *, ramdisk: bool) -> Outcome:
    """Pause until an operator sends `unhold`."""
    return Done() if target.progress else Hold({"held": True})


def wait(target: Target, *, ramdisk: bool, seconds: float | None = None) -> Outcome:
    """
    Wait `seconds`, at most `[conductor]max_conductor_wait_step_seconds`.

    Without `seconds`: until the agent's next heartbeat, or that limit if the flow has no agent.
    """
    if target.progress:
        return Done()
    if seconds is None and ramdisk:
        return Wait({"waited": True})
    max_seconds = float(target.options["conductor"]["max_conductor_wait_step_seconds"])
    return Wait(
        {"waited": True}, poll_after=max_seconds if seconds is None else min(seconds, max_seconds)
    )


def _start(target: Target, start: Callable[[Target], Outcome], *, ramdisk: bool) -> Outcome:
    boot = {"boot": target.driver.boot.boot_agent_next} if ramdisk else {}
    outcome = run_parts(target, {**boot, "power": start})
    if isinstance(outcome, Wait) and "power" in outcome.progress:  # the first wait sets the limit
        limit = float(target.options["conductor"]["power_state_change_timeout"])
        return replace(outcome, timeout=outcome.timeout or limit)
    return outcome


Method = Callable[..., Outcome]
METHODS: Mapping[str, Method] = {
    method.__name__: method for method in (power_on, power_off, reboot, hold, wait)
}
ARGS: Mapping[str, tuple[Arg, ...]] = {"wait": (SECONDS,)}
#: Condition that a reserved step leaves; a start may prepare the agent's boot first (see `run`).
LEAVES: Mapping[str, Condition] = {
    "power_on": Condition.STARTED,
    "power_off": Condition.OFF,
    "reboot": Condition.RESTARTED,
}
#: Steps that may run on child nodes.
ON_CHILDREN = frozenset({"power_on", "power_off", "reboot"})


def conditions_of(name: str, *, ramdisk: bool) -> Conditions:
    """Return the conditions of a reserved step. ramdisk: as for `run`."""
    power_condition = LEAVES.get(name)
    if power_condition is None:
        return AS_FOUND
    boots_agent = ramdisk and power_condition is not Condition.OFF
    return Conditions(
        leaves=(Condition.AGENT_NEXT, power_condition) if boots_agent else (power_condition,)
    )


def run(target: Target, name: str, args: Mapping[str, Any], *, ramdisk: bool) -> Outcome:
    """
    Run a reserved step.

    ramdisk: the flow has booted the agent; a machine that starts must boot it again.
    """
    return METHODS[name](target, ramdisk=ramdisk, **args)
