"""
The deploy interface: deployment, cleaning and teardown of a machine, and their frames.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from drivers.core.conditions import UNKNOWN, Conditions
from drivers.core.errors import FailureCode, NotSupported
from drivers.core.interface import Frame, Interface
from drivers.core.steps import Done, Failed, Flow, Outcome, Resume, Step, Wait, arguments
from drivers.core.target import Target, run_parts


class Deploy(Interface):
    """Deploy an instance to the machine, tear it down, and clean the machine."""

    kind = "deploy"
    #: boot source of a deployed machine: "local" (its disk), "ramdisk" or "kickstart"
    boot_option: ClassVar[str] = "local"
    undeclared = UNKNOWN
    priority_settings = {
        "erase_devices": "erase_devices_priority",
        "erase_devices_metadata": "erase_devices_metadata_priority",
    }

    def frame(self, target: Target, flow: str) -> Frame:
        """
        Return the frame of a flow for this node: that of `frames`, or a part of it.

        flow: clean, deploy, delete, service, rescue, unrescue or adopt.
        """
        return self.frames.get(flow, Frame())

    def conditions_of(self, target: Target, method: str) -> Conditions:
        """Return what a step or frame step needs and leaves; a mega step may leave anything."""
        if method == "deploy" and not self.has_decomposed_deploy_steps():
            return UNKNOWN
        return super().conditions_of(target, method)

    def has_decomposed_deploy_steps(self) -> bool:
        """
        Whether deployments consist of separate steps. False: the step `deploy` is a mega step.

        A mega step is a whole deployment, driven by the agent's heartbeats: `deploy` boots the
        agent, the first heartbeat calls `continue_deploy`, later heartbeats call `deploy_is_done`,
        and `reboot_to_instance` ends it. The agent's own deploy steps do not run.
        """
        return True

    def deploy(self, target: Target) -> Outcome | None:
        """Boot the agent; a step of every deployment."""
        raise NotImplementedError

    def continue_deploy(self, target: Target) -> Outcome | None:
        """Mega step: send the agent the command that writes the image."""
        raise NotImplementedError

    def deploy_is_done(self, target: Target) -> bool:
        """Mega step: whether the agent has written the image."""
        raise NotImplementedError

    def reboot_to_instance(self, target: Target) -> Outcome | None:
        """Mega step: boot the instance."""
        raise NotImplementedError

    def execute_deploy_step(self, target: Target, step: Mapping[str, object]) -> Outcome:
        if step["step"] == "deploy" and not self.has_decomposed_deploy_steps():
            return self._run_mega_step(target)
        return super().execute_deploy_step(target, step)

    def adopt(self, target: Target) -> Outcome | None:
        """Frame step: take over a machine that runs its instance already; send no command."""
        return Done()

    def refuse_cleaning(self, target: Target, reason: str) -> Outcome:
        """Frame step: fail a clean that cannot be planned."""
        return Failed(reason, FailureCode.INVALID_STEPS)

    def in_band_steps(self, target: Target, flow: Flow) -> list[Step]:
        """
        Return the agent's steps of a flow, in its order, with priorities from the settings.

        Steps that the node's driver implements under the same name (`write_image`) are left out,
        and so are RAID steps unless the agent does the RAID of the node.
        """
        reported = target.agent.steps.get(flow.value, ())
        if not reported:
            return []
        driver = target.driver
        of_driver = {step.key for step in (*driver.steps(flow), *driver.steps(flow, target))}
        other_raid = flow is not Flow.SERVICE and not driver.raid.in_band
        settings = self.priority_settings if flow is Flow.CLEAN else {}
        in_band = []
        for step in reported:
            key = (step["interface"], step["step"])
            if key in of_driver or (key[0] == "raid" and other_raid):
                continue
            setting = settings.get(key[1]) if key[0] == "deploy" else None
            override = target.options["deploy"].get(setting) if setting else None
            in_band.append(
                Step(
                    *key,
                    priorities={flow: step["priority"] if override is None else override},
                    args=arguments(step.get("argsinfo")),
                    abortable=bool(step.get("abortable", flow is Flow.DEPLOY)),
                    in_band=True,
                    resume=Resume.PROBE,
                    reboot_requested=bool(step.get("reboot_requested")),
                )
            )
        return in_band

    def execute_in_band(self, target: Target, flow: Flow, step: Mapping[str, object]) -> Outcome:
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
    progress = {**target.progress, "phase": phase}
    return run_parts(replace(target, progress=progress), {phase: method})
