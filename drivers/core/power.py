"""
The power interface: how a machine is switched on and off, whatever its BMC.

A driver adds how to ask its BMC and how to give it an order; when to do either is for all the same.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from drivers.core.interface import Interface
from drivers.core.steps import Done, Outcome, Wait
from drivers.core.target import Target

POWER_ON, POWER_OFF, REBOOT = "power on", "power off", "rebooting"
SOFT_OFF, SOFT_REBOOT = "soft power off", "soft rebooting"


class Power(Interface):
    """Switch the machine on and off."""

    kind = "power"
    #: targets that `change` accepts
    supported: ClassVar[tuple[str, ...]] = (POWER_ON, POWER_OFF, REBOOT)

    def get_power_state(self, target: Target) -> str:
        """`power on` or `power off`, as the BMC says. Raises HardwareError."""
        raise NotImplementedError

    def order(self, target: Target, state: str) -> None:
        """
        Order `power on`, `power off`, `soft power off`, or `rebooting`: a hard reset, which only
        machines that must not be powered off are given. Does not wait. Raises HardwareError.
        """
        raise NotImplementedError

    def power_on(self, target: Target) -> Outcome:
        """
        Row of frames: the machine has started anew and is on.

        It was off before, unless it must not be powered off: then it is reset.
        """
        if target.disable_power_off:
            return self._reset(target)
        return self._reach(target, POWER_ON, POWER_ON, target.progress)

    def power_off(self, target: Target) -> Outcome:
        """
        Row of frames: the machine is off.

        A node that must not be powered off (`disable_power_off`) is left on: whatever follows
        resets it instead.
        """
        if target.disable_power_off:
            return Done()
        return self._reach(target, POWER_OFF, POWER_OFF, target.progress)

    def reboot(self, target: Target) -> Outcome:
        """Row of frames: the machine was off and is on again."""
        return self.change(target, REBOOT)

    def reset_if_kept_on(self, target: Target) -> Outcome:
        """Row of frames: a machine that must not be powered off leaves the agent by a reset."""
        return self._reset(target) if target.disable_power_off else Done()

    def read(self, target: Target) -> Outcome:
        """Row of frames: report the power state that the BMC gives."""
        target.report(power_state=self.get_power_state(target))
        return Done()

    def change(self, target: Target, state: str, timeout: float | None = None) -> Outcome:
        """
        Bring the machine to `state`, which may be a reboot, hard or soft.

        A soft target waits `[conductor]soft_power_off_timeout` seconds unless `timeout` is given.
        A reboot of a machine that is off switches it on; one that must not be powered off is reset.
        """
        if state in (POWER_ON, POWER_OFF):
            return self._reach(target, state, state, target.progress, timeout)
        if state == SOFT_OFF:
            return self._reach(target, SOFT_OFF, POWER_OFF, target.progress, timeout)
        if target.disable_power_off:
            return self._reset(target)
        progress = target.progress or {"phase": "off"}
        if progress.get("phase") == "off":
            order = SOFT_OFF if state == SOFT_REBOOT else POWER_OFF
            outcome = self._reach(target, order, POWER_OFF, progress, timeout)
            if not isinstance(outcome, Done):
                return outcome
            progress = {"phase": "on"}
            if target.progress:  # written down, lest one that is on again counts as never off
                return Wait(progress, poll_after=0)
            if _has_given_token(target):  # forgotten in the row before the next asks for its own
                return Wait(progress, poll_after=0)
        return self._reach(target, POWER_ON, POWER_ON, progress, timeout)

    def _reset(self, target: Target) -> Outcome:
        """Reset a machine that is on; switch on one that is off."""
        if target.progress.get("ordered") or self.get_power_state(target) != POWER_ON:
            return self._reach(target, POWER_ON, POWER_ON, target.progress)
        target.forget_agent()
        if _has_given_token(target) and not target.progress.get("forgotten"):  # as above
            return Wait({"forgotten": True}, poll_after=0)
        target.driver.management.before_start(target)
        target.before_order()
        self.order(target, REBOOT)
        target.report(power_state=POWER_ON)
        return Done()

    def _reach(
        self,
        target: Target,
        order: str,
        wanted: str,
        progress: Mapping[str, Any],
        timeout: float | None = None,
    ) -> Outcome:
        """Order once, then look until the BMC reports the wanted state; looks before it orders."""
        state = self.get_power_state(target)
        if wanted == POWER_OFF and (state == POWER_OFF or progress.get("ordered")):
            target.forget_agent()
        if state == wanted:
            target.report(power_state=state)
            return Done()
        looks = int(progress.get("looks", 0))
        if not progress.get("ordered"):
            if wanted == POWER_ON:
                target.driver.management.before_start(target)
            target.before_order()
            self.order(target, order)
            if wanted == POWER_OFF:
                target.forget_agent()
            state = self.get_power_state(target)
            if state == wanted:
                target.report(power_state=state)
                return Done()
        name = "soft_power_off_timeout" if order == SOFT_OFF else "power_state_change_timeout"
        return Wait(
            {**progress, "ordered": True, "looks": looks + 1},
            poll_after=min(0.5 * 1.5**looks, 10.0),
            timeout=timeout or target.options["conductor"][name],
        )


def _has_given_token(target: Target) -> bool:
    """Whether the agent that boots next would be refused a token as long as this one is known."""
    return target.agent.token is not None and not target.agent.pregenerated
