"""
The power interface: power on, power off, reboot.

A driver implements `get_power_state` and `order`. This module sends the order and polls, as
`drivers.core.kinds.power_settlement` decides. While the effect of an order is unknown, the node has
the key `PENDING` in driver_internal_info: the next power step, and the power sync, then do not
believe a single reading.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Protocol

from drivers.core.conditions import Condition, conditions
from drivers.core.errors import Busy, HardwareError, LeaseLost
from drivers.core.interface import Interface
from drivers.core.kinds.power_pursuit import PENDING, Pursuit, answer_of, report_pending
from drivers.core.kinds.power_settlement import Action, Answer, Order, Reading
from drivers.core.steps import Done, Outcome, Wait
from drivers.core.target import Options, Target

POWER_ON, POWER_OFF, REBOOT = "power on", "power off", "rebooting"
SOFT_OFF, SOFT_REBOOT = "soft power off", "soft rebooting"


class ReadPower(Protocol):
    """Read the power state of a target; `secure_boot`: report its secure boot, too."""

    def __call__(
        self, target: Target, *, secure_boot: bool = False
    ) -> Awaitable[str | HardwareError | None]: ...


#: From the options of the service and the number of connections.
SweepReader = Callable[[Options, int], AbstractAsyncContextManager[ReadPower]]


class Power(Interface):
    """Switch the machine on and off."""

    kind = "power"
    #: values of `change`'s argument `state`
    supported: ClassVar[tuple[str, ...]] = (POWER_ON, POWER_OFF, REBOOT)
    #: whether the machine can be switched off and on again; if not, it is restarted by its own
    #: agent, and there is no power state to synchronize
    switches_off: ClassVar[bool] = True
    #: whether an order without a recorded outcome has provably had no effect (fake hardware)
    transactional: ClassVar[bool] = False
    #: opens a reader for the power sync, which reads many machines in one event loop; without it,
    #: the power sync calls `get_power_state` in threads
    sweep_reader: SweepReader | None = None

    def get_power_state(self, target: Target) -> str | None:
        """
        Return `power on` or `power off`, as the BMC reports it; None without a settled state.

        A driver repeats a request that was lost, as far as its protocol allows; callers do not.

        Raises HardwareError.
        """
        raise NotImplementedError

    def last_reset(self, target: Target) -> str | None:
        """
        Return a text that changes when the machine is reset, if the BMC has such a text.

        It proves a reset whose answer was lost. Raises HardwareError.
        """
        return None

    def order(self, target: Target, state: str) -> None:
        """
        Send a power command without waiting for its effect.

        state: `power on`, `power off`, `soft power off`, or `rebooting`: a hard reset, used only
        for machines that must not be powered off.

        Raises Busy: refused for now. Raises Unconfirmed: it may have been carried out.
        Raises Unreachable: it was not sent. Raises HardwareError: it was refused for good.
        """
        raise NotImplementedError

    @conditions(leaves=[Condition.STARTED])
    def power_on(self, target: Target) -> Outcome:
        """Frame step: switch the machine on; reset one that must not be powered off."""
        if target.disable_power_off:
            return self._reset(target)
        return self._reach(target, POWER_ON, POWER_ON, target.progress)

    @conditions(leaves=[Condition.OFF])
    def power_off(self, target: Target) -> Outcome:
        """
        Frame step: switch the machine off.

        A node that must not be powered off (`disable_power_off`) stays on; the next `power_on`
        resets it.
        """
        if target.disable_power_off:
            return Done()
        return self._reach(target, POWER_OFF, POWER_OFF, target.progress)

    @conditions(leaves=[Condition.RESTARTED])
    def reboot(self, target: Target) -> Outcome:
        """Frame step: switch the machine off, and on again."""
        return self.change(target, REBOOT)

    def reset_if_kept_on(self, target: Target) -> Outcome:
        """Frame step: reset a machine that must not be powered off, so that it leaves the agent."""
        return self._reset(target) if target.disable_power_off else Done()

    def read(self, target: Target) -> Outcome:
        """Frame step: read the power state, and report it; wait for a settled one."""
        state = self._look(target)
        if isinstance(state, HardwareError):
            raise state
        if state is None:
            looks = int(target.progress.get("looks", 0))
            return Wait(
                {**target.progress, "looks": looks + 1},
                poll_after=_pause(looks),
                timeout=_limit(target, POWER_ON),
                reason="the BMC shows no settled power state",
            )
        target.report(power_state=state)
        return Done()

    def change(self, target: Target, state: str, timeout: float | None = None) -> Outcome:
        """
        Bring the machine to `state`, or reboot it, hard or soft.

        A reboot switches the machine off and on, so that its effect can be read; it switches on a
        machine that is off, and resets one that must not be powered off.
        timeout: seconds; by default `[conductor]soft_power_off_timeout` for soft states, else
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
            progress = {"phase": "on", "crashes": target.crashes}
            # commit first: that the machine was off, or an attempt after a crash would switch off a
            # machine that it finds on; and that its agent is gone
            if not self.transactional or target.progress or _token_is_issued(target):
                return Wait(progress, poll_after=0)
        return self._reach(target, POWER_ON, POWER_ON, progress, timeout)

    def _reset(self, target: Target) -> Outcome:
        """Reset a machine that is on; switch on one that is off."""
        progress = target.progress
        if progress.get("starts"):
            return self._reach(target, POWER_ON, POWER_ON, progress)
        if "last_reset" not in progress:
            state = self._look(target)
            if isinstance(state, HardwareError):
                raise state
            if state == POWER_OFF:
                return self._reach(target, POWER_ON, POWER_ON, {**progress, "starts": True})
            last_reset = self._last_reset(target)
            # commit first: that a reset may be sent; that the agent is gone, so that the next one
            # gets a token
            target.forget_agent()
            intent = {**progress, "last_reset": last_reset, "after_death": target.resumed}
            return Wait(intent, poll_after=0, timeout=_limit(target, REBOOT))
        if "answer" not in progress:
            target.forget_agent()
        if not progress["after_death"] and target.resumed and "answer" not in progress:
            progress = {**progress, "answer": Answer.LOST}
        return self._reach(target, REBOOT, POWER_ON, progress)

    def _reach(
        self,
        target: Target,
        order: str,
        target_state: str,
        progress: Mapping[str, Any],
        timeout: float | None = None,
    ) -> Outcome:
        """
        Send a power command as often as the power table demands, and poll for its effect.

        order: as for `order`. target_state: the state that it leads to. progress: of this command's
        earlier calls; empty, or with keys of the caller only, at its first.
        """
        pursuit = self._resumed(target, order, target_state, progress)
        pursuit.note(target)
        if pursuit.answer in (Answer.TAKEN, Answer.LOST) and target_state == POWER_OFF:
            target.forget_agent()
        for attempt in (1, 2):
            state = self._look(target)
            if order == REBOOT and state == POWER_OFF:
                # a reset that was sent may switch it on again
                answer_facts = {"answer": Answer.LOST} if pursuit.uncertain else {}
                starts = {"starts": True, **answer_facts}
                return Wait(starts, poll_after=0, timeout=_limit(target, order))
            pursuit = pursuit.after(self._compared(target, pursuit, state), state)
            if target_state == POWER_OFF and state == POWER_OFF:
                target.forget_agent()
            match pursuit.action:
                case Action.DONE:
                    _settle(target, target_state)
                    return Done()
                case Action.FAIL:
                    return pursuit.failure(state)
                case Action.SEND if attempt == 1:
                    pursuit = self._send(target, pursuit)
                case _:
                    break
        return Wait(
            {**progress, **pursuit.progress()},
            poll_after=_pause(max(pursuit.looks - 1, pursuit.sends - 1)),
            timeout=timeout or _limit(target, order),
            reason=pursuit.obstacle(),
        )

    def _look(self, target: Target) -> str | HardwareError | None:
        """Read the power state; return the error if it cannot be read."""
        try:
            return self.get_power_state(target)
        except LeaseLost:
            raise
        except HardwareError as error:
            return error

    def _last_reset(self, target: Target) -> str | None:
        try:
            return self.last_reset(target)
        except LeaseLost:
            raise
        except HardwareError:
            return None

    def _resumed(
        self, target: Target, order: str, target_state: str, progress: Mapping[str, Any]
    ) -> Pursuit:
        """Return the pursuit of an order as its progress has it, or a new one."""
        if "answer" in progress and "looks" in progress:
            return Pursuit.of(Order(order), target_state, progress)
        pending = target.driver_internal_info.get(PENDING)
        is_opposed = isinstance(pending, Mapping) and pending.get("state") != target_state
        # "ordered": progress of the previous release
        crashed = target.crashed_since(progress)
        unrecorded = (crashed and order != REBOOT) or progress.get("ordered", False)
        answer = Answer(progress.get("answer", Answer.LOST if unrecorded else Answer.NONE))
        if self.transactional:
            is_opposed, answer = False, Answer.NONE
        if order == REBOOT:  # of a machine that gets no power off
            is_opposed = False
        is_lost = answer is Answer.LOST
        return Pursuit(
            Order(order), target_state, answer=answer, doubted=is_opposed, uncertain=is_lost
        )

    def _compared(
        self, target: Target, pursuit: Pursuit, state: str | HardwareError | None
    ) -> Reading:
        if isinstance(state, HardwareError):
            return Reading.SILENT
        if state is None:
            return Reading.MOVING
        if pursuit.order is not Order.RESET:
            return Reading.REACHED if state == pursuit.target_state else Reading.OTHER
        previous_reset = target.progress.get("last_reset")
        if pursuit.answer is Answer.NONE or previous_reset is None:
            return Reading.UNPROVEN
        return (
            Reading.OTHER if self._last_reset(target) in (previous_reset, None) else Reading.REACHED
        )

    def _send(self, target: Target, pursuit: Pursuit) -> Pursuit:
        """Send the order of a pursuit once, and note its answer."""
        answered_pursuit = pursuit.answered(Answer.TAKEN)
        if pursuit.target_state == POWER_ON:
            try:
                target.driver.management.before_start(target)
            except Busy as error:
                return pursuit.answered(Answer.REFUSED, error)
        target.before_order()
        target.report(driver_internal_info={PENDING: {"state": pursuit.target_state, "sweeps": 0}})
        try:
            self.order(target, str(pursuit.order))
        except LeaseLost:
            raise
        except HardwareError as error:
            answered_pursuit = pursuit.answered(answer_of(error), error)
        answered_pursuit.note(target)
        if pursuit.target_state == POWER_OFF and answered_pursuit.answer in (
            Answer.TAKEN,
            Answer.LOST,
        ):
            target.forget_agent()
        return answered_pursuit


def _settle(target: Target, state: str) -> None:
    """Report a power state that is settled: no order is pending."""
    target.report(power_state=state)
    report_pending(target, None)


def _pause(looks: int) -> float:
    """Return the seconds until the next reading, after `looks` earlier ones."""
    return float(min(0.5 * 1.5 ** max(looks, 0), 10.0))


def _limit(target: Target, order: str) -> float:
    """Return the seconds that an order may take."""
    name = "soft_power_off_timeout" if order == SOFT_OFF else "power_state_change_timeout"
    return float(target.options["conductor"][name])


def _token_is_issued(target: Target) -> bool:
    """Whether a token from a lookup is recorded: while it is, the next agent's lookup gets none."""
    return target.agent.token is not None and not target.agent.pregenerated
