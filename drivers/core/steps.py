"""
Steps: what a driver can do to a machine, how it is declared, and what may come of it.

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

from drivers.core.errors import FailureCode

Progress = Mapping[str, Any]
Method = TypeVar("Method", bound=Callable[..., Any])
MARK = "__ingot_step__"


class Flow(StrEnum):
    """The step lists that a method can be part of."""

    CLEAN = "clean"
    DEPLOY = "deploy"
    SERVICE = "service"
    VERIFY = "verify"


#: The setting of [conductor] that gives steps of a flow other priorities, by `interface.step`.
PRIORITY_OVERRIDES: Mapping[Flow, str] = {
    Flow.CLEAN: "clean_step_priority_override",
    Flow.VERIFY: "verify_step_priority_override",
}


class Resume(StrEnum):
    """What to do with a step whose conductor died while it ran."""

    RERUN = "rerun"  # it is idempotent: call it again
    PROBE = "probe"  # call it with target.resumed set: it asks the machine before it acts
    RESTART = "restart"  # go back to the step that boots the agent


@dataclass(frozen=True, slots=True)
class Done:
    """The step is finished; the flow goes on. `result` is JSON, kept with the step."""

    result: Progress = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """
    The machine is working. `progress` (JSON) comes back as `target.progress` at the next call.

    poll_after: seconds until the same method is called again; None: the agent's heartbeat, or the
        end of its command, wakes the step.
    timeout: seconds from the step's first wait after which it has failed; None: the callback
        timeout of the flow.
    """

    progress: Progress = field(default_factory=dict)
    poll_after: float | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The step, and with it the operation, has failed for `reason` (one sentence, no secrets)."""

    reason: str
    code: str = FailureCode.STEP_FAILED
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """
    An operator goes on: the step is called again, with `progress`, when the node is released.

    Only in flows whose states have a hold state: cleaning, deploying, servicing.
    """

    progress: Progress = field(default_factory=dict)


Outcome = Done | Wait | Failed | Hold


def nest(outcome: Outcome | None, name: str, progress: Progress) -> Outcome:
    """
    The outcome of one part of a step, as an outcome of the step.

    A `Wait` keeps the part's progress under `name`, beside the step's own `progress`.
    """
    if isinstance(outcome, Wait):
        return replace(outcome, progress={**progress, name: dict(outcome.progress)})
    return Done() if outcome is None else outcome


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument of a step; `schema` is an optional JSON schema of its value."""

    name: str
    description: str
    required: bool = False
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """
    How often a step is tried again after a transient fault (a `retryable` failure).

    attempts: tries in all. backoff: seconds before the second try; doubles with each. None: what
        `[conductor]step_attempts` and `step_backoff` say.
    """

    attempts: int | None = None
    backoff: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """
    A declared step.

    priorities: flow -> priority (higher runs first; 0 runs only when asked for by name). A flow
        that is missing does not know the step.
    timeout: seconds from its first wait after which the step has failed; None: the callback
        timeout of the flow, which each heartbeat begins anew.
    """

    interface: str
    name: str
    priorities: Mapping[Flow, float]
    args: tuple[Arg, ...] = ()
    abortable: bool = False
    needs_ramdisk: bool = True
    in_band: bool = False
    resume: Resume = Resume.RERUN
    reboot_requested: bool = False
    timeout: float | None = None
    retry: Retry = Retry()
    #: flow -> (abortable, needs_ramdisk), as each decorator said; they may differ by flow
    by_flow: Mapping[Flow, tuple[bool, bool]] = field(default_factory=dict)

    def in_flow(self, flow: Flow) -> "Step":
        """This step as one flow knows it."""
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
) -> Callable[[Method], Method]:
    """
    Declare a method as a step of the flows that are given a priority.

    Several decorators on one method add up; each speaks for its own flows. Without `abortable`,
    deploy steps are abortable and all others are not (Ironic's defaults).

    Raises ValueError for a priority that is not a number, or an argument that is not an `Arg`.
    """
    given = {Flow.CLEAN: clean, Flow.DEPLOY: deploy, Flow.SERVICE: service, Flow.VERIFY: verify}
    priorities = {flow: priority for flow, priority in given.items() if priority is not None}
    for flow, priority in priorities.items():
        if isinstance(priority, bool) or not isinstance(priority, int | float):
            raise ValueError(f"the {flow} priority of a step must be a number, not {priority!r}")
    for arg in args:
        if not isinstance(arg, Arg):
            raise ValueError(f"an argument of a step must be an Arg, not {arg!r}")

    def mark(method: Method) -> Method:
        before: Step | None = getattr(method, MARK, None)
        declared = before or Step("", method.__name__, {})
        by_flow = dict(declared.by_flow)
        for flow in priorities:
            may_abort = flow is Flow.DEPLOY if abortable is None else abortable
            by_flow[flow] = (may_abort, needs_ramdisk)
        setattr(
            method,
            MARK,
            replace(
                declared,
                priorities={**declared.priorities, **priorities},
                args=tuple(args) or declared.args,
                abortable=all(each for each, _ in by_flow.values()),
                needs_ramdisk=any(each for _, each in by_flow.values()),
                resume=Resume(resume) if before is None else declared.resume,
                timeout=declared.timeout if timeout is None else timeout,
                retry=retry if before is None else declared.retry,
                by_flow=by_flow,
            ),
        )
        return method

    return mark


def arguments(argsinfo: Any) -> tuple[Arg, ...]:
    """
    Read the arguments of a step as Ironic's drivers and the agent write them.

    Accepts {name: {description, required}} and the manual-cleaning spec's list of
    {name, description, required}. Raises ValueError naming what is wrong.
    """
    if argsinfo is None:
        return ()
    if isinstance(argsinfo, Mapping):
        entries = [{**info, "name": name} for name, info in argsinfo.items()]
    else:
        entries = [dict(info) for info in argsinfo]
    read = []
    for entry in entries:
        unknown = set(entry) - {"name", "description", "required", "schema"}
        if unknown:
            raise ValueError(f"argument {entry.get('name')!r}: unknown key {min(unknown)!r}")
        if not isinstance(entry.get("name"), str) or not isinstance(entry.get("description"), str):
            raise ValueError(f"an argument needs a name and a description, not {entry!r}")
        if not isinstance(entry.get("required", False), bool):
            raise ValueError(f"argument {entry['name']!r}: 'required' must be true or false")
        read.append(Arg(**entry))
    return tuple(read)


def clean_step(
    priority: float,
    abortable: bool = False,
    argsinfo: Any = None,
    requires_ramdisk: bool = True,
) -> Callable[[Method], Method]:
    """`step(clean=...)` under the name and with the arguments that the seed specs give it."""
    return step(
        clean=priority,
        abortable=abortable,
        args=arguments(argsinfo),
        needs_ramdisk=requires_ramdisk,
    )


def deploy_step(
    priority: float, argsinfo: Any = None, abortable: bool = True
) -> Callable[[Method], Method]:
    """`step(deploy=...)` under the name and with the arguments that the seed specs give it."""
    return step(deploy=priority, abortable=abortable, args=arguments(argsinfo))
