"""
Hooks that the service runs after in-band steps, by flow, interface and step.

A hook receives the target and the step's result. Its reports are recorded with the outcome of the
step; an exception fails the step.
"""

from collections.abc import Callable, Mapping
from typing import Any

from drivers.core.errors import Unexpected
from drivers.core.steps import Flow
from drivers.core.target import Target

Hook = Callable[[Target, object], None]
_HOOKS: dict[tuple[Flow, str, str], Hook] = {}


def post_clean_step_hook(interface: str, step: str) -> Callable[[Hook], Hook]:
    """Register a hook that runs after an in-band clean step."""
    return _register(Flow.CLEAN, interface, step)


def post_deploy_step_hook(interface: str, step: str) -> Callable[[Hook], Hook]:
    """Register a hook that runs after an in-band deploy step."""
    return _register(Flow.DEPLOY, interface, step)


def post_service_step_hook(interface: str, step: str) -> Callable[[Hook], Hook]:
    """Register a hook that runs after an in-band service step."""
    return _register(Flow.SERVICE, interface, step)


def run_hook(target: Target, flow: Flow, interface: str, step: str, result: object) -> None:
    """Run the hook of a step, if it has one. Raises any error of the hook."""
    hook = _HOOKS.get((flow, interface, step))
    if hook is not None:
        hook(target, result)


def _register(flow: Flow, interface: str, step: str) -> Callable[[Hook], Hook]:
    def register(hook: Hook) -> Hook:
        _HOOKS[flow, interface, step] = hook
        return hook

    return register


@post_clean_step_hook("raid", "create_configuration")
@post_deploy_step_hook("raid", "apply_configuration")
def record_raid(target: Target, result: object) -> None:
    """
    Report the RAID configuration that the agent created, and the hint for its root volume.

    Raises Unexpected: the result is no RAID configuration.
    """
    if not result or not isinstance(result, Mapping):
        raise Unexpected("the agent did not report the RAID configuration that it created")
    target.report(raid_config=result, properties=_root_device(result))


def _root_device(config: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the property that leads the agent to the root volume; empty if no volume has a hint.

    Raises Unexpected: more than one volume is the root volume, or its hint is no object.
    """
    disks = config.get("logical_disks") or ()
    roots = [disk for disk in disks if isinstance(disk, Mapping) and disk.get("is_root_volume")]
    hints = [disk["root_device_hint"] for disk in roots if disk.get("root_device_hint")]
    if len(roots) > 1 or not all(isinstance(hint, Mapping) for hint in hints):
        raise Unexpected(
            "the RAID configuration that the agent created: expected one logical disk at most with"
            " is_root_volume, and its root_device_hint to be an object"
        )
    return {"root_device": hints[0]} if hints else {}


@post_clean_step_hook("raid", "delete_configuration")
def forget_raid(target: Target, result: object) -> None:
    """Report an empty RAID configuration, and remove the hint for the root disk on it."""
    target.report(raid_config={}, properties={"root_device": None})
