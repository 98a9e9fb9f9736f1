"""
Redfish: what takes effect only at a restart: order it, restart the machine, look until it is so.

A flow that has an agent has it again afterwards: it is booted anew, and waited for.
"""

from collections.abc import Callable, Mapping
from typing import Any

from drivers.core.kinds import REBOOT
from drivers.core.steps import Done, Outcome, Wait, nest
from drivers.core.target import Target

#: Seconds between looks.
LOOK = 5.0


def through_restart(
    target: Target, order: Callable[[], None], settled: Callable[[], bool]
) -> Outcome:
    """
    Run a step that needs a restart; `Done` once it is settled, and the agent is back.

    order: tells the machine what to do, once. settled: whether it has done it.
    """
    progress: Mapping[str, Any] = target.progress
    if not progress.get("ordered"):
        target.before_order()
        order()
        # written down first: after the restart, what was ordered looks as if it had always been so
        return Wait({"ordered": True, "agent": target.agent.url is not None}, poll_after=0)
    if not progress.get("restarted"):
        if progress["agent"] and "restart" not in progress:
            booted = target.driver.boot.boot_agent_next(target.part("boot"))
            prepared = nest(booted, "boot", progress)
            if not isinstance(prepared, Done):
                return prepared
        turned = target.driver.power.change(target.part("restart"), REBOOT)
        outcome = nest(turned, "restart", progress)
        if not isinstance(outcome, Done):
            return outcome
        progress = {**progress, "restarted": True}
        return Wait(progress, poll_after=LOOK)
    if (progress["agent"] and target.agent.url is None) or not settled():
        return Wait(progress, poll_after=LOOK)
    return Done()
