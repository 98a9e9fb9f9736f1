"""
The deploy interface: deployment, cleaning and teardown of a machine, and the frames around them.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from drivers.core.errors import NotSupported
from drivers.core.interface import Frame, Interface
from drivers.core.steps import Done, Flow, Outcome, Wait, nest
from drivers.core.target import Target


class Deploy(Interface):
    """Put an instance on the machine, clean it, and take it down."""

    kind = "deploy"
    #: what the machine boots once it is deployed: "local" (its disk), "ramdisk" or "kickstart"
    boot_option: ClassVar[str] = "local"
    priority_settings = {
        "erase_devices": "erase_devices_priority",
        "erase_devices_metadata": "erase_devices_metadata_priority",
    }

    def frame(self, target: Target, flow: str) -> Frame:
        """
        The frame of a flow for this node: that of `frames`, or less of it.

        flow: clean, deploy, delete, service, rescue, unrescue or adopt.
        """
        return self.frames.get(flow, Frame())

    def has_decomposed_deploy_steps(self) -> bool:
        """
        False: the step `deploy` is a mega step, all of a deployment, driven by the agent's
        heartbeats. `deploy` boots the agent, the first heartbeat calls `continue_deploy`, later
        ones ask `deploy_is_done`, and then `reboot_to_instance` ends it. The agent's own steps take
        no part.
        """
        return True

    def deploy(self, target: Target) -> Outcome | None:
        """The step that every deployment has: the agent runs."""
        raise NotImplementedError

    def continue_deploy(self, target: Target) -> Outcome | None:
        """Of a mega step: the agent has called, and is told to write the image."""
        raise NotImplementedError

    def deploy_is_done(self, target: Target) -> bool:
        """Of a mega step: whether the agent has written the image."""
        raise NotImplementedError

    def reboot_to_instance(self, target: Target) -> Outcome | None:
        """Of a mega step: the machine boots what was written."""
        raise NotImplementedError

    def execute_deploy_step(self, target: Target, step: Mapping[str, Any]) -> Outcome:
        if step["step"] == "deploy" and not self.has_decomposed_deploy_steps():
            return self._run_mega_step(target)
        return super().execute_deploy_step(target, step)

    def adopt(self, target: Target) -> Outcome | None:
        """Row of frames: the machine runs its instance already; nothing is ordered."""
        return Done()

    def execute_in_band(self, target: Target, flow: Flow, step: Mapping[str, Any]) -> Outcome:
        """Run a step that the agent reported; `step["args"]` are its arguments."""
        raise NotSupported(f"{self.name} deploy has no agent to run {step['step']!r}")

    def _run_mega_step(self, target: Target) -> Outcome:
        """Run the next phase of the deployment; the progress names it."""
        phase = target.progress.get("phase", "boot")
        if phase == "boot":
            outcome = _part(target, phase, self.deploy)
            if not isinstance(outcome, Wait) or outcome.poll_after is not None:
                return outcome
            return Wait({"phase": "write"})
        if not target.agent.url:
            return Wait(target.progress)
        if phase == "write":
            outcome = _part(target, phase, self.continue_deploy)
            if isinstance(outcome, Wait) and outcome.poll_after is not None:
                return outcome
            return Wait({"phase": "written"}) if isinstance(outcome, Done | Wait) else outcome
        if phase == "written" and not self.deploy_is_done(target):
            return Wait(target.progress)
        return _part(target, "reboot", self.reboot_to_instance)


def _part(target: Target, phase: str, method: Callable[[Target], Outcome | None]) -> Outcome:
    return nest(method(target.part(phase)), phase, {"phase": phase})
