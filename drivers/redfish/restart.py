"""
Redfish: changes that take effect at a restart: send them, restart the machine, poll for the effect.

In a flow with an agent, the restart boots the agent, and the step waits for its heartbeat.
"""

from collections.abc import Callable

from drivers.core.kinds import REBOOT
from drivers.core.steps import Done, Outcome, Wait, run_parts
from drivers.core.target import Target

#: Seconds between polls.
POLL_INTERVAL = 5.0


def through_restart(
    target: Target, order: Callable[[], None], settled: Callable[[], bool]
) -> Outcome:
    """
    Run a step that needs a restart; `Done` once the change is applied, and the agent is back.

    order: sends the change to the BMC, once. settled: whether the change is applied.
    """
    driver, progress = target.driver, target.progress
    if not progress.get("ordered"):
        target.before_order()
        order()
        # commit first: after a crash during the restart, the change must not be sent again
        return Wait({"ordered": True, "agent": target.agent.url is not None}, poll_after=0)
    if not progress.get("restarted"):
        boot = {"boot": driver.boot.boot_agent_next} if progress["agent"] else {}
        outcome = run_parts(
            target, {**boot, "restart": lambda part: driver.power.change(part, REBOOT)}
        )
        if not isinstance(outcome, Done):
            return outcome
        return Wait({**progress, "restarted": True}, poll_after=POLL_INTERVAL)
    if (progress["agent"] and target.agent.url is None) or not settled():
        return Wait(progress, poll_after=POLL_INTERVAL)
    return Done()
