"""
Steps that every flow has, whatever the hardware: in position among the others, as asked for.

Their names win over those of interfaces; the interface that they are asked for with is only shown.
"""

from collections.abc import Callable, Mapping
from typing import Any

from drivers.core.kinds import REBOOT
from drivers.core.steps import Arg, Done, Hold, Outcome, Wait, nest
from drivers.core.target import Target

SECONDS = Arg("seconds", "How long to wait; without it, until the agent's next heartbeat")


def power_on(target: Target, *, ramdisk: bool) -> Outcome:
    """The machine is on; into the agent again, where the flow has one."""
    prepared = _prepare(target, ramdisk)
    if not isinstance(prepared, Done):
        return prepared
    power = target.driver.power
    return nest(power.power_on(target.part("power")), "power", {"prepared": True})


def power_off(target: Target, *, ramdisk: bool) -> Outcome:
    """The machine is off."""
    return target.driver.power.power_off(target)


def reboot(target: Target, *, ramdisk: bool) -> Outcome:
    """The machine was off and is on again; in the agent, where the flow has one."""
    prepared = _prepare(target, ramdisk)
    if not isinstance(prepared, Done):
        return prepared
    changed = target.driver.power.change(target.part("power"), REBOOT)
    return nest(changed, "power", {"prepared": True})


def hold(target: Target, *, ramdisk: bool) -> Outcome:
    """An operator says when it goes on."""
    return Done() if target.progress else Hold({"held": True})


def wait(target: Target, *, ramdisk: bool, seconds: float | None = None) -> Outcome:
    """
    Some time passes: `seconds`, at most `[conductor]max_conductor_wait_step_seconds`; without them,
    until the agent calls next, or that longest time where no agent takes part.
    """
    if target.progress:
        return Done()
    if seconds is None and ramdisk:
        return Wait({"waited": True})
    longest = float(target.options["conductor"]["max_conductor_wait_step_seconds"])
    return Wait({"waited": True}, poll_after=longest if seconds is None else min(seconds, longest))


def _prepare(target: Target, ramdisk: bool) -> Outcome:
    if not ramdisk or target.progress.get("prepared"):
        return Done()
    return nest(target.driver.boot.boot_agent_next(target.part("boot")), "boot", {})


Method = Callable[..., Outcome]
METHODS: Mapping[str, Method] = {
    each.__name__: each for each in (power_on, power_off, reboot, hold, wait)
}
ARGS: Mapping[str, tuple[Arg, ...]] = {"wait": (SECONDS,)}
#: Those that may be run on child nodes.
ON_CHILDREN = frozenset({"power_on", "power_off", "reboot"})


def run(target: Target, name: str, args: Mapping[str, Any], *, ramdisk: bool) -> Outcome:
    """
    Run a reserved step.

    ramdisk: the flow has booted the agent, and a machine that starts must boot it again.
    """
    return METHODS[name](target, ramdisk=ramdisk, **args)
