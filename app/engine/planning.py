"""
Planning: the ordered steps of an operation, from the steps that drivers and agents offer.

A plan is a list of rows for `operation_steps`: frame steps before, the steps of the flow, frame
steps after. Steps run by decreasing priority, or in the caller's order where a verb takes one. The
rest of a plan is built again, by the same functions, when the agent has reported its steps.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app import flows
from app.flows import ProvisionFlow
from app.hardware.steps import Key, RequestedStep, needs_ramdisk, of_driver, offered
from app.models import Node, OperationStep, StepSource
from app.runtime import Runtime
from app.states import Event, State
from drivers.core import reserved
from drivers.core.interface import Frame
from drivers.core.steps import PRIORITY_OVERRIDES, Flow, Resume, Step
from drivers.core.target import Target

#: Order of interfaces at equal step priority, highest first (Ironic's numbers, the spec's order).
INTERFACE_PRIORITY: Mapping[str, int] = {
    "vendor": 7, "power": 6, "management": 5, "firmware": 4, "deploy": 3, "bios": 2, "raid": 1,
}  # fmt: skip
VERIFY_PRIORITY: Mapping[str, int] = {
    "power": 13, "management": 12, "firmware": 11, "inspect": 10, "deploy": 9, "boot": 8,
    "bios": 7, "raid": 6, "vendor": 5, "network": 4, "storage": 3, "console": 2, "rescue": 1,
}  # fmt: skip
#: States in which the rescue ramdisk may be running.
RESCUED = (State.RESCUE, State.RESCUE_WAIT, State.RESCUE_FAIL, State.UNRESCUE_FAIL)

#: Frame steps that are left out where `[agent]manage_agent_boot` is false.
BOOT_OF_AGENT = (("boot", "prepare_ramdisk"), ("boot", "clean_up_ramdisk"))

#: Priority of the step `deploy`.
MEGA_STEP = 100
#: Priority of the step `prepare_instance_boot`.
INSTANCE_BOOT = 60
_NO_STEP: Key = ("", "")

Rows = list[OperationStep]


@dataclass(frozen=True, slots=True)
class Request:
    """Parameters of a verb that its plan depends on."""

    steps: Sequence[
        RequestedStep
    ] = ()  # requested steps, as normalized by `app.engine.step_sources`
    disable_ramdisk: bool = False  # run without the agent
    state: State | None = None  # of the node before the verb


PLAIN = Request()
Plan = Callable[[Runtime, Node, Target, Request], Rows]


def verify(runtime: Runtime, node: Node, target: Target, request: Request = PLAIN) -> Rows:
    """Plan the verification: read the power state, then run the verify steps of the driver."""
    rows = [_frame_row(runtime, "power", "read")]
    rows += _flow_rows(runtime, target, Flow.VERIFY)
    if runtime.settings.conductor.power_off_after_manage:
        rows.append(_frame_row(runtime, "power", "power_off"))
    for row in rows:
        row.tries = 1  # no retries: report a mistyped address at once
    return rows


def clean(runtime: Runtime, node: Node, target: Target, request: Request = PLAIN) -> Rows:
    """
    Plan automated cleaning, with the requested steps if there are any; empty if it is disabled.
    """
    if not cleans(runtime, node):
        return []
    if request.steps:
        return manual_clean(runtime, node, target, request)
    return _framed(
        runtime, frame(target, flows.CLEAN.name), _flow_rows(runtime, target, Flow.CLEAN)
    )


def cleans(runtime: Runtime, node: Node) -> bool:
    """Return whether automated cleaning is enabled for a node."""
    wanted = node.automated_clean
    return runtime.settings.conductor.automated_clean if wanted is None else wanted


def manual_clean(runtime: Runtime, node: Node, target: Target, request: Request) -> Rows:
    return _in_given_order(runtime, target, Flow.CLEAN, request)


def service(runtime: Runtime, node: Node, target: Target, request: Request) -> Rows:
    return _in_given_order(runtime, target, Flow.SERVICE, request)


def deploy(runtime: Runtime, node: Node, target: Target, request: Request = PLAIN) -> Rows:
    known = offered(target, Flow.DEPLOY)
    # in-band steps are known from an earlier boot, and may have changed until the next one
    own = {key: step for key, step in known.items() if not step.in_band}
    if (
        not target.driver.deploy.has_decomposed_deploy_steps()
    ):  # a single step does the whole deployment
        own = {
            key: step
            for key, step in own.items()
            if step.interface != "deploy" or step.priorities[Flow.DEPLOY] >= MEGA_STEP
        }
    around = frame(target, flows.DEPLOY.name)
    rows = _merged(runtime, own, request.steps)
    _restart_into_agent(rows, around.collect or _NO_STEP)
    return _framed(runtime, around, rows)


def delete(runtime: Runtime, node: Node, target: Target, request: Request = PLAIN) -> Rows:
    """Plan the tear-down, with the cleanup of a rescue if the node is in one, then `clean`."""
    down = [*frame(target, flows.DELETE.name).before]
    if request.state in RESCUED:
        down = [*frame(target, flows.RESCUE.name).on_failure, *down]
    rows = [_frame_row(runtime, *row) for row in down]
    rows[-1].event = Event.CLEAN
    return rows + clean(runtime, node, target, request)


def frame_only(flow: ProvisionFlow) -> Plan:
    """Return the planner of a flow that consists of its frame only."""

    def plan(runtime: Runtime, node: Node, target: Target, request: Request = PLAIN) -> Rows:
        return _framed(runtime, frame(target, flow.name), [])

    return plan


def power(state: str, timeout: float | None) -> Rows:
    """Plan a change of the power state. timeout: seconds; None: the setting's."""
    args = {"state": state, "timeout": timeout}
    return [OperationStep(**_FRAME, interface="power", name="change", args=args)]


def single(interface: str, name: str, args: Mapping[str, Any]) -> Rows:
    """Plan one method call of an interface."""
    return [OperationStep(**_FRAME, interface=interface, name=name, args=dict(args))]


def frame(target: Target, flow: str) -> Frame:
    """Return the frame of a flow."""
    deploy = target.driver.deploy
    inspects = flow == flows.INSPECT.name
    found = target.driver.inspect.frame(target) if inspects else deploy.frame(target, flow)
    if flow == Flow.DEPLOY and not deploy.has_decomposed_deploy_steps():
        found = replace(found, collect=None)
    if not target.options["agent"]["manage_agent_boot"]:
        found = found.without(BOOT_OF_AGENT)
    return found


def cleanup(target: Target, flow: str, *, power_off: bool = False) -> Rows:
    """Plan the cleanup steps after a failure of a flow."""
    labels = list(frame(target, flow).on_failure)
    return _cleanup_rows([*labels, ("power", "power_off")] if power_off else labels)


def abort_cleanup(target: Target, flow: str) -> Rows:
    """Plan the cleanup steps after an abort of a flow."""
    around = frame(target, flow)
    return _cleanup_rows(around.on_failure if around.on_abort is None else around.on_abort)


def _cleanup_rows(labels: Iterable[tuple[str, str]]) -> Rows:
    return [
        OperationStep(
            **{**_FRAME, "source": StepSource.TIDY}, interface=interface, name=name, args={}
        )
        for interface, name in labels
    ]


def with_agent_steps(  # noqa: PLR0917 - inputs of a plan
    runtime: Runtime,
    target: Target,
    flow: Flow,
    pending: Sequence[OperationStep],
    asked: Sequence[RequestedStep] = (),
    finished: Iterable[OperationStep] = (),
) -> Rows:
    """
    Plan the rest of a flow after the agent has reported its steps.

    pending: rows that have not run. asked: requested steps. finished: rows that have run. Steps of
    the agent with a priority above 0 join the flow; frame steps keep their places.
    """
    known = offered(target, flow)
    if flow is Flow.DEPLOY:
        # reserved steps may be requested several times, at different priorities
        done = {(row.label, row.priority) for row in finished if row.flow == flow}
        rows = [
            row for row in _merged(runtime, known, asked) if (row.label, row.priority) not in done
        ]
        _restart_into_agent(rows, None)
    elif asked:
        rows = [_requested_row(runtime, flow, each, known, ramdisk=True) for each in asked]
    else:
        rows = _enabled(runtime, flow, known)
    return rows + [_copy(row) for row in pending if row.flow != flow]


def _in_given_order(runtime: Runtime, target: Target, flow: Flow, request: Request) -> Rows:
    """Plan the requested steps in their order; boot the agent only if one of them needs it."""
    known = offered(target, flow)
    ramdisk = not request.disable_ramdisk and needs_ramdisk(request.steps, known)
    rows = [_requested_row(runtime, flow, each, known, ramdisk=ramdisk) for each in request.steps]
    return _framed(runtime, frame(target, flow), rows) if ramdisk else rows


def _merged(runtime: Runtime, known: Mapping[Key, Step], asked: Sequence[RequestedStep]) -> Rows:
    """Merge the requested steps of a deployment with all others that are enabled."""
    named = {(each["interface"], each["step"]) for each in asked if not each.get("child")}
    others = {key: step for key, step in known.items() if key not in named}
    rows = [
        _requested_row(runtime, Flow.DEPLOY, each, known, ramdisk=True)
        for each in asked
        if each["priority"] > 0
    ]
    return _sorted(rows + _enabled(runtime, Flow.DEPLOY, others), Flow.DEPLOY)


def _restart_into_agent(rows: Rows, booted_by: Key | None) -> None:
    """
    Mark the reserved steps of a deployment that must boot the agent when they start the machine.

    These are the ones before the step that prepares the instance's boot, and later ones followed by
    an in-band step. booted_by: the step that boots the agent first; None if it has run.
    """
    for at, row in enumerate(rows):
        if row.name in reserved.METHODS:
            needed = row.priority > INSTANCE_BOOT or any(each.in_band for each in rows[at:])
            row.requires_ramdisk = needed and booted_by is None
        elif (row.interface, row.name) == booted_by:
            booted_by = None


def _framed(runtime: Runtime, around: Frame, rows: Rows) -> Rows:
    before = [_frame_row(runtime, *row) for row in around.before]
    after = [_frame_row(runtime, *row) for row in around.after]
    rows = before + rows + after
    for row in rows:
        row.collects = (row.interface, row.name) == around.collect
    return rows


def _flow_rows(runtime: Runtime, target: Target, flow: Flow) -> Rows:
    own = {step.key: step for step in of_driver(target, flow)}
    return _enabled(runtime, flow, own)


def _enabled(runtime: Runtime, flow: Flow, known: Mapping[Key, Step]) -> Rows:
    """Rows of the steps that run without a request, sorted."""
    setting = flows.of_steps(flow).forbidden_steps
    forbidden = getattr(runtime.settings.api, setting) if setting else ()
    rows = [
        _step_row(runtime, flow, step, StepSource.AGENT if step.in_band else StepSource.DRIVER)
        for step in known.values()
    ]
    return _sorted([row for row in rows if row.priority and row.label not in forbidden], flow)


def _sorted(rows: Iterable[OperationStep], flow: Flow) -> Rows:
    return sorted(rows, key=lambda row: rank(flow, row.priority, row.interface))


def rank(flow: Flow, priority: float, interface: str) -> tuple[float, int]:
    """Sort key of a step in a flow; the first step has the lowest."""
    order = VERIFY_PRIORITY if flow is Flow.VERIFY else INTERFACE_PRIORITY
    return -priority, -order.get(interface, 0)


def priority_of(runtime: Runtime, flow: Flow, step: Step) -> float:
    """Return the priority of a step, with the overrides of the settings."""
    setting = PRIORITY_OVERRIDES.get(flow)
    overrides = getattr(runtime.settings.conductor, setting) if setting else {}
    priority: float = overrides.get(f"{step.interface}.{step.name}", step.priorities[flow])
    return priority


def _step_row(runtime: Runtime, flow: Flow, step: Step, source: StepSource) -> OperationStep:
    conductor, retry = runtime.settings.conductor, step.retry
    return OperationStep(
        interface=step.interface,
        name=step.name,
        flow=flow.value,
        args={},
        priority=priority_of(runtime, flow, step),
        source=source,
        in_band=step.in_band,
        abortable=step.abortable,
        requires_ramdisk=step.needs_ramdisk,
        reboot_requested=step.reboot_requested,
        resume=step.resume.value,
        timeout=step.timeout,
        tries=conductor.step_attempts if retry.attempts is None else retry.attempts,
        backoff=conductor.step_backoff if retry.backoff is None else retry.backoff,
        collects=False,
    )


def _requested_row(
    runtime: Runtime,
    flow: Flow,
    requested: RequestedStep,
    known: Mapping[Key, Step],
    *,
    ramdisk: bool,
) -> OperationStep:
    """
    Create the row of a requested step.

    An unknown step counts as in-band until the agent has reported its steps. A reserved step
    (`wait`, `reboot`, ...) and a step of a child node belong to neither driver nor agent.
    """
    key = interface, name = requested["interface"], requested["step"]
    own = name in reserved.METHODS
    child = requested.get("child")
    step = None if own or child else known.get(key)
    if step is None:
        in_band = not own and not child
        abortable = own or flow is Flow.DEPLOY
        resume = Resume.PROBE if in_band else Resume.RERUN
        step = Step(interface, name, {flow: 0}, (), abortable, ramdisk, in_band, resume)
    row = _step_row(runtime, flow, step, StepSource(requested["source"]))
    row.args, row.child = dict(requested["args"]), child
    row.priority = requested.get("priority", row.priority)
    return row


_FRAME: Mapping[str, Any] = {
    "priority": 0,
    "source": StepSource.FRAME,
    "collects": False,
    "tries": 1,
}


def _frame_row(runtime: Runtime, interface: str, name: str) -> OperationStep:
    conductor = runtime.settings.conductor
    row = OperationStep(**_FRAME, interface=interface, name=name, args={})
    row.tries, row.backoff = conductor.step_attempts, conductor.step_backoff
    return row


_COPIED = (
    "interface", "name", "flow", "args", "priority", "source", "in_band", "abortable",
    "requires_ramdisk", "reboot_requested", "resume", "timeout", "tries", "backoff", "child",
    "collects", "event",
)  # fmt: skip


def _copy(row: OperationStep) -> OperationStep:
    return OperationStep(**{name: getattr(row, name) for name in _COPIED})
