"""
Redfish: changes that take effect at a restart, from their order to their effect.

In a flow with an agent, the restart boots the agent, and the step waits for its heartbeat.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from drivers.core.bmc import Bmcs
from drivers.core.errors import HardwareError, LeaseLost
from drivers.core.interface_kinds import REBOOT
from drivers.core.steps import AWAITED, Done, Failed, Outcome, Wait
from drivers.core.target import Target, run_parts
from drivers.redfish.changes import orders
from drivers.redfish.changes.orders import Order, Pace
from drivers.redfish.changes.tasks import End
from drivers.redfish.transport import client

#: Seconds between polls.
POLL_INTERVAL = 5.0
#: Seconds until the effect of an order without a restart appears, or a missing task.
PATIENCE = 60.0
#: Seconds until the effect of a restart appears: POST applies settings, and may restart again.
RESTART_PATIENCE = 1800.0


def through_restart(target: Target, is_settled: Callable[[], bool] = lambda: True) -> Outcome:
    """
    Restart the machine after an order that needs it; `Done` once the agent is back, and the change
    is applied. is_settled: whether it is.
    """
    progress = target.progress
    if not progress.get("ordered"):
        # commit first: after a crash during the restart, the change must not be sent again
        ordered = {"ordered": True, "agent": target.agent.url is not None}
        return Wait({**ordered, "crashes": target.crashes}, poll_after=0)
    if not progress.get("restarted"):
        outcome = restart(target, with_agent=progress["agent"])
        return _after(outcome, {**progress, "restarted": True})
    if progress["agent"] and target.agent.url is None:
        return _await_agent(progress)
    if not is_settled():
        awaited_event = {AWAITED: "the change to take effect"}
        return Wait({**progress, **awaited_event}, poll_after=POLL_INTERVAL)
    return Done()


def restart(target: Target, *, with_agent: bool) -> Outcome:
    """
    Restart the machine; with_agent: boot the agent.

    A crash before the change was recorded has lost no power order.
    """
    target = replace(target, resumed=target.crashed_since(target.progress))
    driver = target.driver
    boot = {"boot": driver.boot.boot_agent_next} if with_agent else {}
    return run_parts(target, {**boot, "restart": lambda part: driver.power.change(part, REBOOT)})


def carry_out(
    target: Target,
    bmcs: Bmcs,
    order: Order,
    needs_restart: Callable[[Mapping[str, object]], bool] | None,
) -> Outcome:
    """
    Order a change, restart the machine if needed, and wait for the effect; `Done` once it shows.

    needs_restart: receives the record of the accepted order; without it, the machine is never
    restarted.
    """
    pace = Pace(POLL_INTERVAL, PATIENCE)
    progress = {name: value for name, value in target.progress.items() if name != AWAITED}
    if "record" not in progress:
        outcome = run_parts(
            target, {"order": partial(orders.place, bmcs=bmcs, order=order, pace=pace)}
        )
        if not isinstance(outcome, Done):
            return outcome
        has_agent = target.agent.url is not None
        ordered = {"record": dict(outcome.result), "agent": has_agent}
        return Wait({**ordered, "crashes": target.crashes}, poll_after=0)
    record = progress["record"]
    restarts = needs_restart is not None and (needs_restart(record) or "staged" in progress)
    if restarts and not progress.get("restarted"):
        return _after(
            restart(target, with_agent=progress["agent"]), {**progress, "restarted": True}
        )
    if restarts and progress["agent"] and target.agent.url is None:
        return _await_agent(progress)
    if "end" not in record:
        follow = partial(
            orders.follow, bmcs=bmcs, order=order, pace=pace, record=record, is_restarted=restarts
        )
        outcome = run_parts(target, {"follow": follow})
        if not isinstance(outcome, Done):
            return outcome
        own_progress = {name: value for name, value in progress.items() if name != "follow"}
        if outcome.result["end"] == End.STAGED and needs_restart is not None:
            return Wait({**own_progress, "staged": True}, poll_after=0)
        target = replace(target, progress={**own_progress, "record": dict(outcome.result)})
    return _compare(target, bmcs, order, pace, RESTART_PATIENCE if restarts else PATIENCE)


def _compare(target: Target, bmcs: Bmcs, order: Order, pace: Pace, patience: float) -> Outcome:
    """Compare the state with the order until it has had its effect, or `patience` seconds pass."""
    progress = target.progress
    looks, reason = int(progress.get("looks", 0)) + 1, None
    try:
        with client.turn(target, bmcs) as bmc:
            difference = order.difference(bmc, progress["record"]["facts"])
    except LeaseLost:
        raise
    except HardwareError as error:
        difference = reason = str(error)
    if not difference:
        return Done()
    if pace.is_over(looks, patience):
        return Failed(f"{order.subject} was ordered, and has had no effect: {difference}")
    return pace.wait(
        {**progress, "looks": looks}, f"the effect of {order.subject}: {difference}", reason=reason
    )


def _await_agent(progress: Mapping[str, object]) -> Wait:
    awaited_event = {AWAITED: "the agent to start after the restart"}
    return Wait({**progress, **awaited_event}, poll_after=POLL_INTERVAL)


def _after(outcome: Outcome, progress: Mapping[str, object]) -> Outcome:
    """Return a `Wait` with this progress if the outcome is `Done`, else the outcome."""
    if not isinstance(outcome, Done):
        return outcome
    return Wait({**progress, AWAITED: "the restarted machine"}, poll_after=POLL_INTERVAL)
