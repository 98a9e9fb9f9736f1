"""
Steps that a node offers, and validation of requested steps against them.

`app.planning.planning` reads the requested steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.errors import Invalid
from drivers.agent import in_band
from drivers.core import reserved
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
    found = [*of_driver(target, flow), *in_band.steps_of(target, flow)]
    return {step.key: step for step in found}


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
    requested: Iterable[RequestedStep],
    flow: Flow,
    known: Mapping[Key, Step],
    *,
    agent: bool,
    ramdisk: bool = True,
) -> list[str]:
    """
    Return all errors in requested steps, one sentence each.

    `known` comes from `offered`. `agent`: an agent takes part and has not reported its steps yet,
    so an unknown step may be the agent's. `ramdisk`: the ramdisk is booted, or may be.
    """
    found = []
    seen: set[Key] = set()
    for each in requested:
        key = (each["interface"], each["step"])
        label = ".".join(key)
        if each.get("child"):
            if key[1] in reserved.METHODS and key[1] not in reserved.ON_CHILDREN:
                found.append(f"{label}: cannot be run on child nodes")
            continue
        if key[1] in reserved.METHODS:
            found += wrong_args(each, reserved.ARGS.get(key[1], ()))
            continue
        step = known.get(key)
        if flow is Flow.DEPLOY:
            found += _wrong_in_deploy(label, each, step, key in seen)
        seen.add(key)
        if step is None:
            if not agent:
                found.append(f"{label}: this node has no {flow} step of that name")
            continue
        enabled = flow is not Flow.DEPLOY or each.get("priority", 0) > 0
        found += wrong_args(each, step.args, enabled=enabled)
        if not ramdisk and step.needs_ramdisk:
            found.append(f"{label}: needs the ramdisk, which disable_ramdisk leaves out")
    return found


def wrong_args(each: RequestedStep, declared: Sequence[Arg], *, enabled: bool = True) -> list[str]:
    """List the errors in the arguments of a requested step; one that does not run may lack some."""
    label, given = f"{each['interface']}.{each['step']}", each.get("args") or {}
    args = {arg.name: arg for arg in declared}
    found = [
        f"{label}: has no argument {name!r}; it has {', '.join(args) or 'none'}"
        for name in given
        if name not in args
    ]
    if enabled:
        missing = [name for name, arg in args.items() if arg.required and name not in given]
        found += [f"{label}: the argument {name!r} is required and missing" for name in missing]
    return found


def _wrong_in_deploy(
    label: str, each: RequestedStep, step: Step | None, repeated: bool
) -> list[str]:
    priority, found = each.get("priority", 0), []
    if repeated:
        found.append(f"{label}: is requested twice")
    low, high = IN_BAND_DEPLOY
    if (step is None or step.in_band) and priority and not low <= priority <= high:
        found.append(
            f"{label}: has priority {priority:g}; it is not a step of the driver, and the agent's"
            f" steps must have priorities from {low} to {high}"
        )
    return found


def needs_ramdisk(requested: Iterable[RequestedStep], known: Mapping[Key, Step]) -> bool:
    """Whether requested steps need the ramdisk; an unknown step may be the agent's, so it does."""
    for each in requested:
        if each["step"] in reserved.METHODS or each.get("child"):
            continue
        step = known.get((each["interface"], each["step"]))
        if step is None or step.needs_ramdisk:
            return True
    return False
