"""
Power through the running agent, for machines without a BMC.

An operator switches the machine on and boots the agent, which keeps running between operations
(fast track). The agent can restart its machine, and that is all: a machine whose agent is gone,
such as one with an instance, cannot be reached.
"""

from typing import Any

from drivers.agent import client, fast_track, in_band
from drivers.agent.in_band import CommandStatus
from drivers.core.errors import InvalidDriverInfo, NotSupported, Unconfirmed, Unreachable
from drivers.core.kinds import POWER_ON, REBOOT, SOFT_REBOOT, Power
from drivers.core.steps import Done, Failed, Outcome, Wait
from drivers.core.target import Target

#: The agent's command that restarts the machine.
_RESTART = in_band.Order("standby.run_image")
#: Seconds between two looks at the agent that restarts.
_POLL_INTERVAL = 5.0


class AgentPower(Power):
    """Restarts by the running agent; needs fast track."""

    name = "agent"
    supported = (REBOOT, SOFT_REBOOT)
    switches_off = False

    def validate(self, target: Target) -> None:
        if not fast_track.is_enabled(target):
            raise InvalidDriverInfo(
                "power_interface: 'agent' needs fast track: set driver_info/fast_track or"
                " [deploy]fast_track to true"
            )
        if not fast_track.was_heard(target):
            raise InvalidDriverInfo(
                "power_interface: 'agent' needs a running agent, and that of this node has sent no"
                " heartbeat within [deploy]fast_track_timeout; boot it by hand"
            )

    def get_power_state(self, target: Target) -> str:
        if not fast_track.was_heard(target):
            raise Unreachable(f"the agent of node {target.uuid} is silent: its power is unknown")
        return POWER_ON

    def order(self, target: Target, state: str) -> None:
        self._order(target, state)

    def power_off(self, target: Target) -> Outcome:
        """Frame step: do nothing; the next `power_on` restarts the machine."""
        return Done()

    def power_on(self, target: Target) -> Outcome:
        """Frame step: restart the machine, which is on."""
        return self.change(target, REBOOT)

    def change(self, target: Target, state: str, timeout: float | None = None) -> Outcome:
        """
        Restart the machine, and wait until the agent that got the command is gone.

        A command whose answer was lost is never repeated: the list of the agent's commands shows
        whether it has arrived.
        """
        progress = dict(target.progress)
        if not progress.get("ordered") and not (target.resumed and self._was_ordered(target)):
            try:
                command = self._order(target, state)
                progress["command"] = command.get("id")
            except Unconfirmed:
                pass
        elif progress.get("ordered"):
            ended = self._ended(target)
            if ended is not None:
                return ended
        return Wait(
            {**progress, "ordered": True},
            poll_after=_POLL_INTERVAL,
            timeout=timeout or target.options["conductor"]["power_state_change_timeout"],
        )

    def _order(self, target: Target, state: str) -> dict[str, Any]:
        if state not in self.supported:
            raise NotSupported(f"power_interface: the agent cannot do {state!r}, only a restart")
        return client.run(target, _RESTART.name, {}, wait=False)

    def _was_ordered(self, target: Target) -> bool:
        """Whether the command of an attempt before the conductor's crash has arrived."""
        try:
            return in_band.was_sent(target, _RESTART)
        except Unreachable:  # the agent was heard lately: it is going down
            return True

    def _ended(self, target: Target) -> Outcome | None:
        """Return the outcome of the command; None while the agent that got it still answers."""
        sent = target.progress.get("command")
        try:
            status, command = in_band.command_status(client.commands(target), _RESTART, sent)
        except Unreachable:
            status, command = CommandStatus.FRESH, {}
        if status in (CommandStatus.RUNNING, CommandStatus.SUCCEEDED):
            return None
        if status is CommandStatus.FAILED:
            reason = client.failure_reason(target, dict(command))
            return Failed(f"the agent did not restart the machine: {reason}")
        target.forget_agent()
        target.report(power_state=POWER_ON)
        return Done()
