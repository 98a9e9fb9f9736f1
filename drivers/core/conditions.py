"""
Conditions of a machine in a plan: needs of its steps, and conditions that they leave.

A step declares them at its decorator, `step(needs=..., leaves=...)`, a frame step with
`conditions`. A method that overrides another one and declares nothing has the conditions of the
overridden one. A step that declares nothing anywhere leaves the machine as it was; of deploy
interfaces that are not derived from the agent's, it may leave the machine in any condition
(`Interface.undeclared`).

    @step(deploy=40, needs=[Condition.BOOTABLE], leaves=[Condition.OFF, Condition.INSTANCE_NEXT])
    def tear_down_agent(self, target): ...

Conditions of the same `Aspect` exclude each other. An unknown condition meets every need: a plan is
refused only for an error that is certain.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

MARK = "__ingot_conditions__"
Method = TypeVar("Method", bound=Callable[..., Any])


class Aspect(StrEnum):
    """Part of a machine's state; one condition of each holds at a time, or none is known."""

    MACHINE = "machine"  # the running system
    BOOT = "boot"  # the system that the next start boots
    NETWORK = "network"
    DISK = "disk"  # of the instance


class Condition(StrEnum):
    """Condition of a machine; the value follows "needs" or "leaves" in messages."""

    OFF = "the machine off"
    AGENT = "the agent running"
    INSTANCE = "the instance running"

    UNPREPARED = "no boot prepared"
    AGENT_NEXT = "the agent's boot prepared"
    INSTANCE_NEXT = "the instance's boot prepared"

    SERVICE_NETWORK = "the machine on the agent's network"
    TENANT_NETWORKS = "the machine on the tenant's networks"

    UNWRITTEN = "the disk without the image"
    WRITTEN = "the image on the disk"
    BOOTABLE = "an image that boots on the disk"

    # of a start: the running system is then the one whose boot is prepared
    STARTED = "the machine on"  # no change, if it is on already
    RESTARTED = "the machine restarted"


ASPECTS: Mapping[Condition, Aspect] = {
    Condition.OFF: Aspect.MACHINE,
    Condition.AGENT: Aspect.MACHINE,
    Condition.INSTANCE: Aspect.MACHINE,
    Condition.STARTED: Aspect.MACHINE,
    Condition.RESTARTED: Aspect.MACHINE,
    Condition.UNPREPARED: Aspect.BOOT,
    Condition.AGENT_NEXT: Aspect.BOOT,
    Condition.INSTANCE_NEXT: Aspect.BOOT,
    Condition.SERVICE_NETWORK: Aspect.NETWORK,
    Condition.TENANT_NETWORKS: Aspect.NETWORK,
    Condition.UNWRITTEN: Aspect.DISK,
    Condition.WRITTEN: Aspect.DISK,
    Condition.BOOTABLE: Aspect.DISK,
}
#: Prepared boot -> system that runs after a start; after others it is unknown.
BOOTED: Mapping[Condition, Condition] = {
    Condition.AGENT_NEXT: Condition.AGENT,
    Condition.INSTANCE_NEXT: Condition.INSTANCE,
}
_STARTS = frozenset({Condition.STARTED, Condition.RESTARTED})


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that a step needs and leaves."""

    needs: tuple[Condition, ...] = ()
    leaves: tuple[Condition, ...] | None = ()  # None: any; nothing is known after the step


AS_FOUND = Conditions()
UNKNOWN = Conditions(leaves=None)


def _checked(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Raises ValueError: one is no `Condition`, or two exclude each other."""
    listed_conditions = tuple(conditions)
    for condition in listed_conditions:
        if not isinstance(condition, Condition):
            raise ValueError(f"a condition of a step must be a Condition, not {condition!r}")
    if len({ASPECTS[condition] for condition in listed_conditions}) < len(listed_conditions):
        raise ValueError(
            f"conditions of a step exclude each other: {' and '.join(listed_conditions)}"
        )
    return listed_conditions


def conditions(
    *, needs: Iterable[Condition] = (), leaves: Iterable[Condition] = ()
) -> Callable[[Method], Method]:
    """
    Declare the conditions of a frame step.

    Raises ValueError: a condition is unknown, cannot be needed, or excludes another one.
    """
    method_conditions = Conditions(_checked(needs), _checked(leaves))
    if starts := _STARTS.intersection(method_conditions.needs):
        raise ValueError(f"a step cannot need {min(starts)!r}: name what runs then")

    def mark(method: Method) -> Method:
        setattr(method, MARK, method_conditions)
        return method

    return mark


def of_method(cls: type, name: str) -> Conditions | None:
    """
    Return the conditions of a method, its own or inherited ones; None if it declares no condition.
    """
    for ancestor in cls.__mro__:
        conditions: Conditions | None = getattr(vars(ancestor).get(name), MARK, None)
        if conditions is not None:
            return conditions
    return None
