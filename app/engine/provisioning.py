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
from app.inventory import history, holds
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
from app.models import Node, Operation, OperationStep
from app.planning import plan_conditions, planning, requested_steps
from app.planning.requested_steps import Arguments
from app.runtime import Runtime, runtime_of
from drivers.core.errors import FailureCode, InvalidDriverInfo
from drivers.core.steps import Flow
from drivers.core.target import Target


@dataclass(frozen=True, slots=True)
class Intent:
    """Decision about a verb: the changes that `request` would make."""

    event: Event
    leaves: State  # state before the event; for a queued operation, its wait state
    how: Verb | None = None  # None: only a transition, or a change of the active operation
    rows: Sequence[OperationStep] = ()  # planned steps
    steps: Sequence[RequestedStep] = ()  # requested steps
    wrong: Sequence[str] = ()  # errors in them; with any, the operation fails before its first step
    shown: Arguments = field(default_factory=dict)  # arguments without secrets

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
    """
    candidate, leaves, how = _admissible(session, node, verb)
    if how is None:
        return Intent(candidate.event, leaves)
    if "configdrive" in arguments:  # checked before it is stored
        info = {**candidate.target.instance_info, "configdrive": arguments["configdrive"]}
        candidate.target = replace(candidate.target, instance_info=info)
    for guard in how.before_work:
        guard(candidate)
    request, invalid = _checked_request(candidate, how, arguments, caller)
    child_nodes.check_not_held(session, request.steps)
    rows, wrong = _plan(candidate, how, request, invalid)
    hidden = ("configdrive", "rescue_password")
    shown = {key: value for key, value in arguments.items() if key not in hidden}
    return Intent(candidate.event, leaves, how, rows, request.steps, wrong, shown)


def _admissible(session: Session, node: Node, verb: str) -> tuple[Candidate, State, Verb | None]:
    """
    Check what a verb requires without its arguments: the node's state, fields and holds.

    Returns the candidate, the state that it leaves, and the declaration of its work; None: there is
    only the transition. Raises as `decide`.
    """
    event = VERBS.get(verb)
    if event is None:
        raise _illegal(verb, node, "there is no such action, and ")
    leaves = _departed_state(session, node, verb, event)
    candidate = Candidate(session, node, verb, event)
    how = DECLARATIONS.get(event)
    for guard in (how or INTERRUPTS[event]).guards:
        guard(candidate)
    if how is None or MACHINE[leaves].moves[event] is State.MANAGEABLE:
        return candidate, leaves, None
    holds.check(session, node, how.held_by)
    return candidate, leaves, how


def refusals(session: Session, node: Node) -> Mapping[str, str | None]:
    """
    Map each verb that the state of a node has to the reason why it is refused; None: it is not.

    A verb that is not refused may still be, for its arguments, or for fields of the node that an
    interface finds invalid.
    """
    found: dict[str, str | None] = {}
    for verb in VERBS:
        try:
            _admissible(session, node, verb)
            found[verb] = None
        except (IllegalMove, NodeLocked):
            continue
        except ServiceError as error:
            found[verb] = str(error)
    found.pop("undeploy", None)  # `deleted` is the same
    return found


def _departed_state(session: Session, node: Node, verb: str, event: Event) -> State:
    """
    Return the state that a verb would leave.

    For a busy node whose operation the verb may end, that is the wait state of the flow.

    Raises NodeLocked, IllegalMove.
    """
    leaves = State(node.provision_state)
    if node.reservation is not None:
        waits = waits_in(leaves)
        if waits is None or not allows(waits, event) or not _may_end(session, node, event):
            raise NodeLocked(node.uuid, node.reservation)
        leaves = waits
    if not allows(leaves, event):
        raise _illegal(verb, node)
    return leaves


def _illegal(verb: str, node: Node, why: str = "") -> IllegalMove:
    accepted = ", ".join(verbs_in(node.provision_state)) or "none until its operation has ended"
    return IllegalMove(verb, node.uuid, node.provision_state, f"{why}the state accepts {accepted}")


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
    how = DECLARATIONS[Event.DEPLOY]
    _plan(candidate, how, *_checked_request(candidate, how, {}, Caller()))


def leads_to(intent: Intent) -> State:
    """Return the state that the node enters at once."""
    return MACHINE[intent.leaves].moves[intent.event]


def request(
    session: Session, node: Node, verb: str, arguments: Arguments, caller: Caller
) -> Operation | None:
    """
    Start a verb: change the provision state and dispatch the operation.

    The caller has locked the node's row. Returns the new operation, which may have ended; None: the
    verb needs none. Raises the errors of `provisioning.decide`.
    """
    intent = decide(session, node, verb, arguments, caller)
    if intent.event in INTERRUPTS:
        INTERRUPTS[intent.event].act(session, node, caller)
        return None
    if intent.leaves != node.provision_state:
        provision_state.move(session, node, Event.WAIT)
    row = MACHINE[State(node.provision_state)]
    if row.kind in (Kind.WAIT, Kind.HOLD):
        transitions.supersede(session, node)
    how = intent.how
    if how is None:
        provision_state.move(session, node, intent.event)
        return None
    node.last_error = None
    _keep_arguments(runtime_of(session), node, intent.event, arguments, caller)
    provision_state.move(
        session, node, intent.event, how.target or MACHINE[row.moves[intent.event]].target
    )
    if intent.rows:
        steps = [dict(each) for each in intent.steps]
        started = dispatch.start(
            session, node, how.kind, intent.rows, intent.shown, caller, requested_steps=steps
        )
        history.record_start(session, node, intent.rows, caller.user_id)
        return started
    code = FailureCode.INVALID_STEPS
    error = failures.describe(code, "; ".join(intent.wrong)) if intent.wrong else None
    finished = operations.record_finished(session, node, how.kind, caller, error)
    operation_end.report_end(session, node, finished)
    operation_end.fire(session, node, finished, Event.FAIL if error else Event.DONE)
    return finished


def _checked_request(
    candidate: Candidate, how: Verb, arguments: Arguments, caller: Caller
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
        if tears_down:  # the steps are those of cleaning
            target = targets.without_instance(runtime_of(session), node, target)
        request = how.read_request(session, node, arguments)
    except (Invalid, NotFound, InvalidDriverInfo) as error:
        if not tears_down:
            raise
        return requested_steps.Request(state=State(node.provision_state), errors=(str(error),)), []
    if how.read_request is not requested_steps.by_settings:  # steps of settings are the operator's
        child_nodes.check_project(session, node, request.steps, caller)
    wrong = _step_errors(target, how, request)
    if how.flow is not None:
        wrong += child_nodes.problems(session, how.flow, request.steps)
    if wrong and tears_down:
        return replace(request, steps=(), errors=wrong), []
    if wrong and not how.fails:
        raise Invalid("; ".join(wrong))
    return request, wrong


def _plan(
    candidate: Candidate, how: Verb, request: requested_steps.Request, wrong: Sequence[str]
) -> tuple[Sequence[OperationStep], Sequence[str]]:
    """
    Return the plan of a verb, and the errors in it; with any, or with `wrong`, it has no steps.

    Raises Invalid: errors in the plan of a verb that refuses them.
    """
    if wrong:
        return [], wrong
    runtime, node, target = runtime_of(candidate.session), candidate.node, candidate.target
    rows = how.plan(runtime, node, target, request)
    errors = plan_conditions.problems(target, flows.of_operation(how.kind), rows)
    if errors and not how.fails:
        raise Invalid("; ".join(errors))
    return ([], errors) if errors else (rows, ())


def _step_errors(target: Target, how: Verb, request: requested_steps.Request) -> list[str]:
    """List the errors in the requested steps, as far as the offered steps are known."""
    if how.flow is None or not request.steps:
        return []
    known = offered(target, how.flow)
    if how.flow is Flow.DEPLOY:  # in-band steps are known once the agent has booted
        known = {key: step for key, step in known.items() if not step.in_band}
    ramdisk = not request.disable_ramdisk
    agent = ramdisk and planning.frame(target, how.flow).collect is not None
    return problems(request.steps, how.flow, known, agent=agent, ramdisk=ramdisk)


def _keep_arguments(
    runtime: Runtime, node: Node, event: Event, arguments: Arguments, caller: Caller
) -> None:
    """Store the arguments of a verb that belong to the node."""
    kept = {}
    if "configdrive" in arguments:
        kept["configdrive"] = arguments["configdrive"]
    if event is Event.RESCUE:
        password = arguments["rescue_password"]
        algorithm = runtime.settings.conductor.rescue_password_hash_algorithm
        kept["rescue_password"] = password
        kept["hashed_rescue_password"] = hashed(password, algorithm)
    if kept:
        node.instance_info = {**node.instance_info, **kept}
    if event is Event.DEPLOY:
        _set_lessee(runtime, node, caller)


def _set_lessee(runtime: Runtime, node: Node, caller: Caller) -> None:
    """Set the deploying project as the node's lessee, if settings enable that."""
    settings = runtime.settings.conductor
    if not settings.automatic_lessee or node.lessee is not None:
        return
    lessee = {
        "instance": node.instance_info.get("project_id"),
        "request": caller.project_id,
    }.get(settings.automatic_lessee_source)
    if lessee:
        node.lessee = str(lessee)
        node.driver_internal_info = {**node.driver_internal_info, "automatic_lessee": True}
