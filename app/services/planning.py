"""
Planning: the ordered steps of an operation, from what drivers and agents offer.

A plan is a list of rows for `operation_steps`: the frame before, the steps of the flow by
decreasing priority, the frame after. The same functions plan what will be done and, once the
agent has reported its steps, plan the rest anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.models import Node, OperationStep
from app.runtime import Runtime
from app.states import Event
from drivers.agent import in_band
from drivers.interfaces import Frame
from drivers.steps import Flow, Step
from drivers.target import Target

#: Who goes first among equal priorities (Ironic's numbers; they hold the seed's order).
INTERFACE_PRIORITY: Mapping[str, int] = {
    "vendor": 7, "power": 6, "management": 5, "firmware": 4, "deploy": 3, "bios": 2, "raid": 1,
}  # fmt: skip
VERIFY_PRIORITY: Mapping[str, int] = {
    "power": 13, "management": 12, "firmware": 11, "inspect": 10, "deploy": 9, "boot": 8,
    "bios": 7, "raid": 6, "vendor": 5, "network": 4, "storage": 3, "console": 2, "rescue": 1,
}  # fmt: skip

Rows = list[OperationStep]


def verify(runtime: Runtime, node: Node, target: Target) -> Rows:
    """Read the power state, then everything the driver verifies."""
    rows = [_frame_row("power", "read")]
    rows += _flow_rows(runtime, target, Flow.VERIFY)
    if runtime.settings.conductor.power_off_after_manage:
        rows.append(_frame_row("power", "power_off"))
    return rows


def clean(runtime: Runtime, node: Node, target: Target) -> Rows:
    """Automated cleaning; nothing at all when it is off for this node."""
    wanted = node.automated_clean
    if wanted is None:
        wanted = runtime.settings.conductor.automated_clean
    if not wanted:
        return []
    return _framed(frame(target, "clean"), _flow_rows(runtime, target, Flow.CLEAN))


def deploy(runtime: Runtime, node: Node, target: Target) -> Rows:
    return _framed(frame(target, "deploy"), _flow_rows(runtime, target, Flow.DEPLOY))


def delete(runtime: Runtime, node: Node, target: Target) -> Rows:
    """Tear down, then clean as `clean` does."""
    rows = [_frame_row(*row) for row in frame(target, "delete").before]
    rows[-1].event = Event.CLEAN
    return rows + clean(runtime, node, target)


def power(state: str, timeout: float | None) -> Rows:
    return [_frame_row("power", "change", {"state": state, "timeout": timeout})]


def frame(target: Target, flow: str) -> Frame:
    return target.driver.deploy.frames.get(flow, Frame())


def tidy(target: Target, flow: str) -> Rows:
    """What is done when a flow has failed, before the node enters its failed state."""
    rows = [_frame_row(*row) for row in frame(target, flow).on_failure]
    for row in rows:
        row.source = "tidy"
    return rows


def with_agent_steps(
    runtime: Runtime, target: Target, flow: Flow, pending: Sequence[OperationStep]
) -> Rows:
    """
    The rest of a plan, now that the agent has reported its steps.

    pending: the rows that have not been run. What the agent offers with a priority above 0 joins
    the steps of the flow; frames stay where they are.
    """
    ours = [_copy(row) for row in pending if row.flow == flow and not row.in_band]
    theirs = [_step_row(runtime, flow, step, "agent") for step in in_band.steps_of(target, flow)]
    after = [_copy(row) for row in pending if row.flow != flow]
    return _sorted(ours + [row for row in theirs if row.priority > 0], flow) + after


def _framed(around: Frame, steps: Rows) -> Rows:
    before = [_frame_row(*row) for row in around.before]
    after = [_frame_row(*row) for row in around.after]
    rows = before + steps + after
    for row in rows:
        row.collects = (row.interface, row.name) == around.collect
    return rows


def _flow_rows(runtime: Runtime, target: Target, flow: Flow) -> Rows:
    rows = [_step_row(runtime, flow, step, "driver") for step in target.driver.steps(flow, target)]
    return _sorted([row for row in rows if row.priority != 0], flow)


def _sorted(rows: Iterable[OperationStep], flow: Flow) -> Rows:
    order = VERIFY_PRIORITY if flow is Flow.VERIFY else INTERFACE_PRIORITY
    return sorted(rows, key=lambda row: (-row.priority, -order.get(row.interface, 0)))


def _step_row(runtime: Runtime, flow: Flow, step: Step, source: str) -> OperationStep:
    conductor = runtime.settings.conductor
    overrides = {
        Flow.CLEAN: conductor.clean_step_priority_override,
        Flow.VERIFY: conductor.verify_step_priority_override,
    }.get(flow, {})
    return OperationStep(
        interface=step.interface,
        name=step.name,
        flow=flow.value,
        args={},
        priority=overrides.get(f"{step.interface}.{step.name}", step.priorities[flow]),
        source=source,
        in_band=step.in_band,
        abortable=step.abortable,
        requires_ramdisk=step.needs_ramdisk,
        reboot_requested=step.reboot_requested,
        resume=step.resume.value,
        collects=False,
    )


def _frame_row(interface: str, name: str, args: dict[str, Any] | None = None) -> OperationStep:
    return OperationStep(
        interface=interface, name=name, args=args or {}, priority=0, source="frame", collects=False
    )


_COPIED = (
    "interface", "name", "flow", "args", "priority", "source", "in_band", "abortable",
    "requires_ramdisk", "reboot_requested", "resume", "collects", "event",
)  # fmt: skip


def _copy(row: OperationStep) -> OperationStep:
    return OperationStep(**{name: getattr(row, name) for name in _COPIED})
