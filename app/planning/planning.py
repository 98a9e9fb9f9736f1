"""
Planning: the ordered steps of an operation.

A plan is a list of rows for `operation_steps`: frame steps before, the steps of the flow, frame
steps after. Steps run by decreasing priority, or in the caller's order where a verb takes one. The
rest of a plan is built again, by the same functions, when the agent has reported its steps.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.errors import Invalid
from app.hardware import targets
from app.hardware.steps import Key, RequestedStep, needs_ramdisk, of_driver, offered, problems
from app.lifecycle import flows
from app.lifecycle.flows import ProvisionFlow
from app.lifecycle.provision_states import Event, State
from app.models import Node, OperationStep, StepSource
from app.planning import plan_conditions, plan_rows
from app.planning.plan_rows import Rows
from app.planning.requested_steps import PLAIN, Request, cleans
from app.runtime import Runtime
from drivers.core import reserved
from drivers.core.driver import interfaces_of
from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface import Frame
from drivers.core.steps import Flow, Step
from drivers.core.target import Target

#: States of a node whose rescue ramdisk may be running.
RESCUED = (State.RESCUE, State.RESCUE_WAIT, State.RESCUE_FAIL, State.UNRESCUE_FAIL)

#: Frame steps that are left out where `[agent]manage_agent_boot` is false.
BOOT_OF_AGENT = (("boot", "prepare_ramdisk"), ("boot", "clean_up_ramdisk"))

#: Frame step of every tear-down, without which a clean would run in the tenant's networks.
LEAVE_TENANTS = ("network", "unconfigure_tenant_networks")

#: Priority of the step `deploy`.
MEGA_STEP = 100
#: Priority of the step `prepare_instance_boot`.
INSTANCE_BOOT = 60
_NO_STEP: Key = ("", "")


Plan = Callable[[Runtime, Node, Target, Request], Rows]


def verify(runtime: Runtime, node: Node, target: Target, request: Request = PLAIN) -> Rows:
    """Plan the verification: read the power state, then run the verify steps of the driver."""
    rows = [plan_rows.of_frame(runtime, "power", "read")]
    rows += _flow_rows(runtime, target, Flow.VERIFY)
    if runtime.settings.conductor.power_off_after_manage:
        rows.append(plan_rows.of_frame(runtime, "power", "power_off"))
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
        return in_requested_order(Flow.CLEAN, runtime, node, target, request)
    return _framed(
        runtime, frame(target, flows.CLEAN.name), _flow_rows(runtime, target, Flow.CLEAN)
    )


def deploy(runtime: Runtime, node: Node, target: Target, request: Request = PLAIN) -> Rows:
    steps = offered(target, Flow.DEPLOY)
    # in-band steps are known from an earlier boot, and may have changed until the next one
    driver_steps = {key: step for key, step in steps.items() if not step.in_band}
    # a mega step does the whole deployment
    if not interfaces_of(target).deploy.has_decomposed_deploy_steps():
        driver_steps = {
            key: step
            for key, step in driver_steps.items()
            if step.interface != "deploy" or step.priorities[Flow.DEPLOY] >= MEGA_STEP
        }
    flow_frame = frame(target, flows.DEPLOY.name)
    rows = _merged(runtime, driver_steps, request.steps)
    _restart_into_agent(rows, flow_frame.collect or _NO_STEP)
    rows = _framed(runtime, flow_frame, rows)
    if node.console_enabled:
        rows.append(plan_rows.of_frame(runtime, "console", "restore_console"))
    return rows


def delete(runtime: Runtime, node: Node, target: Target, request: Request = PLAIN) -> Rows:
    """
    Plan the tear-down, with the cleanup of a rescue if the node is in one, then `clean`.

    A clean that cannot run is the operator's problem, not the tenant's: it fails after the
    tear-down (spec implement-cleaning-states). An interface that `instance_info` names has no part
    in the cleaning: it would be the tenant's choice what is erased.
    """
    teardown = [*frame(target, flows.DELETE.name).before]
    if request.state in RESCUED:
        teardown = [*dict.fromkeys((*frame(target, flows.RESCUE.name).on_failure, *teardown))]
    if interfaces_of(target).network.has(LEAVE_TENANTS[1]) and LEAVE_TENANTS not in teardown:
        teardown.append(LEAVE_TENANTS)  # also if the deploy interface has no such step
    rows = [plan_rows.of_frame(runtime, *row) for row in teardown or [("power", "read")]]
    rows[-1].event = Event.CLEAN
    errors = request.errors
    if not errors:
        try:
            cleaning_target = targets.without_instance(runtime, node, target)
            cleaning = clean(runtime, node, cleaning_target, request)
            errors = plan_conditions.problems(cleaning_target, flows.CLEAN, cleaning)
            if not errors:
                return rows + cleaning
        except (Invalid, InvalidDriverInfo) as error:
            errors = (str(error),)
    refusal = plan_rows.of_frame(runtime, "deploy", "refuse_cleaning")
    refusal.args = {"reason": "; ".join(errors)}
    return [*rows, refusal]


def in_requested_order(
    flow: Flow, runtime: Runtime, node: Node, target: Target, request: Request = PLAIN
) -> Rows:
    """Plan the requested steps in their order; boot the agent only if one of them needs it."""
    steps = offered(target, flow)
    ramdisk = not request.disable_ramdisk and needs_ramdisk(request.steps, steps)
    rows = [
        plan_rows.of_request(runtime, flow, step, steps, ramdisk=ramdisk) for step in request.steps
    ]
    return _framed(runtime, frame(target, flow), rows) if ramdisk else rows


def frame_only(
    flow: ProvisionFlow, runtime: Runtime, node: Node, target: Target, request: Request = PLAIN
) -> Rows:
    """Plan a flow that consists of its frame only."""
    return _framed(runtime, frame(target, flow.name), [])


def power(state: str, timeout: float | None) -> Rows:
    """Plan a change of the power state. timeout: seconds; the setting's by default."""
    args = {"state": state, "timeout": timeout}
    return [OperationStep(**plan_rows.FRAME, interface="power", name="change", args=args)]


def method_call(interface: str, name: str, args: Mapping[str, Any]) -> Rows:
    """Plan one method call of an interface."""
    return [OperationStep(**plan_rows.FRAME, interface=interface, name=name, args=dict(args))]


def frame(target: Target, flow: str) -> Frame:
    driver = interfaces_of(target)
    inspects = flow == flows.INSPECT.name
    flow_frame = driver.inspect.frame(target) if inspects else driver.deploy.frame(target, flow)
    if flow == Flow.DEPLOY and not driver.deploy.has_decomposed_deploy_steps():
        flow_frame = replace(flow_frame, collect=None)
    if not target.options["agent"]["manage_agent_boot"]:
        flow_frame = flow_frame.without(BOOT_OF_AGENT)
    return flow_frame


def cleanup(target: Target, flow: str, *, power_off: bool = False) -> Rows:
    """Plan the cleanup steps after a failure of a flow."""
    labels = list(frame(target, flow).on_failure)
    return plan_rows.of_cleanup([*labels, ("power", "power_off")] if power_off else labels)


def abort_cleanup(target: Target, flow: str) -> Rows:
    """Plan the cleanup steps after an abort of a flow."""
    flow_frame = frame(target, flow)
    return plan_rows.of_cleanup(
        flow_frame.on_failure if flow_frame.on_abort is None else flow_frame.on_abort
    )


def continued(  # noqa: PLR0917 - inputs of a plan
    runtime: Runtime,
    target: Target,
    flow: ProvisionFlow,
    finished: Sequence[OperationStep],
    pending: Sequence[OperationStep],
    requests: Sequence[RequestedStep],
) -> tuple[Rows, Sequence[str]]:
    """
    Plan the rest of an operation after the agent has reported its steps, and check all of it.

    finished: rows up to the one that reads the report. pending: the planned rows after it.
    requests: the requested steps. Returns the new rows after it, and the errors; with any, there
    are no rows.
    """
    step_flow = flow.step_flow
    assert step_flow is not None  # only frames of step flows collect the agent's steps
    try:
        steps = offered(target, step_flow)
    except Invalid as error:
        return [], [str(error)]
    if errors := problems(requests, step_flow, steps, agent=False):
        return [], errors
    rows = with_agent_steps(runtime, target, step_flow, pending, requests, finished)
    errors = plan_conditions.problems(target, flow, [*finished, *rows])
    return ([], errors) if errors else (rows, ())


def with_agent_steps(  # noqa: PLR0917 - inputs of a plan
    runtime: Runtime,
    target: Target,
    flow: Flow,
    pending: Sequence[OperationStep],
    requests: Sequence[RequestedStep] = (),
    finished: Iterable[OperationStep] = (),
) -> Rows:
    """
    Plan the rest of a flow after the agent has reported its steps.

    pending: rows that have not run. finished: rows that have run. Steps of the agent with a
    priority above 0 join the flow; frame steps keep their places.
    """
    steps = offered(target, flow)
    if flow is Flow.DEPLOY:
        # reserved steps may be requested several times, at different priorities
        finished_keys = {(row.label, row.priority) for row in finished if row.flow == flow}
        rows = [
            row
            for row in _merged(runtime, steps, requests)
            if (row.label, row.priority) not in finished_keys
        ]
        _restart_into_agent(rows, None)
    elif requests:
        rows = [plan_rows.of_request(runtime, flow, step, steps, ramdisk=True) for step in requests]
    else:
        rows = _enabled(runtime, flow, steps)
    return rows + [plan_rows.copy(row) for row in pending if row.flow != flow]


def _merged(runtime: Runtime, steps: Mapping[Key, Step], requests: Sequence[RequestedStep]) -> Rows:
    """Merge the requested steps of a deployment with all others that are enabled."""
    requested_keys = {
        (request["interface"], request["step"]) for request in requests if not request.get("child")
    }
    other_steps = {key: step for key, step in steps.items() if key not in requested_keys}
    rows = [
        plan_rows.of_request(runtime, Flow.DEPLOY, request, steps, ramdisk=True)
        for request in requests
        if request["priority"] > 0
    ]
    return plan_rows.in_order(rows + _enabled(runtime, Flow.DEPLOY, other_steps), Flow.DEPLOY)


def _restart_into_agent(rows: Rows, booted_by: Key | None) -> None:
    """
    Mark the reserved steps of a deployment that must boot the agent when they start the machine.

    These are the ones before the step that prepares the instance's boot, and later ones followed by
    an in-band step. booted_by: the step that boots the agent first; None if it has run.
    """
    instance_boot = plan_rows.rank(Flow.DEPLOY, INSTANCE_BOOT, "deploy")
    for index, row in enumerate(rows):
        if row.name in reserved.METHODS:
            precedes_boot = (
                plan_rows.rank(Flow.DEPLOY, row.priority, row.interface) <= instance_boot
            )
            must_boot = precedes_boot or any(later_row.in_band for later_row in rows[index:])
            row.requires_ramdisk = must_boot and booted_by is None
        elif (row.interface, row.name) == booted_by:
            booted_by = None


def _framed(runtime: Runtime, flow_frame: Frame, rows: Rows) -> Rows:
    rows_before = [plan_rows.of_frame(runtime, *row) for row in flow_frame.before]
    rows_after = [plan_rows.of_frame(runtime, *row) for row in flow_frame.after]
    rows = rows_before + rows + rows_after
    for row in rows:
        row.collects = (row.interface, row.name) == flow_frame.collect
    return rows


def _flow_rows(runtime: Runtime, target: Target, flow: Flow) -> Rows:
    driver_steps = {step.key: step for step in of_driver(target, flow)}
    return _enabled(runtime, flow, driver_steps)


def _enabled(runtime: Runtime, flow: Flow, steps: Mapping[Key, Step]) -> Rows:
    """Rows of the steps that run without a request, sorted."""
    setting = flows.of_steps(flow).forbidden_steps
    forbidden = getattr(runtime.settings.api, setting) if setting else ()
    rows = [
        plan_rows.of_step(
            runtime, flow, step, StepSource.AGENT if step.in_band else StepSource.DRIVER
        )
        for step in steps.values()
    ]
    return plan_rows.in_order(
        [row for row in rows if row.priority > 0 and row.label not in forbidden], flow
    )
