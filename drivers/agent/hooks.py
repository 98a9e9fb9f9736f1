"""
What the service does after the agent has run a step: hooks, by (interface, step).

A hook gets the target and the step's result; what it reports is written with the step's outcome.
A hook that raises fails the step.
"""

from collections.abc import Callable
from typing import Any

from drivers.core.errors import Unexpected
from drivers.core.steps import Flow
from drivers.core.target import Target

Hook = Callable[[Target, Any], None]
_HOOKS: dict[tuple[Flow, str, str], Hook] = {}


def post_clean_step_hook(interface: str, step: str) -> Callable[[Hook], Hook]:
    """Declare what follows an in-band clean step."""
    return _declare(Flow.CLEAN, interface, step)


def post_deploy_step_hook(interface: str, step: str) -> Callable[[Hook], Hook]:
    """Declare what follows an in-band deploy step."""
    return _declare(Flow.DEPLOY, interface, step)


def run_hook(target: Target, flow: Flow, interface: str, step: str, result: Any) -> None:
    """Run the hook of a step, if it has one. Raises whatever the hook raises."""
    hook = _HOOKS.get((flow, interface, step))
    if hook is not None:
        hook(target, result)


def _declare(flow: Flow, interface: str, step: str) -> Callable[[Hook], Hook]:
    def declare(hook: Hook) -> Hook:
        _HOOKS[flow, interface, step] = hook
        return hook

    return declare


@post_clean_step_hook("raid", "create_configuration")
@post_deploy_step_hook("raid", "apply_configuration")
def raid_was_built(target: Target, result: Any) -> None:
    """Remember the RAID configuration that the agent made."""
    if not result:
        raise Unexpected("the agent did not say which RAID configuration it made")
    target.report(raid_config=result)


@post_clean_step_hook("raid", "delete_configuration")
def raid_was_removed(target: Target, result: Any) -> None:
    """Forget the RAID configuration, and the root disk that was on it."""
    target.report(raid_config={}, properties={"root_device": None})
