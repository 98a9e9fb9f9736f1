"""
Conditions through a plan: every step must find the conditions that it needs, and the flow must end
in its own.

The conditions are those that steps and frame steps declare (`drivers.core.conditions`). A plan of
any flow is checked as a whole, with the steps of callers, templates, runbooks, settings, driver and
agent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.lifecycle.flows import ProvisionFlow
from app.models import OperationStep
from drivers.core import reserved
from drivers.core.conditions import AS_FOUND, ASPECTS, BOOTED, Aspect, Condition, Conditions
from drivers.core.driver import interfaces_of
from drivers.core.steps import Flow
from drivers.core.target import Target

#: Conditions that an in-band step needs, and that the step which reads the agent's steps leaves.
_IN_BAND = Conditions(needs=(Condition.AGENT,))
_COLLECTS = Conditions(leaves=(Condition.AGENT,))
#: Conditions that depend on the boot which is prepared, also by the same step.
_STARTS = frozenset({Condition.STARTED, Condition.RESTARTED})
#: Condition of the machine -> network that it needs: an agent must not reach a tenant, nor an
#: instance the agents.
_NETWORKS = {
    Condition.AGENT: Condition.SERVICE_NETWORK,
    Condition.INSTANCE: Condition.TENANT_NETWORKS,
}
_NOW = ""  # in place of the label of a step


@dataclass(slots=True)
class _Machine:
    """Known conditions of the machine after the steps so far."""

    #: aspect -> its condition, and the label of the step that left it; none while it is unknown
    conditions: dict[Aspect, tuple[Condition, str]] = field(default_factory=dict)

    def lacks(self, need: Condition) -> tuple[Condition, str] | None:
        """Return what is known instead of a condition, and the step that left it."""
        entry = self.conditions.get(ASPECTS[need])
        return None if entry is None or entry[0] is need else entry

    def needs(self, conditions: Conditions) -> list[Condition]:
        """Return the needs of a step: also the network of a system that it starts."""
        machine = _Machine(dict(self.conditions))
        machine.leave(conditions, _NOW)
        system, label = machine.conditions.get(Aspect.MACHINE, (None, None))
        network = _NETWORKS.get(system) if system and label is _NOW else None
        return [*conditions.needs, *([network] if network else ())]

    def leave(self, conditions: Conditions, label: str) -> None:
        """Record what a step leaves."""
        if conditions.leaves is None:
            self.conditions.clear()
            return
        for condition in sorted(conditions.leaves, key=_STARTS.__contains__):
            result = self._started(condition) if condition in _STARTS else condition
            if result is None:
                self.conditions.pop(Aspect.MACHINE, None)
            elif result is not self._condition(ASPECTS[result]):
                self.conditions[ASPECTS[result]] = result, label

    def _condition(self, aspect: Aspect) -> Condition | None:
        entry = self.conditions.get(aspect)
        return None if entry is None else entry[0]

    def _started(self, start: Condition) -> Condition | None:
        """Return the system that runs after a start, or None if it is unknown."""
        system = self._condition(Aspect.MACHINE)
        if start is Condition.STARTED and system not in (None, Condition.OFF):
            return system
        return BOOTED.get(self._condition(Aspect.BOOT) or start)


def problems(target: Target, flow: ProvisionFlow, rows: Sequence[OperationStep]) -> list[str]:
    """
    List the errors in a plan, one sentence each: which step needs what, and which left what.

    rows: all steps of the plan, those that have run included.
    """
    machine, errors = _Machine(), []
    for index, row in enumerate(rows):
        conditions = _conditions(target, row)
        for need in machine.needs(conditions):
            if actual := machine.lacks(need):
                condition, cause = actual
                advice = _advice(target, flow, need, rows, index)
                label = _described(row)
                errors.append(
                    f"{label} needs {need}, but {cause} before it leaves {condition}{advice}"
                )
                del machine.conditions[ASPECTS[need]]  # its consequences are no other errors
        machine.leave(conditions, _described(row))
    for need in flow.ends:
        if actual := machine.lacks(need):
            condition, cause = actual
            advice = _advice(target, flow, need, rows, len(rows))
            errors.append(
                f"{flow.name} must end with {need}, but {cause} leaves {condition}{advice}"
            )
    return errors


def _conditions(target: Target, row: OperationStep) -> Conditions:
    if row.child:
        return AS_FOUND  # it runs on another machine
    if row.flow and row.name in reserved.METHODS:
        return reserved.conditions_of(row.name, ramdisk=bool(row.requires_ramdisk))
    if row.in_band:
        return _IN_BAND
    conditions = interfaces_of(target).by_kind[row.interface].conditions_of(target, row.name)
    return _COLLECTS if row.collects and not conditions.leaves else conditions


def _advice(
    target: Target, flow: ProvisionFlow, need: Condition, rows: Sequence[OperationStep], index: int
) -> str:
    """Name the step that would leave a condition: it comes after `rows[index]`, or is left out."""
    for row in rows[index + 1 :]:
        if need in (_conditions(target, row).leaves or ()):
            return f"; {_described(row)}, which leaves that, comes later"
    planned = {row.label for row in rows}
    for interface in interfaces_of(target).by_kind.values():
        for step in interface.get_steps(target, flow.step_flow) if flow.step_flow else ():
            label, conditions = ".".join(step.key), interface.conditions_of(target, step.name)
            if need in (conditions.leaves or ()) and label not in planned:
                return f"; {label}, which leaves that, is not among the steps"
    if need in BOOTED.values():
        return "; power_on or reboot between them starts the machine"
    return ""


def _described(row: OperationStep) -> str:
    """Return the label of a step, with its priority where that decides its place."""
    if row.flow == Flow.DEPLOY:
        return f"{row.label} (priority {row.priority:g})"
    return row.label
