"""
Steps that a node offers, and validation of requested steps against them.

`app.planning.planning` reads the requested steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.errors import Invalid
from drivers.core import reserved
from drivers.core.driver import interfaces_of
from drivers.core.errors import HardwareError
from drivers.core.steps import Arg, Flow, Step
from drivers.core.target import Target

#: A requested step: {interface, step, args, priority?, child?}.
RequestedStep = Mapping[str, Any]
Key = tuple[str, str]

#: Lowest and highest priority of in-band deploy steps: between boot and tear-down of the agent.
IN_BAND_DEPLOY = (41, 99)


def offered(target: Target, flow: Flow) -> dict[Key, Step]:
    """
    Return the steps of a flow that the node's interfaces have, and those its agent last reported.

    Raises Invalid: an interface lists malformed steps.
    """
    in_band_steps = interfaces_of(target).deploy.in_band_steps(target, flow)
    return {step.key: step for step in (*of_driver(target, flow), *in_band_steps)}


def of_driver(target: Target, flow: Flow) -> list[Step]:
    """
    Return the steps of a flow that the node's interfaces have.

    Raises Invalid: an interface lists malformed steps.
    """
    try:
        return target.driver.steps(flow, target)
    except HardwareError as error:
        raise Invalid(f"Node {target.uuid}: {error}") from error


def problems(
    requested_steps: Iterable[RequestedStep],
    flow: Flow,
    offered_steps: Mapping[Key, Step],
    *,
    agent: bool,
    ramdisk: bool = True,
) -> list[str]:
    """
    Return all errors in requested steps, one sentence each.

    `offered_steps` comes from `offered`. `agent`: an agent takes part and has not reported its
    steps yet, so an unknown step may be the agent's. `ramdisk`: the ramdisk is booted, or may be.
    """
    errors = []
    earlier_keys: set[Key] = set()
    for requested_step in requested_steps:
        key = (requested_step["interface"], requested_step["step"])
        label = ".".join(key)
        if requested_step.get("child"):
            if key[1] in reserved.METHODS and key[1] not in reserved.ON_CHILDREN:
                errors.append(f"{label}: cannot be run on child nodes")
            continue
        if key[1] in reserved.METHODS:
            errors += wrong_args(requested_step, reserved.ARGS.get(key[1], ()))
            continue
        step = offered_steps.get(key)
        if flow is Flow.DEPLOY:
            errors += _wrong_in_deploy(label, requested_step, step, key in earlier_keys)
        earlier_keys.add(key)
        if step is None:
            if not agent:
                errors.append(f"{label}: this node has no {flow} step of that name")
            continue
        enabled = flow is not Flow.DEPLOY or requested_step.get("priority", 0) > 0
        errors += wrong_args(requested_step, step.args, enabled=enabled)
        if not ramdisk and step.needs_ramdisk:
            errors.append(f"{label}: needs the ramdisk, which disable_ramdisk leaves out")
    return errors


def wrong_args(
    requested_step: RequestedStep, declarations: Sequence[Arg], *, enabled: bool = True
) -> list[str]:
    """List the errors in the arguments of a requested step; one that does not run may lack some."""
    label = f"{requested_step['interface']}.{requested_step['step']}"
    values = requested_step.get("args") or {}
    args = {arg.name: arg for arg in declarations}
    errors = [
        f"{label}: has no argument {name!r}; it has {', '.join(args) or 'none'}"
        for name in values
        if name not in args
    ]
    if enabled:
        missing_names = [name for name, arg in args.items() if arg.required and name not in values]
        errors += [
            f"{label}: the argument {name!r} is required and missing" for name in missing_names
        ]
    return errors


def _wrong_in_deploy(
    label: str, requested_step: RequestedStep, step: Step | None, repeated: bool
) -> list[str]:
    priority, errors = requested_step.get("priority", 0), []
    if repeated:
        errors.append(f"{label}: is requested twice")
    low, high = IN_BAND_DEPLOY
    if (step is None or step.in_band) and priority and not low <= priority <= high:
        errors.append(
            f"{label}: has priority {priority:g}; it is not a step of the driver, and the agent's"
            f" steps must have priorities from {low} to {high}"
        )
    return errors


def needs_ramdisk(
    requested_steps: Iterable[RequestedStep], offered_steps: Mapping[Key, Step]
) -> bool:
    """Whether requested steps need the ramdisk; an unknown step may be the agent's, so it does."""
    for requested_step in requested_steps:
        if requested_step["step"] in reserved.METHODS or requested_step.get("child"):
            continue
        step = offered_steps.get((requested_step["interface"], requested_step["step"]))
        if step is None or step.needs_ramdisk:
            return True
    return False
