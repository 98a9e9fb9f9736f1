"""
Rescue through the agent: interface `agent`. The tenant gets a password for the rescue ramdisk.
"""

from dataclasses import replace

from drivers.agent import client, in_band
from drivers.core.conditions import Condition, conditions
from drivers.core.errors import AgentBusy, InvalidDriverInfo, Unconfirmed, Unreachable
from drivers.core.interface_kinds import Rescue
from drivers.core.steps import Done, Outcome, Wait
from drivers.core.target import Target

ORDER = "rescue.finalize_rescue"


class AgentRescue(Rescue):
    """Sets the rescue password; then the agent ends and leaves the ramdisk to the tenant."""

    name = "agent"

    def validate(self, target: Target) -> None:
        if target.instance_info.get("rescue_password") == "":
            raise InvalidDriverInfo("instance_info/rescue_password is empty")
        target.driver.network.validate_rescue(target)
        if target.options["agent"]["manage_agent_boot"]:
            # of the images for a rescue: the tenant's machine is powered off before they are read
            target.driver.boot.validate(replace(target, provision_state="rescuing"))

    @conditions(needs=[Condition.AGENT])
    def rescue(self, target: Target) -> Outcome:
        """
        Frame step: set the rescue password.

        The agent's API ends once it has accepted the password, so a command whose answer was lost
        counts as accepted.
        """
        password = target.instance_info.get("hashed_rescue_password")
        if not password:
            raise InvalidDriverInfo("instance_info/hashed_rescue_password is missing")
        if not target.agent.url:
            return Wait(target.progress)
        if target.progress.get("sent") or target.resumed:
            try:
                if in_band.was_sent(target, in_band.Order(ORDER)):
                    return Done()
            except Unreachable:
                return Done()
        try:
            secret = {"rescue_password": password, "hashed": True}
            command = client.run(target, ORDER, secret, wait=False)
        except AgentBusy as error:
            return Wait(target.progress, poll_after=in_band.RETRY, reason=str(error))
        except Unconfirmed as error:
            return Wait({"sent": True}, poll_after=10, reason=str(error))
        except Unreachable as error:
            return Wait(poll_after=10, reason=str(error))
        client.result(target, command)
        return Done()

    def unrescue(self, target: Target) -> Outcome:
        """Frame step: nothing to undo for this interface."""
        return Done()
