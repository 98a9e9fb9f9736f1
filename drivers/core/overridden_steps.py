"""
Steps of drivers that override `get_clean_steps` or its counterpart of another flow.

The specs let drivers override these methods and the matching `execute_clean_step`. The interface
then offers the returned list, and its declared steps with priority 0: these run only on request and
are not in the list.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from drivers.core import priorities
from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface import Interface
from drivers.core.steps import Flow, Step, arguments
from drivers.core.target import Target

#: Keys of an entry; the arguments are `argsinfo`, or `args` as in the spec manual-cleaning.
_KEYS = frozenset(
    {"interface", "step", "priority", "abortable", "args", "argsinfo", "requires_ramdisk"}
)


def check(interface: Interface) -> None:
    """
    Check the overridden methods of an interface that list or run steps.

    Raises ValueError: a method cannot be called with the expected arguments.
    """
    for flow in Flow:
        for name, argument_count in ((f"get_{flow}_steps", 1), (f"execute_{flow}_step", 2)):
            if not interface.has(name):
                continue  # inherited from its kind
            method = getattr(interface, name)
            label = f"{interface.kind} interface {interface.name!r}: {name}"
            if not callable(method):
                raise ValueError(f"{label} is no method")
            if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
                raise ValueError(f"{label} must be a plain method, and return its result")
            try:
                inspect.signature(method).bind(*range(argument_count))
            except TypeError as error:
                call_form = "(target)" if argument_count == 1 else "(target, step)"
                raise ValueError(f"{label} is called with {call_form}: {error}") from None


def offered(interface: Interface, target: Target | None, flow: Flow) -> list[Step]:
    """
    Return the steps that an interface offers for a flow: declared ones, or its own list.

    Raises InvalidDriverInfo: the list is malformed, names a step without a method, or two steps
    have the same priority other than 0, by the list or by settings.
    """
    if target is None or not interface.lists(flow):
        return interface.get_steps(target, flow)
    label = f"{interface.kind} interface {interface.name!r}: get_{flow}_steps"
    declared_steps = interface.get_steps(target, flow)
    try:
        listing = getattr(interface, f"get_{flow}_steps")(target)
        steps = [_read(interface, flow, declared_steps, document) for document in listing]
        names = _names(steps)
        steps += [
            step for step in declared_steps if step.name not in names and not step.priorities[flow]
        ]
        priorities.refuse_ties(_priority(target, flow, step) for step in steps)
    except Exception as error:  # a driver's code may raise anything
        raise InvalidDriverInfo(f"{label}: {type(error).__name__}: {error}") from error
    return steps


def _read(
    interface: Interface, flow: Flow, declared_steps: Sequence[Step], document: Mapping[str, Any]
) -> Step:
    """
    Parse an entry of a step list.

    Raises ValueError, TypeError, KeyError: the entry is malformed.
    """
    unknown_keys = set(document) - _KEYS
    if unknown_keys:
        raise ValueError(f"unknown key {min(unknown_keys)!r} in {dict(document)!r}")
    name, priority = str(document["step"]), document["priority"]
    if isinstance(priority, bool) or not isinstance(priority, int | float):
        raise ValueError(f"the priority of {name!r} must be a number, not {priority!r}")
    if document.get("interface", interface.kind) != interface.kind:
        raise ValueError(f"{name!r} is of another interface, {document['interface']!r}")
    if not interface.has(f"execute_{flow}_step") and not hasattr(interface, name):
        raise ValueError(f"there is no method {name!r} to run")
    step = next((candidate for candidate in declared_steps if candidate.name == name), None)
    step = step or Step(interface.kind, name, {}, abortable=flow is Flow.DEPLOY)
    argsinfo = document.get("argsinfo", document.get("args"))
    return replace(
        step,
        priorities={**step.priorities, flow: priority},
        args=step.args if argsinfo is None else arguments(argsinfo),
        abortable=bool(document.get("abortable", step.abortable)),
        needs_ramdisk=bool(document.get("requires_ramdisk", step.needs_ramdisk)),
    )


def _names(steps: Sequence[Step]) -> set[str]:
    """
    Return the names of listed steps.

    Raises ValueError: a step is listed twice.
    """
    names: set[str] = set()
    for step in steps:
        if step.name in names:
            raise ValueError(f"{step.name!r} is listed twice")
        names.add(step.name)
    return names


def _priority(target: Target, flow: Flow, step: Step) -> priorities.Priority:
    label = f"{step.interface}.{step.name}"
    override = priorities.overridden(target.options, flow, label)
    return (step.name, *override) if override else (step.name, step.priorities[flow], None)
