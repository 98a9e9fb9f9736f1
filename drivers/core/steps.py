"""
Steps: their declaration, arguments and outcomes.

A step is a method of an interface, called as `method(target, **args)`. It returns an `Outcome`
(or None, which counts as `Done()`):

    @step(clean=0, needs_ramdisk=False, args=(Arg("settings", "BIOS attributes", required=True),))
    def apply_configuration(self, target, settings):
        if not target.progress:
            self.bmc(target).set_bios(settings)
            return Wait({"requested": settings}, poll_after=30)
        if self.bmc(target).bios_matches(target.progress["requested"]):
            return Done()
        return Wait(target.progress, poll_after=30)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from drivers.core.conditions import Condition, conditions
from drivers.core.errors import FailureCode

Progress = Mapping[str, Any]
#: Key of a progress: the awaited event, in words for operators.
AWAITED = "waits_for"
Method = TypeVar("Method", bound=Callable[..., Any])
MARK = "__ingot_step__"


class Flow(StrEnum):
    """Flows that a method can be a step of."""

    CLEAN = "clean"
    DEPLOY = "deploy"
    SERVICE = "service"
    VERIFY = "verify"


#: Settings in [conductor] that override priorities of steps, by `interface.step`.
PRIORITY_OVERRIDES: Mapping[Flow, str] = {
    Flow.CLEAN: "clean_step_priority_override",
    Flow.VERIFY: "verify_step_priority_override",
}


class Resume(StrEnum):
    """How a step is resumed after its conductor crashed during an attempt."""

    RERUN = "rerun"  # it is idempotent: call it again
    PROBE = "probe"  # call it with target.resumed set: it reads the machine's state before it acts
    RESTART = "restart"  # go back to the step that boots the agent


@dataclass(frozen=True, slots=True)
class Done:
    """The step is complete; the flow continues with the next one."""

    result: Progress = field(default_factory=dict)  # JSON, stored with the step


@dataclass(frozen=True, slots=True)
class Wait:
    """The step is in progress; call its method again later."""

    progress: Progress = field(default_factory=dict)  # JSON; `target.progress` of the next call
    #: seconds until the next call; without it, the agent's heartbeat or the end of its command
    #: resumes the step
    poll_after: float | None = None
    #: seconds since the first wait until the step fails; by default the flow's callback timeout
    timeout: float | None = None
    #: the error that makes the step wait and try again, if any: one sentence, without secrets.
    #: Operators see the last one while the step waits, and when its time is over
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The step has failed, and with it the operation."""

    reason: str  # one sentence, without secrets
    code: str = FailureCode.STEP_FAILED
    retryable: bool = False  # whether the worker may retry the step (`Retry`)


@dataclass(frozen=True, slots=True)
class Hold:
    """
    Pause until an operator sends `unhold`; then the step is called again.

    Only in flows with a hold state: cleaning, deploying, servicing.
    """

    progress: Progress = field(default_factory=dict)  # JSON; `target.progress` of the next call


Outcome = Done | Wait | Failed | Hold


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument of a step."""

    name: str
    description: str
    required: bool = False
    schema: Mapping[str, Any] | None = None  # JSON schema of its value; see `drivers.core.schema`


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry policy of a step after transient errors (`retryable` failures)."""

    attempts: int | None = None  # at most, the first included; None: `[conductor]step_attempts`
    #: seconds before the second attempt, doubled with each; by default 5
    backoff: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A declared step."""

    interface: str  # kind of the interface that has the step
    name: str
    #: by flow; higher runs first, 0 only on request. The step is not part of other flows
    priorities: Mapping[Flow, float]
    args: tuple[Arg, ...] = ()
    abortable: bool = False
    needs_ramdisk: bool = True
    in_band: bool = False  # the agent runs it
    resume: Resume = Resume.RERUN
    reboot_requested: bool = False  # the agent's step: the machine reboots after it
    #: seconds since the first wait until the step fails; by default the flow's callback timeout,
    #: which each heartbeat restarts
    timeout: float | None = None
    retry: Retry = Retry()
    #: flow -> (abortable, needs_ramdisk) of its decorator; they may differ by flow
    by_flow: Mapping[Flow, tuple[bool, bool]] = field(default_factory=dict)

    def in_flow(self, flow: Flow) -> "Step":
        """Return the step with `abortable` and `needs_ramdisk` of one flow."""
        abortable, needs_ramdisk = self.by_flow.get(flow, (self.abortable, self.needs_ramdisk))
        return replace(self, abortable=abortable, needs_ramdisk=needs_ramdisk)

    @property
    def key(self) -> tuple[str, str]:
        return self.interface, self.name


def step(
    *,
    clean: float | None = None,
    deploy: float | None = None,
    service: float | None = None,
    verify: float | None = None,
    args: Sequence[Arg] = (),
    abortable: bool | None = None,
    needs_ramdisk: bool = True,
    resume: Resume | str = Resume.RERUN,
    timeout: float | None = None,
    retry: Retry = Retry(),
    needs: Sequence[Condition] | None = None,
    leaves: Sequence[Condition] | None = None,
) -> Callable[[Method], Method]:
    """
    Declare a method as a step of the flows that have a priority here.

    A method may have several decorators, each for other flows. Without `abortable`, deploy steps
    are abortable and all others are not (Ironic's defaults). Without `needs` and `leaves`, it has
    the conditions of the method that it overrides (`drivers.core.conditions`).

    Raises ValueError: a priority is not a number, an argument is not an `Arg`, or a condition is
    wrong.
    """
    priority_by_flow = {
        Flow.CLEAN: clean,
        Flow.DEPLOY: deploy,
        Flow.SERVICE: service,
        Flow.VERIFY: verify,
    }
    priorities = {
        flow: priority for flow, priority in priority_by_flow.items() if priority is not None
    }
    _check_declaration(priorities, args)
    conditioned = None
    if needs is not None or leaves is not None:
        conditioned = conditions(needs=needs or (), leaves=leaves or ())

    def mark(method: Method) -> Method:
        if conditioned is not None:
            conditioned(method)
        previous: Step | None = getattr(method, MARK, None)
        declared_step = previous or Step("", method.__name__, {})
        by_flow = dict(declared_step.by_flow)
        for flow in priorities:
            may_abort = flow is Flow.DEPLOY if abortable is None else abortable
            by_flow[flow] = (may_abort, needs_ramdisk)
        setattr(
            method,
            MARK,
            replace(
                declared_step,
                priorities={**declared_step.priorities, **priorities},
                args=tuple(args) or declared_step.args,
                abortable=all(can_abort for can_abort, _ in by_flow.values()),
                needs_ramdisk=any(needs_agent for _, needs_agent in by_flow.values()),
                resume=Resume(resume) if previous is None else declared_step.resume,
                timeout=declared_step.timeout if timeout is None else timeout,
                retry=retry if previous is None else declared_step.retry,
                by_flow=by_flow,
            ),
        )
        return method

    return mark


def _check_declaration(priorities: Mapping[Flow, object], args: Sequence[object]) -> None:
    """Raises ValueError: a priority is not a number, or an argument is not an `Arg`."""
    for flow, priority in priorities.items():
        if isinstance(priority, bool) or not isinstance(priority, int | float):
            raise ValueError(f"the {flow} priority of a step must be a number, not {priority!r}")
    for arg in args:
        if not isinstance(arg, Arg):
            raise ValueError(f"an argument of a step must be an Arg, not {arg!r}")


def arguments(argsinfo: Any) -> tuple[Arg, ...]:
    """
    Parse `argsinfo`, the arguments of a step as Ironic's drivers and the agent declare them.

    Accepts {name: {description, required}} and the manual-cleaning spec's list of
    {name, description, required}.

    Raises ValueError: names the argument and the error.
    """
    if argsinfo is None:
        return ()
    if isinstance(argsinfo, Mapping):
        entries = [{**info, "name": name} for name, info in argsinfo.items()]
    else:
        entries = [dict(info) for info in argsinfo]
    argument_list = []
    for entry in entries:
        unknown_keys = set(entry) - {"name", "description", "required", "schema"}
        if unknown_keys:
            raise ValueError(f"argument {entry.get('name')!r}: unknown key {min(unknown_keys)!r}")
        if not isinstance(entry.get("name"), str) or not isinstance(entry.get("description"), str):
            raise ValueError(f"an argument needs a name and a description, not {entry!r}")
        if not isinstance(entry.get("required", False), bool):
            raise ValueError(f"argument {entry['name']!r}: 'required' must be true or false")
        argument_list.append(Arg(**entry))
    return tuple(argument_list)


def clean_step(
    priority: float,
    abortable: bool = False,
    argsinfo: object = None,
    requires_ramdisk: bool = True,
) -> Callable[[Method], Method]:
    """Declare a clean step: `step` under the name and arguments of the cleaning specs."""
    return step(
        clean=priority,
        abortable=abortable,
        args=arguments(argsinfo),
        needs_ramdisk=requires_ramdisk,
    )


def deploy_step(
    priority: float, argsinfo: object = None, abortable: bool = True
) -> Callable[[Method], Method]:
    """Declare a deploy step: `step` under the name and arguments of the deploy steps spec."""
    return step(deploy=priority, abortable=abortable, args=arguments(argsinfo))
