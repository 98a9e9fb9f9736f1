"""
Provisioning: a verb from the API, with its arguments, becomes a move and an operation.

`weigh` decides all that can be decided before anything is written; `request` writes it down.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from app import flows
from app.errors import (
    Conflict,
    IllegalMove,
    InMaintenance,
    Invalid,
    NodeLocked,
    NodeProtected,
)
from app.models import Fault, Node, OperationKind, OperationStep, StepSource
from app.runtime import Runtime, of
from app.services import (
    aborts,
    admission,
    asked,
    children,
    faults,
    history,
    moves,
    operations,
    outcomes,
    planning,
    targets,
)
from app.services.caller import Caller
from app.services.conductors import require_served
from app.services.rescue_password import hashed
from app.services.steps import Asked, offered, problems
from app.states import MACHINE, VERBS, Event, Kind, State, allows
from drivers.agent.image import boot_mode
from drivers.core.errors import FailureCode, HardwareError
from drivers.core.steps import Flow
from drivers.core.target import Target

Arguments = Mapping[str, Any]
Asking = Callable[[Session, Node, Arguments], planning.Request]


@dataclass(frozen=True, slots=True)
class Verb:
    """
    How an event that somebody asks for is carried out by an operation.

    kind: of the operation. plan: its steps. asks: reads the steps that come with it. flow: what
    those are checked against; what is wrong with them is refused, or, when `fails`, ends in the
    failed state. target: where it leads, unless as the state machine says. validates: the
    interfaces whose settings must be right before anything begins. in_maintenance: whether a node
    in maintenance takes it. protected: whether a protected node refuses it.
    """

    kind: OperationKind
    plan: planning.Plan
    asks: Asking = asked.nothing
    flow: Flow | None = None
    fails: bool = False
    target: State | None = None
    validates: tuple[str, ...] = ()
    in_maintenance: bool = True
    protected: bool = False


_INSTANCE = ("power", "deploy", "boot", "network", "storage")

#: Event -> how; MANAGE works only where the node must be verified first.
_VERBS: Mapping[Event, Verb] = {
    Event.MANAGE: Verb(OperationKind.MANAGE, planning.verify),
    Event.PROVIDE: Verb(OperationKind.PROVIDE, planning.clean, asked.by_settings, Flow.CLEAN),
    Event.CLEAN: Verb(
        OperationKind.CLEAN, planning.manual_clean, asked.to_clean, Flow.CLEAN, fails=True,
        target=State.MANAGEABLE, validates=("power", "network"), in_maintenance=False,
    ),
    Event.DEPLOY: Verb(
        OperationKind.ACTIVE, planning.deploy, asked.to_deploy, Flow.DEPLOY,
        validates=_INSTANCE, in_maintenance=False,
    ),
    Event.REBUILD: Verb(
        OperationKind.REBUILD, planning.deploy, asked.to_deploy, Flow.DEPLOY,
        validates=_INSTANCE, in_maintenance=False, protected=True,
    ),
    Event.DELETE: Verb(
        OperationKind.DELETED, planning.delete, asked.by_settings, Flow.CLEAN,
        validates=("power",), protected=True,
    ),
    Event.INSPECT: Verb(
        OperationKind.INSPECT, planning.framework(flows.INSPECT), validates=("power", "inspect"),
    ),
    Event.ADOPT: Verb(OperationKind.ADOPT, planning.framework(flows.ADOPT), validates=("power",)),
    Event.RESCUE: Verb(
        OperationKind.RESCUE, planning.framework(flows.RESCUE),
        validates=("power", "rescue", "network"), in_maintenance=False,
    ),
    Event.UNRESCUE: Verb(
        OperationKind.UNRESCUE, planning.framework(flows.UNRESCUE),
        validates=("power", "rescue", "network"), in_maintenance=False,
    ),
    Event.SERVICE: Verb(
        OperationKind.SERVICE, planning.service, asked.to_service, Flow.SERVICE, fails=True,
        validates=("power", "network"), in_maintenance=False,
    ),
}  # fmt: skip


def _abort(session: Session, node: Node, caller: Caller) -> None:
    """Abort what is under way; a service that has failed is abandoned instead."""
    if node.provision_state != State.SERVICE_FAIL:
        outcomes.request_abort(session, node)
        return
    past = operations.of_node(session, node.id)
    failed = next((each for each in past if each.kind == OperationKind.SERVICE), None)
    prepared = failed and any(
        row.source == StepSource.FRAME for row in operations.steps_of(session, failed)
    )
    target = targets.of_node(session, node)
    rows = planning.tidy_abort(target, Flow.SERVICE) if prepared else []
    if rows:
        operations.start(session, node, OperationKind.SERVICE, rows, {}, caller).aborting = True
    else:
        state = State(node.provision_state)
        finished = operations.record_finished(session, node, OperationKind.SERVICE, caller)
        moves.move(node, Event.ABORT)
        moves.settle(session, node, state, Event.ABORT, finished)


#: Events that change what is under way instead of beginning something.
_INTERRUPTS: Mapping[Event, Callable[[Session, Node, Caller], None]] = {
    Event.ABORT: _abort,
    Event.UNHOLD: lambda session, node, _caller: outcomes.unhold(session, node),
}


#: Events that bring a node into service, and what they make it; refused while it is retired. A
#: rebuild does not: the tenant has the node already (spec node-retirement).
_INTO_SERVICE: Mapping[Event, State] = {
    Event.PROVIDE: State.AVAILABLE,
    Event.DEPLOY: State.ACTIVE,
    Event.ADOPT: State.ACTIVE,
}


@dataclass(frozen=True, slots=True)
class Intent:
    """
    What a verb does to a node, before it is done.

    leaves: the state that it is moved from; of what still queues, the one in which it would wait.
    how: None where nothing but the move is to be done, or where something under way is changed.
    steps: asked for. wrong: with those, a sentence each; then the operation fails before its first
    step.
    """

    event: Event
    leaves: State
    how: Verb | None = None
    rows: Sequence[OperationStep] = ()
    steps: Sequence[Asked] = ()
    wrong: Sequence[str] = ()
    shown: Arguments = field(default_factory=dict)


def weigh(session: Session, node: Node, verb: str, arguments: Arguments) -> Intent:
    """
    Decide what `verb` (a key of `states.VERBS`) does to a node; nothing is written.

    Raises Invalid for an unknown verb or steps that cannot be, IllegalMove, NodeLocked,
    InMaintenance, NodeProtected, Conflict, and Unavailable when no conductor serves the node.
    """
    event = VERBS.get(verb)
    if event is None:
        raise IllegalMove(verb, node.uuid, node.provision_state, "there is no such action")
    leaves = State(node.provision_state)
    if node.reservation is not None:
        waits = MACHINE[leaves].moves.get(Event.WAIT)
        if waits is None or not allows(waits, event) or not _may_end(session, node, event):
            raise NodeLocked(node.uuid, node.reservation)
        leaves = waits
    if not allows(leaves, event):
        raise IllegalMove(verb, node.uuid, node.provision_state)
    state = MACHINE[leaves].moves[event]
    if event in _INTERRUPTS:
        if event is Event.ABORT and state is State.ACTIVE and node.maintenance:
            raise Conflict(f"Node {node.uuid} is in maintenance: its service cannot be aborted.")
        return Intent(event, leaves)
    how = _VERBS.get(event)
    if how is None:
        raise Invalid(f'The action "{verb}" is not available in this release.')
    _check(of(session), node, verb, event, how)
    if state is State.MANAGEABLE:  # nothing to do but the move
        return Intent(event, leaves)
    require_served(session, node)
    target = targets.of_node(session, node)
    _validate(target, how.validates)
    request, wrong = _asked(session, node, target, event, arguments)
    rows = [] if wrong else how.plan(of(session), node, target, request)
    hidden = ("configdrive", "rescue_password")
    shown = {key: value for key, value in arguments.items() if key not in hidden}
    return Intent(event, leaves, how, rows, request.steps, wrong, shown)


def _may_end(session: Session, node: Node, event: Event) -> bool:
    """Whether an event may end the operation that reserves a node: it queues, or is aborted."""
    if admission.is_queued(session, node):
        return True
    return event is Event.ABORT and aborts.is_possible(session, node)


def check_deployment(session: Session, node: Node, target: Target) -> None:
    """
    What is to be deployed is possible, as far as it is known without the caller's steps: the boot
    mode, the traits of the instance, the steps of their templates. Raises Invalid.
    """
    _asked(session, node, target, Event.DEPLOY, {})


def leads_to(intent: Intent) -> State:
    """The state that a node enters at once."""
    return MACHINE[intent.leaves].moves[intent.event]


def request(session: Session, node: Node, verb: str, arguments: Arguments, caller: Caller) -> None:
    """
    Begin what `verb` asks for: move, and hand out. The caller has locked the node's row.

    Raises as `weigh` does.
    """
    intent = weigh(session, node, verb, arguments)
    if intent.event in _INTERRUPTS:
        _INTERRUPTS[intent.event](session, node, caller)
        return
    if intent.leaves != node.provision_state:
        moves.move(node, Event.WAIT)
    row = MACHINE[State(node.provision_state)]
    if row.kind in (Kind.WAIT, Kind.HOLD):
        outcomes.supersede(session, node)
    how = intent.how
    if how is None:
        moves.move(node, intent.event)
        return
    node.last_error = None
    _keep_arguments(of(session), node, intent.event, arguments, caller)
    moves.move(node, intent.event, how.target or MACHINE[row.moves[intent.event]].target)
    if intent.rows:
        started = operations.start(session, node, how.kind, intent.rows, intent.shown, caller)
        if intent.steps:
            started.asked_steps = [dict(each) for each in intent.steps]
        history.begins(session, node, intent.rows, caller.user_id)
        return
    code = FailureCode.INVALID_STEPS
    error = faults.described(code, "; ".join(intent.wrong)) if intent.wrong else None
    finished = operations.record_finished(session, node, how.kind, caller, error)
    outcomes.log_end(node, finished)
    outcomes.fire(session, node, finished, Event.FAIL if error else Event.DONE)


def _check(runtime: Runtime, node: Node, verb: str, event: Event, how: Verb) -> None:
    clean_failure = node.fault == Fault.CLEAN_FAILURE and node.provision_state == State.CLEAN_FAIL
    allowed = how.in_maintenance
    if event is Event.PROVIDE:
        allowed = runtime.settings.conductor.allow_provisioning_in_maintenance
    if node.fault == Fault.RESTORED:  # what its rows say is not to be relied upon
        allowed = event in (Event.MANAGE, Event.ADOPT)
    if node.maintenance and not allowed and not clean_failure:
        raise InMaintenance(verb, node.uuid)
    if node.protected and how.protected:
        raise NodeProtected(node.uuid)
    if node.retired and event in _INTO_SERVICE:
        raise Conflict(
            f"Node {node.uuid} is retired and cannot become {_INTO_SERVICE[event]}; first set its"
            " field 'retired' to false."
        )


def _asked(
    session: Session, node: Node, target: Target, event: Event, arguments: Arguments
) -> tuple[planning.Request, list[str]]:
    """What a verb is asked to do, and what is wrong with its steps. Raises Invalid."""
    how = _VERBS[event]
    _check_boot_mode(target, event)
    request = how.asks(session, node, arguments)
    wrong = [*_wrong(target, how, request), *children.problems(session, request.steps)]
    if wrong and not how.fails:
        raise Invalid("; ".join(wrong))
    return request, wrong


def _check_boot_mode(target: Target, event: Event) -> None:
    if event not in (Event.DEPLOY, Event.REBUILD):
        return
    mode = boot_mode(target)
    if mode in target.options["conductor"]["disallowed_deployment_boot_modes"]:
        raise Invalid(
            f"Boot mode {mode} of node {target.uuid} is not deployed"
            " ([conductor]disallowed_deployment_boot_modes)"
        )


def _validate(target: Target, kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        if kind == "boot" and not target.options["agent"]["manage_agent_boot"]:
            continue
        try:
            target.driver.by_kind[kind].validate(target)
        except HardwareError as error:
            raise Invalid(
                f"Failed to validate {kind} interface of node {target.uuid}: {error}"
            ) from error


def _wrong(target: Target, how: Verb, request: planning.Request) -> list[str]:
    """What is wrong with the steps that are asked for, as far as it is known by now."""
    if how.flow is None or not request.steps:
        return []
    known = offered(target, how.flow)
    if how.flow is Flow.DEPLOY:  # only the agent that will have booted says what it can do
        known = {key: step for key, step in known.items() if not step.in_band}
    ramdisk = not request.disable_ramdisk
    agent = ramdisk and planning.frame(target, how.flow).collect is not None
    return problems(request.steps, how.flow, known, agent=agent, ramdisk=ramdisk)


def _keep_arguments(
    runtime: Runtime, node: Node, event: Event, arguments: Arguments, caller: Caller
) -> None:
    """What comes with a verb and belongs to the node from now on."""
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
        _lend(runtime, node, caller)


def _lend(runtime: Runtime, node: Node, caller: Caller) -> None:
    """The project that deploys a node becomes its lessee, if settings want that."""
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
