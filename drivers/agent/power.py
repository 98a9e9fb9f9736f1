"""
Power through the running agent, for machines without a BMC.

An operator switches the machine on and boots the agent, which keeps running between operations
(fast track). The agent can restart its machine, and that is all: a machine whose agent is gone,
such as one with an instance, cannot be reached.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from drivers.agent import client, in_band
from drivers.agent.in_band import CommandStatus
from drivers.core import fast_track
from drivers.core.errors import (
    FailureCode,
    InvalidDriverInfo,
    NotSupported,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.interface_kinds import POWER_ON, REBOOT, SOFT_REBOOT, Power
from drivers.core.steps import AWAITED, Done, Failed, Outcome, Progress, Wait
from drivers.core.target import Target

#: The agent's command that restarts the machine.
_RESTART = in_band.Order("standby.run_image")
#: Seconds between two looks at the agent that restarts.
_POLL_INTERVAL = 5.0
#: Looks that settle an order without an answer: it did not arrive if the agent's list does not have
#: it; the agent is gone if it does not answer.
_LOOKS_ABSENT, _LOOKS_SILENT = 2, 12
#: Most of the agent's last commands that are recorded.
_MOST_COMMANDS = 20


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

        The ids of the agent's earlier commands are recorded before the command is sent. If its
        answer is lost, or the conductor dies, the agent's list settles whether it has arrived: it
        is sent again only if the same agent does not have it.
        """
        progress = dict(target.progress)
        limit = timeout or float(target.options["conductor"]["power_state_change_timeout"])
        if not progress.keys() & {"before", "ordered"}:
            known_commands = [_id(command) for command in client.commands(target)[-_MOST_COMMANDS:]]
            return Wait({"before": known_commands, "crashes": target.crashes}, 0, limit)
        # "ordered": progress of the previous release
        is_unknown = "lost" in progress or "ordered" in progress
        if progress.get("command") is not None:
            outcome = self._ended(target, progress)
        elif is_unknown or target.crashes > progress["crashes"]:
            outcome = self._settled(target, progress)
        else:
            outcome = self._sent(target, state, progress)
        return replace(outcome, timeout=limit) if isinstance(outcome, Wait) else outcome

    def _sent(self, target: Target, state: str, progress: Progress) -> Outcome:
        """Send the command once."""
        try:
            command = self._order(target, state)
        except (Unconfirmed, Unexpected) as error:
            lost_progress = {**progress, "lost": str(error)}
            return Wait(lost_progress, _POLL_INTERVAL, reason=str(error))
        return Wait({**progress, "command": command.get("id")}, _POLL_INTERVAL)

    def _order(self, target: Target, state: str) -> dict[str, Any]:
        if state not in self.supported:
            raise NotSupported(f"power_interface: the agent cannot do {state!r}, only a restart")
        return client.run(target, _RESTART.name, {}, wait=False)

    def _settled(self, target: Target, progress: Progress) -> Outcome:
        """Find out whether a command without an answer has arrived, and how it ended."""
        loss_reason = progress.get("lost", "its answer was not recorded")
        try:
            commands = client.commands(target)
        except Unreachable as error:
            silent_polls = int(progress.get("silent", 0)) + 1
            if silent_polls >= _LOOKS_SILENT:
                return _restarted(target)
            return Wait({**progress, "silent": silent_polls}, _POLL_INTERVAL, reason=str(error))
        known_commands = progress.get("before", [])
        new_commands = [command for command in commands if _id(command) not in known_commands]
        of_order = [
            command for command in new_commands if command.get("command_name") == _RESTART.command
        ]
        if of_order:
            command_progress = {**progress, "command": of_order[-1].get("id")}
            return self._ended(target, command_progress)
        if not set(known_commands) <= set(map(_id, commands)):
            return _restarted(target)
        absent = int(progress.get("absent", 0)) + 1
        if absent < _LOOKS_ABSENT:
            return Wait({**progress, "absent": absent}, _POLL_INTERVAL, reason=loss_reason)
        if not known_commands:  # the agent may be the one before the restart, or the one after it
            return Failed(
                f"the restart was ordered, not confirmed: {loss_reason}", FailureCode.UNCONFIRMED
            )
        return Wait({"before": known_commands, "crashes": target.crashes}, 0, reason=loss_reason)

    def _ended(self, target: Target, progress: Progress) -> Outcome:
        """Return the outcome of the command; wait while the agent that got it still answers."""
        try:
            status, command = in_band.command_status(
                client.commands(target), _RESTART, progress["command"]
            )
        except Unreachable:
            return _restarted(target)
        if status in (CommandStatus.RUNNING, CommandStatus.SUCCEEDED):
            awaited_event = {AWAITED: "the end of the agent that restarts the machine"}
            return Wait({**progress, **awaited_event}, _POLL_INTERVAL)
        if status is CommandStatus.FAILED:
            reason = client.failure_reason(target, dict(command))
            return Failed(f"the agent did not restart the machine: {reason}")
        return _restarted(target)


def _id(command: Mapping[str, Any]) -> str:
    return str(command.get("id"))[:64]


def _restarted(target: Target) -> Done:
    """Report that the agent which got the command is gone."""
    target.forget_agent()
    target.report(power_state=POWER_ON)
    return Done()
