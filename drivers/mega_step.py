"""
The mega step: a whole deployment as the one step `deploy`, driven by the agent's heartbeats.

For deploy interfaces whose `has_decomposed_deploy_steps` is False: `deploy` boots the agent, the
first heartbeat calls `continue_deploy`, later ones ask `deploy_is_done`, and then
`reboot_to_instance` ends it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from drivers.steps import Done, Outcome, Wait, run_parts
from drivers.target import Target

if TYPE_CHECKING:
    from drivers.interfaces import Deploy


def run(interface: "Deploy", target: Target) -> Outcome:
    """Do what the next phase of the deployment asks for; phases are kept in the progress."""
    phase = target.progress.get("phase", "boot")
    if phase == "boot":
        outcome = _part(target, phase, interface.deploy)
        if not isinstance(outcome, Wait) or outcome.poll_after is not None:
            return outcome
        return Wait({"phase": "write"})
    if not target.agent.url:
        return Wait(target.progress)
    if phase == "write":
        outcome = _part(target, phase, interface.continue_deploy)
        if isinstance(outcome, Wait) and outcome.poll_after is not None:
            return outcome
        return Wait({"phase": "written"}) if isinstance(outcome, Done | Wait) else outcome
    if phase == "written" and not interface.deploy_is_done(target):
        return Wait(target.progress)
    return _part(target, "reboot", interface.reboot_to_instance)


def _part(target: Target, phase: str, method: Callable[[Target], Outcome | None]) -> Outcome:
    progress = {**target.progress, "phase": phase}
    return run_parts(replace(target, progress=progress), {phase: method})
