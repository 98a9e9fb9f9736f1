"""
Provisioning: a verb with its arguments becomes a transition of the node and an operation.

`provisioning.decide` makes all decisions without writing; `provisioning.request` carries them out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.orm import Session

from app.engine import (
    aborts,
    admission,
    child_nodes,
    dispatch,
    operation_end,
    operations,
    provision_state,
    transitions,
)
from app.engine.guards import (
    Candidate,
    boot_mode_allowed,
)
from app.engine.verbs import DECLARATIONS, INTERRUPTS, Verb
from app.errors import IllegalMove, Invalid, NodeLocked, NotFound, ServiceError
from app.hardware import targets
from app.hardware.rescue_password import hashed
from app.hardware.steps import RequestedStep, offered, problems
from app.identity.caller import Caller
from app.inventory import history, holds, quotas
from app.lifecycle import failures, flows
from app.lifecycle.provision_states import (
    MACHINE,
    VERBS,
    Event,
    Kind,
    State,
    allows,
    verbs_in,
    waits_in,
)
from app.lifecycle.verb_arguments import SECRETS
from app.models import Node, Operation, OperationStep
from app.planning import plan_conditions, planning, requested_steps
from app.planning.requested_steps import Arguments
from app.runtime import Runtime, runtime_of
from drivers.core.errors import FailureCode, InvalidDriverInfo
from drivers.core.steps import Flow
from drivers.core.target import Target

#: Most characters of the column `lessee`.
LONGEST_PROJECT = 255


@dataclass(frozen=True, slots=True)
class Intent:
    """Decision about a verb: the changes that `request` would make."""

    event: Event
    from_state: State  # state before the event; for a queued operation, its wait state
    declaration: Verb | None = None  # without one, only the state or the active operation changes
    rows: Sequence[OperationStep] = ()  # planned steps
    steps: Sequence[RequestedStep] = ()  # requested steps
    step_errors: Sequence[str] = ()  # with any, the operation fails before its first step
    public_arguments: Arguments = field(default_factory=dict)  # arguments without secrets
    lessee: str | None = None  # project that becomes the lessee, see `_new_lessee`

    @property
    def tears_down(self) -> bool:
        """Whether it removes the instance before its flow of steps."""
        return self.event is Event.DELETE


def decide(session: Session, node: Node, verb: str, arguments: Arguments, caller: Caller) -> Intent:
    """
    Decide the effect of `verb`, a key of `states.VERBS`, on a node, without writing.

    Raises Invalid: an unknown verb, or invalid steps.
    Raises IllegalMove, InMaintenance, NodeProtected, Conflict: the node does not allow it.
    Raises NodeLocked: another operation holds the node.
    Raises NodeHeld: a hold on the node, or on a child node of a step, forbids it.
    Raises Unavailable: no conductor serves the node.
    Raises QuotaReached: the deploying project may not lease a further node.
    """
    candidate, from_state, declaration = _admissible(session, node, verb)
    if declaration is None:
        return Intent(candidate.event, from_state)
    if "configdrive" in arguments:  # checked before it is stored
        info = {**candidate.target.instance_info, "configdrive": arguments["configdrive"]}
        candidate.target = replace(candidate.target, instance_info=info)
    for guard in declaration.before_work:
        guard(candidate)
    request, invalid = _checked_request(candidate, declaration, arguments, caller)
    child_nodes.check_not_held(session, request.steps)
    rows, step_errors = _plan(candidate, declaration, request, invalid)
    public_arguments = {name: value for name, value in arguments.items() if name not in SECRETS}
    lessee = _new_lessee(session, node, candidate.event, caller)
    return Intent(
        candidate.event, from_state, declaration, rows, request.steps, step_errors,
        public_arguments, lessee,
    )  # fmt: skip


def _admissible(session: Session, node: Node, verb: str) -> tuple[Candidate, State, Verb | None]:
    """
    Check what a verb requires without its arguments: the node's state, fields and holds.

    Returns the candidate, the state that it leaves, and the declaration of its work, or None if the
    verb is only a transition. Raises as `decide`.
    """
    event = VERBS.get(verb)
    if event is None:
        raise _illegal(verb, node, "there is no such action, and ")
    from_state = _departed_state(session, node, verb, event)
    candidate = Candidate(session, node, verb, event)
    declaration = DECLARATIONS.get(event)
    for guard in (declaration or INTERRUPTS[event]).guards:
        guard(candidate)
    if declaration is None or MACHINE[from_state].moves[event] is State.MANAGEABLE:
        return candidate, from_state, None
    holds.check(session, node, declaration.held_by)
    return candidate, from_state, declaration


def refusals(session: Session, node: Node) -> Mapping[str, str | None]:
    """
    Map each verb of the node's state to the reason why it is refused, or None if it is accepted.

    A verb that is not refused may still be, for its arguments, or for fields of the node that an
    interface finds invalid.
    """
    reasons: dict[str, str | None] = {}
    for verb in VERBS:
        try:
            _admissible(session, node, verb)
            reasons[verb] = None
        except (IllegalMove, NodeLocked):
            continue
        except ServiceError as error:
            reasons[verb] = str(error)
    reasons.pop("undeploy", None)  # `deleted` is the same
    return reasons


def _departed_state(session: Session, node: Node, verb: str, event: Event) -> State:
    """
    Return the state that a verb would leave.

    For a busy node whose operation the verb may end, that is the wait state of the flow.

    Raises NodeLocked, IllegalMove.
    """
    from_state = State(node.provision_state)
    if node.reservation is not None:
        wait_state = waits_in(from_state)
        if (
            wait_state is None
            or not allows(wait_state, event)
            or not _may_end(session, node, event)
        ):
            raise NodeLocked(node.uuid, node.reservation)
        from_state = wait_state
    if not allows(from_state, event):
        raise _illegal(verb, node)
    return from_state


def _illegal(verb: str, node: Node, detail: str = "") -> IllegalMove:
    accepted_verbs = (
        ", ".join(verbs_in(node.provision_state)) or "none until its operation has ended"
    )
    return IllegalMove(
        verb, node.uuid, node.provision_state, f"{detail}the state accepts {accepted_verbs}"
    )


def _may_end(session: Session, node: Node, event: Event) -> bool:
    """
    Return whether an event may end the node's operation: it is queued, or the event aborts it.
    """
    if admission.is_queued(session, node):
        return True
    return event is Event.ABORT and aborts.is_possible(session, node)


def check_deployment(session: Session, node: Node, target: Target) -> None:
    """
    Check a deployment as far as possible without the caller's steps.

    These are the boot mode, the traits of the instance, and the steps of the templates.

    Raises Invalid.
    """
    candidate = Candidate(session, node, "deploy", Event.DEPLOY)
    candidate.target = target
    boot_mode_allowed(candidate)
    declaration = DECLARATIONS[Event.DEPLOY]
    _plan(candidate, declaration, *_checked_request(candidate, declaration, {}, Caller()))


def leads_to(intent: Intent) -> State:
    """Return the state that the node enters at once."""
    return MACHINE[intent.from_state].moves[intent.event]


def request(
    session: Session, node: Node, verb: str, arguments: Arguments, caller: Caller
) -> Operation | None:
    """
    Start a verb: change the provision state and dispatch the operation.

    The caller has locked the node's row. Returns the new operation, which may have ended, or None
    if the verb needs no operation. Raises the errors of `provisioning.decide`.
    """
    intent = decide(session, node, verb, arguments, caller)
    if intent.event in INTERRUPTS:
        INTERRUPTS[intent.event].act(session, node, caller)
        return None
    if intent.from_state != node.provision_state:
        provision_state.move(session, node, Event.WAIT)
    row = MACHINE[State(node.provision_state)]
    if row.kind in (Kind.WAIT, Kind.HOLD):
        transitions.supersede(session, node)
    declaration = intent.declaration
    if declaration is None:
        provision_state.move(session, node, intent.event)
        return None
    node.last_error = None
    _keep_arguments(runtime_of(session), node, intent, arguments)
    provision_state.move(
        session, node, intent.event, declaration.target or MACHINE[row.moves[intent.event]].target
    )
    if intent.rows:
        steps = [dict(step) for step in intent.steps]
        operation = dispatch.start(
            session,
            node,
            declaration.kind,
            intent.rows,
            intent.public_arguments,
            caller,
            requested_steps=steps,
        )
        history.record_start(session, node, intent.rows, caller.user_id)
        return operation
    code = FailureCode.INVALID_STEPS
    error = failures.describe(code, "; ".join(intent.step_errors)) if intent.step_errors else None
    ended_operation = operations.record_finished(session, node, declaration.kind, caller, error)
    operation_end.report_end(session, node, ended_operation)
    operation_end.fire(session, node, ended_operation, Event.FAIL if error else Event.DONE)
    return ended_operation


def _checked_request(
    candidate: Candidate, declaration: Verb, arguments: Arguments, caller: Caller
) -> tuple[requested_steps.Request, list[str]]:
    """
    Return the request of a verb, and the errors in its steps.

    Errors in the steps of a clean after a tear-down are a part of the request: they do not concern
    the tenant, who requests the tear-down.

    Raises Invalid: errors in the steps of a verb that refuses them; or the caller's steps would run
    on a child node of another project.
    """
    session, node, target = candidate.session, candidate.node, candidate.target
    tears_down = candidate.event is Event.DELETE
    try:
        if tears_down:  # the steps belong to cleaning
            target = targets.without_instance(runtime_of(session), node, target)
        request = declaration.read_request(session, node, arguments)
    except (Invalid, NotFound, InvalidDriverInfo) as error:
        if not tears_down:
            raise
        return requested_steps.Request(state=State(node.provision_state), errors=(str(error),)), []
    if (
        declaration.read_request is not requested_steps.by_settings
    ):  # steps of settings are the operator's
        child_nodes.check_project(session, node, request.steps, caller)
    step_errors = _step_errors(target, declaration, request)
    if declaration.flow is not None:
        step_errors += child_nodes.problems(session, declaration.flow, request.steps)
    if step_errors and tears_down:
        return replace(request, steps=(), errors=step_errors), []
    if step_errors and not declaration.fails:
        raise Invalid("; ".join(step_errors))
    return request, step_errors


def _plan(
    candidate: Candidate,
    declaration: Verb,
    request: requested_steps.Request,
    step_errors: Sequence[str],
) -> tuple[Sequence[OperationStep], Sequence[str]]:
    """
    Return the plan of a verb, and the errors in it; with any, or with `step_errors`, it has no
    steps.

    Raises Invalid: errors in the plan of a verb that refuses them.
    """
    if step_errors:
        return [], step_errors
    runtime, node, target = runtime_of(candidate.session), candidate.node, candidate.target
    rows = declaration.plan(runtime, node, target, request)
    errors = plan_conditions.problems(target, flows.of_operation(declaration.kind), rows)
    if errors and not declaration.fails:
        raise Invalid("; ".join(errors))
    return ([], errors) if errors else (rows, ())


def _step_errors(target: Target, declaration: Verb, request: requested_steps.Request) -> list[str]:
    """List the errors in the requested steps, as far as the offered steps are known."""
    if declaration.flow is None or not request.steps:
        return []
    steps = offered(target, declaration.flow)
    if declaration.flow is Flow.DEPLOY:  # in-band steps are known once the agent has booted
        steps = {key: step for key, step in steps.items() if not step.in_band}
    ramdisk = not request.disable_ramdisk
    agent = ramdisk and planning.frame(target, declaration.flow).collect is not None
    return problems(request.steps, declaration.flow, steps, agent=agent, ramdisk=ramdisk)


def _keep_arguments(runtime: Runtime, node: Node, intent: Intent, arguments: Arguments) -> None:
    """Store the arguments of a verb that belong to the node, and the new lessee."""
    instance_values = {}
    if "configdrive" in arguments:
        instance_values["configdrive"] = arguments["configdrive"]
    if intent.event is Event.RESCUE:
        password = arguments["rescue_password"]
        algorithm = runtime.settings.conductor.rescue_password_hash_algorithm
        instance_values["rescue_password"] = password
        instance_values["hashed_rescue_password"] = hashed(password, algorithm)
    if instance_values:
        node.instance_info = {**node.instance_info, **instance_values}
    if intent.lessee is not None:
        node.lessee = intent.lessee
        node.driver_internal_info = {**node.driver_internal_info, "automatic_lessee": True}


def _new_lessee(session: Session, node: Node, event: Event, caller: Caller) -> str | None:
    """
    Return the project that a deployment makes the node's lessee, if settings enable that.

    Raises Invalid: its identifier cannot be stored.
    Raises QuotaReached.
    """
    settings = runtime_of(session).settings.conductor
    if event is not Event.DEPLOY or not settings.automatic_lessee or node.lessee is not None:
        return None
    project = {
        "instance": node.instance_info.get("project_id"),
        "request": caller.project_id,
    }.get(settings.automatic_lessee_source)
    if not project:
        return None
    if not isinstance(project, str) or len(project) > LONGEST_PROJECT:
        raise Invalid(
            f"instance_info/project_id: must be a text of at most {LONGEST_PROJECT} characters, the"
            " identifier of the project that leases the node ([conductor]automatic_lessee)"
        )
    quotas.check(session, node, project, caller)
    return project
