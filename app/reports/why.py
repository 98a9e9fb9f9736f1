"""
Explanations of a node's state for `/why`: the wait, the party that ends it, and the next action.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.agents import agent_logs
from app.broker.refused_lookups import Refusal
from app.cluster import conductors
from app.engine import admission, agent_waits, operations, provisioning, refreshes, timeouts
from app.engine.records import console_history
from app.inventory import bmc_events, compliance, holds, sensors
from app.lifecycle.hold_kinds import EFFECTS, HoldKind
from app.lifecycle.provision_states import MACHINE, Kind, State
from app.models import ACTIVE, READING, Hold, Node, Operation, OperationState, Port
from app.reports import health
from app.reports.wait_causes import AwaitedParty, cause_of
from app.runtime import runtime_of
from app.text.sentences import joined
from drivers.builtin import switch_ports
from drivers.core.errors import FailureCode

#: Most refused lookups in an answer.
MOST_REFUSED = 3
#: Fields of the holds in an answer.
HOLD_FIELDS = (
    "uuid", "created_at", "updated_at", "kind", "owner", "user_id", "user_name", "reason",
    "expires_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """Body of the answer of `/why`."""

    summary: str
    waiting_for: AwaitedParty | None  # None if the node waits for nothing
    held_by: str | None  # name of the conductor in the node's reservation
    since: datetime | None  # entry into the state, or start of the step
    next: str | None  # next action
    next_at: datetime | None  # its latest time, or the time of the next try
    step: str | None = None  # label of the current step
    operation: str | None = None  # UUID
    error: dict[str, Any] | None = None  # of the operation
    verbs: tuple[str, ...] = ()  # verbs that the node accepts now
    refused_verbs: Mapping[str, str] = field(default_factory=dict)  # of its state -> the reason
    admission: dict[str, Any] | None = None  # see `admission.document`
    holds: tuple[dict[str, Any], ...] = ()  # not expired
    agent_log: str | None = None  # path of the agent's log that the operation has kept
    # path of the output of the console during the operation; None: none is kept
    console_history: str | None = None

    def document(self) -> dict[str, Any]:
        return asdict(self)


def explain(
    session: Session,
    node: Node,
    refusals: Sequence[Refusal] = (),
    denial: str | None = None,
    due_rollouts: Sequence[str] = (),
) -> Answer:
    """
    Explain the state of a node.

    refusals: refused lookups of agents since the newest operation started, by this node or unknown
    machines, newest first. denial: reason why the caller may request no verb of the node.
    due_rollouts: descriptions of the rollouts that have not started it.
    """
    node_holds = holds.of_node(session, node)
    reasons = {
        verb: denial or reason for verb, reason in provisioning.refusals(session, node).items()
    }
    verbs = tuple(verb for verb, reason in reasons.items() if reason is None)
    answer = _explained(session, node, refusals, verbs)
    readings = sensors.of_node(session, node.id)
    critical = readings.critical and f"Critical sensors: {readings.critical}"
    return replace(
        answer,
        summary=joined(
            answer.summary,
            *(f"held by a {holds.described(hold)}" for hold in node_holds),
            critical,
            bmc_events.described(session, node.id),
            *compliance.deviations(session, node.id),
            *refreshes.news(session, node),
            *due_rollouts,
        ),
        verbs=verbs,
        refused_verbs={verb: reason for verb, reason in reasons.items() if reason is not None},
        holds=tuple(map(_hold_of, node_holds)),
    )


def _hold_of(hold: Hold) -> dict[str, object]:
    """Return the fields of a hold as lists of holds name them, and its effects."""
    fields = {name: getattr(hold, name) for name in HOLD_FIELDS}
    return fields | {"effects": sorted(EFFECTS[HoldKind(hold.kind)])}


def _explained(
    session: Session, node: Node, refusals: Sequence[Refusal], verbs: Sequence[str]
) -> Answer:
    """Explain the state of a node, without its holds and verbs."""
    recent_operations = operations.of_node(session, node.id)
    active = [operation for operation in recent_operations if operation.state in ACTIVE]
    if active:
        active.sort(
            key=lambda operation: operation.state in (OperationState.WAITING, OperationState.HELD)
        )
        return _active_answer(session, node, active[0], refusals)
    parents = _operation_of_parent(session, node)
    if parents is not None:
        return _reserved_answer(session, node, parents)
    return _idle_answer(session, node, recent_operations, refusals, verbs)


def _idle_answer(
    session: Session,
    node: Node,
    recent_operations: Sequence[Operation],
    refusals: Sequence[Refusal],
    verbs: Sequence[str],
) -> Answer:
    """Explain the state of a node without an operation, by its last ones."""
    state = State(node.provision_state)
    row = MACHINE[state]
    failed_operation = _last_failed(recent_operations)
    last_operation = failed_operation or (recent_operations[0] if recent_operations else None)
    error = failed_operation.error if failed_operation else None
    message = error["message"] if error else node.last_error
    path, output = (
        _kept_output(session, node, failed_operation) if failed_operation else (None, None)
    )
    summary = joined(
        f"Node {_called(node)} is {state}; nothing is under way",
        f"Its last operation, {last_operation.kind}, {last_operation.state}: {message}"
        if last_operation and error
        else message,
        error.get("hint") if error else None,
        f"the agent's log is kept: GET {path}, or `ingot node agent-logs`" if path else None,
        "the console's output of its time: `ingot node console history --operation last`"
        if output
        else None,
        *(refusal.summary() for refusal in refusals[:MOST_REFUSED] if _timed_out(error)),
        *_drifts(session, node),
        _maintenance(node, message),
        f"it is retired: {node.retired_reason or 'no reason given'}" if node.retired else None,
        _service(session),
    )
    return Answer(
        summary,
        AwaitedParty.OPERATOR if row.kind is Kind.FAILED else None,
        node.reservation,
        node.provision_updated_at,
        f"{_one_of(verbs)}, on request" if verbs else "no verb: each one is refused",
        None,
        operation=last_operation.uuid if last_operation else None,
        error=error,
        agent_log=path,
        console_history=output,
    )


def _kept_output(
    session: Session, node: Node, operation: Operation
) -> tuple[str | None, str | None]:
    """Return the paths of the agent's log and of the console's output of an operation, if kept."""
    log = agent_logs.of_operation(session, node, operation.uuid)
    return (
        log and agent_logs.path_of(node.uuid, log),
        console_history.path_of(runtime_of(session), node, operation.uuid),
    )


def _drifts(session: Session, node: Node) -> list[str]:
    """Describe the switch ports that differ from the last orders for them."""
    if node.network_interface != "switch":
        return []
    query = select(Port.address, Port.internal_info).where(Port.node_id == node.id)
    return [
        f"port {address}: {info[switch_ports.DRIFT]}; `ingot node switch-port restore` orders it"
        " again"
        for address, info in session.execute(query.order_by(Port.id))
        if info.get(switch_ports.DRIFT)
    ]


def _called(node: Node) -> str:
    return node.name or node.uuid


def _one_of(verbs: Sequence[str]) -> str:
    return f"one of {', '.join(verbs)}" if len(verbs) > 1 else "".join(verbs)


def _operation_of_parent(session: Session, node: Node) -> Operation | None:
    """Return the operation on the parent node that has a step on this node, if one has."""
    if node.reservation is None or node.operation_id is None:
        return None
    return session.get(Operation, node.operation_id)


def _reserved_answer(session: Session, node: Node, operation: Operation) -> Answer:
    """Explain a child node that is reserved for a step of its parent's operation."""
    step = operations.current_step(session, operation)
    return Answer(
        f"Node {_called(node)} is {node.provision_state}, reserved for step {step.label} of"
        f" {operation.kind} on its parent node {node.parent_node}",
        AwaitedParty.CONDUCTOR,
        node.reservation,
        step.started_at or operation.created_at,
        "the node is released at the end of the step",
        None,
        step.label,
        operation.uuid,
    )


def _last_failed(ended_operations: Sequence[Operation]) -> Operation | None:
    """
    Return the failure to explain.

    That is the newest failed operation that did not only read, unless an operation that moves the
    node has run since. ended_operations: ended operations, newest first.
    """
    for operation in ended_operations:
        if operation.error and operation.kind not in READING:
            return operation
        if operation.moves_node:
            return None
    return None


def _timed_out(error: Mapping[str, object] | None) -> bool:
    return error is not None and error.get("code") == FailureCode.TIMEOUT


def _maintenance(node: Node, message: str | None) -> str | None:
    if not node.maintenance:
        return None
    if message and node.maintenance_reason == message:
        return "it is in maintenance because of that"
    return f"it is in maintenance: {node.maintenance_reason or 'no reason given'}"


def _service(session: Session) -> str | None:
    """Describe a problem of the whole service, if there is one."""
    runtime = runtime_of(session)
    if conductors.alive(session, runtime.settings.conductor.heartbeat_timeout):
        return None
    if problem := health.write_problem(runtime):
        return f"the database {problem}: all work stops until it takes writes"
    timeout = runtime.settings.conductor.heartbeat_timeout
    if impeded := conductors.impeded(session, timeout):
        reasons = ", ".join(f"{name}: {reason}" for name, reason in impeded)
        return f"no conductor can do new work ({reasons})"
    if drained := conductors.drained(session, timeout):
        return "no conductor takes work: " + ", ".join(conductor.summary() for conductor in drained)
    return "no conductor is alive: all work stops until one is started"


def _active_answer(
    session: Session,
    node: Node,
    operation: Operation,
    refusals: Sequence[Refusal],
) -> Answer:
    step = operations.current_step(session, operation)
    later_rows = [
        row for row in operations.pending(session, operation) if row.position > step.position
    ]
    next_event = f"step {later_rows[0].label}" if later_rows else _end_of(node, operation)
    if step.abort_after:
        next_event = "the operation is aborted"
    cause = cause_of(session, node, operation, step)
    state = State(node.provision_state)
    aim = _aim_of(node)
    direction = f" on its way to {aim}" if aim else ""
    about_agent: list[str] = []
    if cause.party is AwaitedParty.AGENT:
        about_agent = [
            *timeouts.last_error(step),
            *agent_waits.facts(session, node, operation),
            *(refusal.summary() for refusal in refusals[:MOST_REFUSED]),
        ]
    summary = joined(
        f"Node {_called(node)} is {state}{direction}, in step {step.label} of {operation.kind}:"
        f" {cause.reason}",
        *about_agent,
        "an abort is requested, and follows this step, which must not be interrupted"
        if step.abort_after
        else None,
        f"it has failed: {operation.error['message']}" if operation.error else None,
        _service(session),
    )
    return Answer(
        summary,
        cause.party,
        node.reservation,
        step.started_at or operation.created_at,
        next_event,
        cause.until,
        step.label,
        operation.uuid,
        operation.error,
        admission=admission.document(session, operation),
    )


def _end_of(node: Node, operation: Operation) -> str:
    if not operation.moves_node:
        return "the operation ends"
    row = MACHINE[State(node.provision_state)]
    if operation.error or row.kind is Kind.FAILED:
        return "the operation ends"
    return f"the node becomes {_aim_of(node)}"


def _aim_of(node: Node) -> str | None:
    """Return the state that the node's flow leads to: no retired node becomes available."""
    target = node.target_provision_state
    return State.MANAGEABLE if node.retired and target == State.AVAILABLE else target
