"""Rescue by the agent: interface `agent`. The rescue ramdisk gets a password for its tenant."""

from drivers.agent import client, in_band
from drivers.core.errors import AgentBusy, InvalidDriverInfo, Unreachable
from drivers.core.kinds import Rescue
from drivers.core.steps import Done, Outcome, Wait
from drivers.core.target import Target

ORDER = "rescue.finalize_rescue"


class AgentRescue(Rescue):
    """The agent sets the password, then leaves the ramdisk to the tenant."""

    name = "agent"

    def validate(self, target: Target) -> None:
        if target.instance_info.get("rescue_password") == "":
            raise InvalidDriverInfo("instance_info/rescue_password is empty")

    def rescue(self, target: Target) -> Outcome:
        """
        Row of frames: the tenant can log in.

        The agent's API is gone once it has taken the password: an order whose answer was lost
        counts as taken.
        """
        password = target.instance_info.get("hashed_rescue_password")
        if not password:
            raise InvalidDriverInfo("instance_info/hashed_rescue_password is missing")
        if not target.agent.url:
            return Wait(target.progress)
        left = target.progress.get("sent") or target.resumed
        try:
            if left and in_band.was_given(target, in_band.Order(ORDER)):
                return Done()
            secret = {"rescue_password": password, "hashed": True}
            ordered = client.run(target, ORDER, secret, wait=False)
        except AgentBusy:
            return Wait(target.progress)
        except Unreachable:
            return Done() if left else Wait({"sent": True}, poll_after=10)
        client.result(target, ordered)
        return Done()

    def unrescue(self, target: Target) -> Outcome:
        """Row of frames: nothing of the rescue is left for this interface to undo."""
        return Done()
