"""Step rows: the rows of `operation_steps` that a plan consists of, and their order in a flow."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.hardware.steps import Key, RequestedStep
from app.models import OperationStep, StepSource
from app.runtime import Runtime
from drivers.core import reserved
from drivers.core.steps import PRIORITY_OVERRIDES, Flow, Resume, Step

Rows = list[OperationStep]

#: Seconds before the second attempt of a step that names no pause of its own: a BMC that was busy
#: or restarts answers within some of them. The pause doubles each time.
BACKOFF = 5.0

#: Order of interfaces at equal step priority, highest first (Ironic's numbers, the spec's order).
INTERFACE_PRIORITY: Mapping[str, int] = {
    "vendor": 7, "power": 6, "management": 5, "firmware": 4, "deploy": 3, "bios": 2, "raid": 1,
}  # fmt: skip
VERIFY_PRIORITY: Mapping[str, int] = {
    "power": 13, "management": 12, "firmware": 11, "inspect": 10, "deploy": 9, "boot": 8,
    "bios": 7, "raid": 6, "vendor": 5, "network": 4, "storage": 3, "console": 2, "rescue": 1,
}  # fmt: skip


def in_order(rows: Iterable[OperationStep], flow: Flow) -> Rows:
    """Sort the rows of a flow by their order of execution."""
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


def of_step(runtime: Runtime, flow: Flow, step: Step, source: StepSource) -> OperationStep:
    """Create the row of a step that a driver or the agent offers."""
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
        backoff=BACKOFF if retry.backoff is None else retry.backoff,
        collects=False,
    )


def of_request(
    runtime: Runtime,
    flow: Flow,
    requested_step: RequestedStep,
    offered_steps: Mapping[Key, Step],
    *,
    ramdisk: bool,
) -> OperationStep:
    """
    Create the row of a requested step.

    An unknown step counts as in-band until the agent has reported its steps. A reserved step
    (`wait`, `reboot`, ...) and a step of a child node belong to neither driver nor agent.
    """
    key = interface, name = requested_step["interface"], requested_step["step"]
    is_reserved = name in reserved.METHODS
    child = requested_step.get("child")
    step = None if is_reserved or child else offered_steps.get(key)
    if step is None:
        in_band = not is_reserved and not child
        abortable = is_reserved or flow is Flow.DEPLOY
        resume = Resume.PROBE if in_band else Resume.RERUN
        step = Step(interface, name, {flow: 0}, (), abortable, ramdisk, in_band, resume)
    row = of_step(runtime, flow, step, StepSource(requested_step["source"]))
    row.args, row.child = dict(requested_step["args"]), child
    row.priority = requested_step.get("priority", row.priority)
    return row


#: Columns of a frame step.
FRAME: Mapping[str, Any] = {
    "priority": 0,
    "source": StepSource.FRAME,
    "in_band": False,
    "abortable": False,
    "requires_ramdisk": True,
    "collects": False,
    "tries": 1,
}


def of_frame(runtime: Runtime, interface: str, name: str) -> OperationStep:
    """Create the row of a frame step."""
    row = OperationStep(**FRAME, interface=interface, name=name, args={})
    row.tries, row.backoff = runtime.settings.conductor.step_attempts, BACKOFF
    return row


def of_cleanup(labels: Iterable[tuple[str, str]]) -> Rows:
    """Create the rows of cleanup steps."""
    return [
        OperationStep(
            **{**FRAME, "source": StepSource.TIDY}, interface=interface, name=name, args={}
        )
        for interface, name in labels
    ]


_COPIED = (
    "interface", "name", "flow", "args", "priority", "source", "in_band", "abortable",
    "requires_ramdisk", "reboot_requested", "resume", "timeout", "tries", "backoff", "child",
    "collects", "event",
)  # fmt: skip


def copy(row: OperationStep) -> OperationStep:
    """Copy a row that has not run."""
    return OperationStep(**{name: getattr(row, name) for name in _COPIED})
