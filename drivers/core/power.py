"""
The power interface: power on, power off, reboot.

A driver implements `get_power_state` and `order`. This module decides when to call them, and polls
until the machine has the wanted state.
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
    #: values of `change`'s argument `state`
    supported: ClassVar[tuple[str, ...]] = (POWER_ON, POWER_OFF, REBOOT)
    #: whether the machine can be switched off and on again; if not, it is restarted by its own
    #: agent, and there is no power state to synchronize
    switches_off: ClassVar[bool] = True

    def get_power_state(self, target: Target) -> str:
        """
        Return `power on` or `power off`, as the BMC reports it.

        Raises HardwareError.
        """
        raise NotImplementedError

    def order(self, target: Target, state: str) -> None:
        """
        Send a power command without waiting for its effect.

        state: `power on`, `power off`, `soft power off`, or `rebooting`: a hard reset, used only
        for machines that must not be powered off.

        Raises HardwareError.
        """
        raise NotImplementedError

    def power_on(self, target: Target) -> Outcome:
        """Frame step: switch the machine on; reset one that must not be powered off."""
        if target.disable_power_off:
            return self._reset(target)
        return self._reach(target, POWER_ON, POWER_ON, target.progress)

    def power_off(self, target: Target) -> Outcome:
        """
        Frame step: switch the machine off.

        A node that must not be powered off (`disable_power_off`) stays on; the next `power_on`
        resets it.
        """
        if target.disable_power_off:
            return Done()
        return self._reach(target, POWER_OFF, POWER_OFF, target.progress)

    def reboot(self, target: Target) -> Outcome:
        """Frame step: switch the machine off, and on again."""
        return self.change(target, REBOOT)

    def reset_if_kept_on(self, target: Target) -> Outcome:
        """Frame step: reset a machine that must not be powered off, so that it leaves the agent."""
        return self._reset(target) if target.disable_power_off else Done()

    def read(self, target: Target) -> Outcome:
        """Frame step: read the power state, and report it."""
        target.report(power_state=self.get_power_state(target))
        return Done()

    def change(self, target: Target, state: str, timeout: float | None = None) -> Outcome:
        """
        Bring the machine to `state`, or reboot it, hard or soft.

        A reboot switches on a machine that is off, and resets one that must not be powered off.
        timeout: seconds; None: `[conductor]soft_power_off_timeout` for soft states, else
        `power_state_change_timeout`.
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
            # commit first: that the machine was off, if that took a wait; that its agent is gone
            if target.progress or _token_is_issued(target):
                return Wait(progress, poll_after=0)
        return self._reach(target, POWER_ON, POWER_ON, progress, timeout)

    def _reset(self, target: Target) -> Outcome:
        """Reset a machine that is on; switch on one that is off."""
        if target.progress.get("ordered") or self.get_power_state(target) != POWER_ON:
            return self._reach(target, POWER_ON, POWER_ON, target.progress)
        target.forget_agent()
        # commit first that the agent is gone: the next one has to get a token
        if _token_is_issued(target) and not target.progress.get("forgotten"):
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
        """Send a power command, unless the wanted state is reached; then poll for the state."""
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


def _token_is_issued(target: Target) -> bool:
    """Whether a token from a lookup is recorded: while it is, the next agent's lookup gets none."""
    return target.agent.token is not None and not target.agent.pregenerated
