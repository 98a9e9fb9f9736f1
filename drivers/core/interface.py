"""
What every interface of a driver is: steps, validation, and the frames that flows are built from.

A *frame* is what surrounds the steps of a flow: plain rows of (interface, method), run before and
after the steps themselves. An interface states its frames as data, so the API can plan, and an
operator can see, everything that will happen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from drivers.core import schema
from drivers.core.bmc import Bmcs
from drivers.core.errors import BadArgument
from drivers.core.steps import MARK, Done, Flow, Outcome, Step
from drivers.core.target import Target

Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """
    What surrounds the steps of one flow.

    before, after: methods run before the first and after the last step.
    collect: the (interface, method) after which the agent's own steps are known, so that the rest
        of the flow is planned anew; None when no agent takes part.
    on_failure: methods run when the flow has failed, before the node enters its failed state.
    on_abort: methods run when it was aborted; None: as on_failure.
    """

    before: Rows = ()
    after: Rows = ()
    collect: tuple[str, str] | None = None
    on_failure: Rows = ()
    on_abort: Rows | None = None

    def rows(self) -> Rows:
        """All methods that it names."""
        collect = () if self.collect is None else (self.collect,)
        return (*self.before, *self.after, *collect, *self.on_failure, *(self.on_abort or ()))

    def without(self, rows: Rows) -> "Frame":
        """This frame, none of these methods in it."""

        def rest(listed: Rows) -> Rows:
            return tuple(row for row in listed if row not in rows)

        return replace(
            self,
            before=rest(self.before),
            after=rest(self.after),
            on_failure=rest(self.on_failure),
            on_abort=None if self.on_abort is None else rest(self.on_abort),
        )


class Interface:
    """
    What all interfaces share: a kind ("power"), a name ("redfish"), steps, validation.

    A class may also define methods that are not steps: the rows of a frame, or what other
    interfaces call. Instances hold no state of a node.
    """

    kind: ClassVar[str]
    name: ClassVar[str]
    steps: ClassVar[Mapping[str, Step]] = {}
    #: clean step, its own or the agent's -> the setting in [deploy] that may give its priority
    priority_settings: ClassVar[Mapping[str, str]] = {}
    #: driver_info key -> description, shown at /v1/drivers/{name}/properties
    properties: ClassVar[Mapping[str, str]] = {}
    #: of deploy and inspect interfaces: flow -> its frame, with every row that `frame` may return.
    #: Rows are resolved when a hardware type loads
    frames: ClassVar[Mapping[str, Frame]] = {}
    #: whether only services have it whose settings name it (`[DEFAULT]enabled_<kind>_interfaces`)
    opt_in: ClassVar[bool] = False
    #: every connection to a BMC that this process has; set by the registry
    bmcs: Bmcs

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found: dict[str, Step] = {}
        for attribute in sorted(dir(cls)):
            mark = getattr(getattr(cls, attribute, None), MARK, None)
            if mark is not None:
                found[attribute] = replace(mark, interface=getattr(cls, "kind", ""), name=attribute)
        cls.steps = found

    def validate(self, target: Target) -> None:
        """Check the node's settings without touching the machine. Raises InvalidDriverInfo."""

    def get_steps(self, target: Target | None, flow: Flow) -> list[Step]:
        """The steps that this interface offers for a flow, priority 0 included."""
        found = [
            declared.in_flow(flow)
            for declared in self.steps.values()
            if flow in declared.priorities
        ]
        if target is None or flow is not Flow.CLEAN:
            return found
        return [self._as_set(target, each) for each in found]

    def _as_set(self, target: Target, step: Step) -> Step:
        """A clean step with the priority that [deploy] gives it, if it does."""
        setting = self.priority_settings.get(step.name)
        given = target.options["deploy"][setting] if setting else None
        if given is None:
            return step
        return replace(step, priorities={**step.priorities, Flow.CLEAN: given})

    def has(self, method: str) -> bool:
        """Whether this interface has a method of its own, and not only that of its kind."""
        return getattr(type(self), method) is not getattr(self._of_kind(), method)

    def run(self, target: Target, method: str, args: Mapping[str, Any]) -> Outcome:
        """Call a step or the row of a frame. Raises BadArgument, and what the method raises."""
        for arg in self.steps[method].args if method in self.steps else ():
            if arg.schema is not None and arg.name in args:
                wrong = schema.mismatch(args[arg.name], arg.schema, arg.name)
                if wrong:
                    raise BadArgument(f"{self.kind}.{method}: {wrong}")
        outcome = getattr(self, method)(target, **args)
        return Done() if outcome is None else outcome

    # The seed specs' names for the above, for drivers written against them.

    def get_clean_steps(self, target: Target) -> list[dict[str, Any]]:
        """Enabled clean steps as {interface, step, priority}, by decreasing priority."""
        return self._enabled(target, Flow.CLEAN)

    def get_deploy_steps(self, target: Target) -> list[dict[str, Any]]:
        """Enabled deploy steps as {interface, step, priority}, by decreasing priority."""
        return self._enabled(target, Flow.DEPLOY)

    def get_service_steps(self, target: Target) -> list[dict[str, Any]]:
        """Enabled service steps as {interface, step, priority}, by decreasing priority."""
        return self._enabled(target, Flow.SERVICE)

    def get_verify_steps(self, target: Target) -> list[dict[str, Any]]:
        """Enabled verify steps as {interface, step, priority}, by decreasing priority."""
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
    def _of_kind(cls) -> type["Interface"]:
        """The class that says what interfaces of this kind must do."""
        return next(each for each in cls.__mro__ if Interface in each.__bases__)

    def _enabled(self, target: Target, flow: Flow) -> list[dict[str, Any]]:
        enabled = [
            {"interface": found.interface, "step": found.name, "priority": found.priorities[flow]}
            for found in self.get_steps(target, flow)
            if found.priorities[flow] > 0
        ]
        return sorted(enabled, key=lambda entry: -entry["priority"])
