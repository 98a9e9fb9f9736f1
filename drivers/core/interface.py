"""
Base class of interfaces: steps, validation, and frames.

A *frame* has the framework steps of a flow: pairs of (kind of interface, method), run before and
after the requested steps. Frames are data, so that the API can plan an operation, and show the
plan, without calling the driver.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

from drivers.core import conditions, schema
from drivers.core.bmc import Bmcs
from drivers.core.conditions import Conditions
from drivers.core.errors import BadArgument
from drivers.core.steps import MARK, Done, Flow, Outcome, Step
from drivers.core.target import Target

Rows = tuple[tuple[str, str], ...]  # (kind of interface, method)


@dataclass(frozen=True, slots=True)
class Frame:
    """Framework steps of one flow."""

    before: Rows = ()  # before the first requested step
    after: Rows = ()  # after the last requested step
    #: the frame step that reads the agent's steps; the rest of the flow is planned after it. None:
    #: no agent takes part
    collect: tuple[str, str] | None = None
    on_failure: Rows = ()  # cleanup of a failed flow, before the node enters its failed state
    on_abort: Rows | None = None  # cleanup of an aborted flow; None: `on_failure`

    def rows(self) -> Rows:
        """Return all steps of the frame."""
        collect = () if self.collect is None else (self.collect,)
        return (*self.before, *self.after, *collect, *self.on_failure, *(self.on_abort or ()))

    def without(self, rows: Rows) -> "Frame":
        """Return the frame without these steps; `collect` stays."""

        def rest(frame_rows: Rows) -> Rows:
            return tuple(row for row in frame_rows if row not in rows)

        return replace(
            self,
            before=rest(self.before),
            after=rest(self.after),
            on_failure=rest(self.on_failure),
            on_abort=None if self.on_abort is None else rest(self.on_abort),
        )


class Interface:
    """
    Base class of all interfaces.

    A class may also define methods that are not declared as steps: frame steps, and methods that
    other interfaces call. Instances hold no state of a node.
    """

    kind: ClassVar[str]  # such as "power"
    name: ClassVar[str]  # such as "redfish"
    steps: ClassVar[Mapping[str, Step]] = {}  # by name; collected from the decorated methods
    #: clean step, its own or the agent's -> the setting in [deploy] that overrides its priority
    priority_settings: ClassVar[Mapping[str, str]] = {}
    #: whether it stands for a function that the machine lacks
    absent: ClassVar[bool] = False
    #: driver_info key -> description, shown at /v1/drivers/{name}/properties
    properties: ClassVar[Mapping[str, str]] = {}
    #: of deploy and inspect interfaces: flow -> its frame, with every step that `frame` may return.
    #: The registry checks the methods when a hardware type loads
    frames: ClassVar[Mapping[str, Frame]] = {}
    #: conditions of a step or frame step that declares none, and overrides none that does
    undeclared: ClassVar[Conditions] = conditions.AS_FOUND
    #: off unless `[DEFAULT]enabled_<kind>_interfaces` names it
    opt_in: ClassVar[bool] = False
    #: its commands to the BMC call `Target.record_exchange`
    records_exchanges: ClassVar[bool] = False
    #: the BMCs of this process; set by the registry
    bmcs: Bmcs

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        steps: dict[str, Step] = {}
        for attribute in sorted(dir(cls)):
            declaration = getattr(getattr(cls, attribute, None), MARK, None)
            if declaration is not None:
                steps[attribute] = replace(
                    declaration, interface=getattr(cls, "kind", ""), name=attribute
                )
        cls.steps = steps

    def validate(self, target: Target) -> None:
        """
        Check the node's settings; send nothing to the machine.

        Raises InvalidDriverInfo: names the field.
        """

    def stand_in(self, instance_info: Mapping[str, object]) -> str | None:
        """Return the interface of this kind that serves a node instead, by name; None: this one."""
        return None

    def get_steps(self, target: Target | None, flow: Flow) -> list[Step]:
        """Return the declared steps of a flow, those with priority 0 included."""
        flow_steps = self._steps_of(flow)
        if target is None or flow is not Flow.CLEAN:
            return list(flow_steps)
        return [self._with_set_priority(target, step) for step in flow_steps]

    @classmethod
    @cache
    def _steps_of(cls, flow: Flow) -> tuple[Step, ...]:
        return tuple(
            flow_step.in_flow(flow)
            for flow_step in cls.steps.values()
            if flow in flow_step.priorities
        )

    def _with_set_priority(self, target: Target, step: Step) -> Step:
        """Apply the priority that a setting in [deploy] has for a clean step."""
        setting = self.priority_settings.get(step.name)
        priority = target.options["deploy"][setting] if setting else None
        if priority is None:
            return step
        return replace(step, priorities={**step.priorities, Flow.CLEAN: priority})

    def conditions_of(self, target: Target, method: str) -> Conditions:
        """Return what a step or frame step needs and leaves on this node."""
        return conditions.of_method(type(self), method) or self.undeclared

    def has(self, method: str) -> bool:
        """Whether this interface overrides a method of its kind."""
        return getattr(type(self), method) is not getattr(self._of_kind(), method)

    @classmethod
    def lists(cls, flow: Flow) -> bool:
        """Whether this interface has a list of its own of the steps of a flow."""
        name = f"get_{flow}_steps"
        return getattr(cls, name) is not getattr(cls._of_kind(), name)

    def run(self, target: Target, method: str, args: Mapping[str, Any]) -> Outcome:
        """
        Call a step or a frame step.

        Raises BadArgument: an argument does not match its schema.
        """
        for arg in self.steps[method].args if method in self.steps else ():
            if arg.schema is not None and arg.name in args:
                mismatch = schema.mismatch(args[arg.name], arg.schema, arg.name)
                if mismatch:
                    raise BadArgument(f"{self.kind}.{method}: {mismatch}")
        outcome = getattr(self, method)(target, **args)
        return Done() if outcome is None else outcome

    # Names of the specs, for drivers written against them.

    def get_clean_steps(self, target: Target) -> list[dict[str, object]]:
        """Return enabled clean steps as {interface, step, priority}, by decreasing priority."""
        return self._enabled(target, Flow.CLEAN)

    def get_deploy_steps(self, target: Target) -> list[dict[str, object]]:
        """Return enabled deploy steps as {interface, step, priority}, by decreasing priority."""
        return self._enabled(target, Flow.DEPLOY)

    def get_service_steps(self, target: Target) -> list[dict[str, object]]:
        """Return enabled service steps as {interface, step, priority}, by decreasing priority."""
        return self._enabled(target, Flow.SERVICE)

    def get_verify_steps(self, target: Target) -> list[dict[str, object]]:
        """Return enabled verify steps as {interface, step, priority}, by decreasing priority."""
        return self._enabled(target, Flow.VERIFY)

    def execute_clean_step(self, target: Target, step: Mapping[str, Any]) -> Outcome:
        """Run one of `get_clean_steps`; `step["args"]` are its arguments."""
        return self.run(target, step["step"], step.get("args") or {})

    def execute_deploy_step(self, target: Target, step: Mapping[str, Any]) -> Outcome:
        """Run one of `get_deploy_steps`; `step["args"]` are its arguments."""
        return self.run(target, step["step"], step.get("args") or {})

    def execute_service_step(self, target: Target, step: Mapping[str, Any]) -> Outcome:
        """Run one of `get_service_steps`; `step["args"]` are its arguments."""
        return self.run(target, step["step"], step.get("args") or {})

    def execute_verify_step(self, target: Target, step: Mapping[str, Any]) -> Outcome:
        """Run one of `get_verify_steps`; `step["args"]` are its arguments."""
        return self.run(target, step["step"], step.get("args") or {})

    @classmethod
    @cache
    def _of_kind(cls) -> type["Interface"]:
        """Return the base class of this kind, such as Power."""
        return next(
            base for base in cls.__mro__ if Interface in base.__bases__ and "kind" in vars(base)
        )

    def _enabled(self, target: Target, flow: Flow) -> list[dict[str, Any]]:
        enabled = [
            {"interface": step.interface, "step": step.name, "priority": step.priorities[flow]}
            for step in self.get_steps(target, flow)
            if step.priorities[flow] > 0
        ]
        return sorted(enabled, key=lambda entry: -entry["priority"])
