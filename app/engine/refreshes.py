"""
Refreshes: the recorded facts of a machine are read again by its BMC, and compared with the record.

A refresh changes nothing but the record: it gives no order to the machine, the node stays in its
state, and no inspection hook or rule runs. Each part of the facts is a step, recorded in one
transaction with its changes, so that a process that dies records a part once or not at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.cluster.conductors import require_served
from app.db.clock import moment
from app.engine import dispatch
from app.errors import Conflict, Invalid, NotFound
from app.hardware import targets
from app.identity.caller import Caller
from app.inventory import hardware_inventory, history, nodes, recorded_facts
from app.inventory.recorded_facts import Facts
from app.lifecycle.provision_states import MACHINE, Kind, State
from app.models import (
    Node,
    NodeInventory,
    NodeRefresh,
    Operation,
    OperationKind,
    OperationState,
    OperationStep,
    PartState,
)
from app.planning import plan_rows
from app.planning.plan_rows import Rows
from app.runtime import runtime_of
from app.text.sentences import counted, enumerated
from drivers.core.driver import interfaces_of
from drivers.core.errors import HardwareError, NotSupported
from drivers.core.steps import Done, Outcome

#: Target of a rollout, and type of the entries in the history of a node.
REFRESH = OperationKind.REFRESH.value
#: Most changes that are kept of a refresh, and most in a sentence.
MOST_CHANGES, MOST_NAMED = 200, 5


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the recorded facts, and the method of an interface that reads it."""

    name: str  # of the report of drivers
    interface: str
    method: str
    words: str
    facts: Callable[[Session, int], Facts]


INVENTORY = Part(
    "inventory", "management", "read_inventory", "inventory", recorded_facts.of_inventory
)
#: In the order of their steps.
PARTS = (
    Part("bios_settings", "bios", "cache_bios_settings", "BIOS settings", recorded_facts.of_bios),
    Part(
        "firmware", "firmware", "cache_firmware_components", "firmware versions",
        recorded_facts.of_firmware,
    ),
    INVENTORY,
)  # fmt: skip
_BY_METHOD = {(part.interface, part.method): part for part in PARTS}
_WORDS = {part.name: part.words for part in PARTS}


def check(session: Session, node: Node) -> Rows:
    """
    Check whether a node may be refreshed now, and return the steps, without writing.

    Holds refuse no refresh: the machine stays as it is.

    Raises Conflict, NodeLocked, Unavailable. Raises Invalid: nothing of it can be read.
    """
    if MACHINE[State(node.provision_state)].kind in (Kind.BUSY, Kind.WAIT):
        raise Conflict(
            f"Node {node.uuid} cannot be refreshed while a state transition is in progress: it is"
            f' in state "{node.provision_state}".'
        )
    nodes.check_unlocked(node)
    require_served(session, node)
    runtime = runtime_of(session)
    parts = [
        part
        for part in PARTS
        if part is not INVENTORY or runtime.settings.inventory.data_backend == "database"
    ]
    try:
        target = targets.of_node(session, node)
        driver = interfaces_of(target)
        readable = [part for part in parts if driver.by_kind[part.interface].has(part.method)]
        for part in readable:
            driver.validate(part.interface, target)
    except HardwareError as error:
        raise Invalid(str(error)) from error
    if not readable:
        reasons = [
            f"{part.words} by {part.interface} interface {driver.by_kind[part.interface].name}"
            for part in parts
        ]
        raise Invalid(f"Node {node.uuid} cannot be read out of band: no {', no '.join(reasons)}.")
    return [plan_rows.of_frame(runtime, part.interface, part.method) for part in readable]


def request(session: Session, node: Node, caller: Caller) -> Operation:
    """
    Refresh a node, and return the operation. The caller has locked the node's row.

    Raises the errors of `check`.
    """
    rows = check(session, node)
    history.record_request(session, node, REFRESH, "A refresh was requested.", caller)
    return dispatch.start(session, node, OperationKind.REFRESH, rows, {}, caller)


def refuse_order() -> None:
    """Refuse an order to the machine of a refresh (`Target.before_order`). Raises NotSupported."""
    raise NotSupported("a refresh gives no orders to the machine")


@dataclass(frozen=True, slots=True)
class Reading:
    """Report of a step of a refresh, before it is recorded."""

    part: Part
    reports: Mapping[str, Any]  # that of the part alone, or none
    recorded: Facts  # the facts as recorded before
    reason: str | None  # reason for which some of the facts, or all, stay as recorded


def reading_of(
    session: Session,
    node: Node,
    operation: Operation,
    step: OperationStep,
    reports: Mapping[str, Any],
) -> Reading | None:
    """Return what a step has reported if it is one of a refresh; None for all other steps."""
    if operation.kind != OperationKind.REFRESH:
        return None
    part = _BY_METHOD[step.interface, step.name]
    part_reports = {name: value for name, value in reports.items() if name == part.name}
    reason = None
    if part is INVENTORY and part_reports:
        row, reading = session.get(NodeInventory, node.id), part_reports[part.name]
        lost_paths = hardware_inventory.lost_documents(row, reading)
        recorded_inventory = hardware_inventory.of_bmc(row)
        _, kept_names = hardware_inventory.merge(recorded_inventory, reading.inventory)
        if lost_paths:
            part_reports = {}
            paths = enumerated(lost_paths, MOST_NAMED)
            reason = f"the BMC did not return {paths}, as it did before"
        elif kept_names:
            names = enumerated(kept_names, MOST_NAMED)
            reason = f"not shown by the BMC now, and kept as recorded: {names}"
    return Reading(part, part_reports, part.facts(session, node.id), reason)


def record(
    session: Session, node: Node, operation: Operation, reading: Reading, outcome: Outcome
) -> Outcome:
    """
    Record the changes of a part whose report is written; return the outcome with them.

    A step that has failed or waits is recorded as such.
    """
    if not isinstance(outcome, Done):
        return outcome
    part, state, changes = reading.part, PartState.UNREAD, list[dict[str, Any]]()
    reason = reading.reason
    if reading.reports:
        session.flush()
        state = PartState.FIRST if reading.recorded is None else PartState.COMPARED
        if reading.recorded is not None:
            facts = part.facts(session, node.id) or {}
            changes = recorded_facts.changes(reading.recorded, facts)
    else:
        reason = reason or str(outcome.result.get("skipped") or "the driver has reported none")
    reason = reason and recorded_facts.text(reason)
    row = _row_of(session, node, operation)
    row.read_at = moment(session)
    row.parts = {**row.parts, part.name: {"state": state, "reason": reason}}
    row.changed += len(changes)
    row.changes = [*row.changes, *changes][:MOST_CHANGES]
    if changes:
        event = f"A refresh has found changes: {_described(changes, len(changes))}."
        history.add(session, node, REFRESH, event, "WARNING", user=operation.requested_by)
    result = {
        "part": part.name, "state": state, "reason": reason, "changed": len(changes),
        "changes": changes[:MOST_CHANGES],
    }  # fmt: skip
    return Done(result)


def find(session: Session, node: Node) -> NodeRefresh:
    """Return what the last refresh has found. Raises NotFound: there was none."""
    row = session.get(NodeRefresh, node.id)
    if row is None:
        raise NotFound("refresh of node", node.uuid)
    return row


def news(session: Session, node: Node) -> list[str]:
    """Tell what is to be known of the last refresh of a node, a phrase for each fact."""
    phrases = []
    row = session.get(NodeRefresh, node.id)
    if row is not None and row.changed:
        count = counted(row.changed, "changed fact")
        description = _described(row.changes, row.changed)
        time = row.read_at.isoformat(timespec="seconds")
        phrases.append(f"its refresh at {time}Z found {count}: {description}")
    for name, part in (row.parts if row else {}).items():
        if part["reason"]:
            phrases.append(f"its refresh: {_WORDS.get(name, name)}: {part['reason']}")
    query = select(Operation).where(
        Operation.node_id == node.id, Operation.kind == OperationKind.REFRESH
    )
    operation = session.scalar(query.order_by(Operation.id.desc()).limit(1))
    if operation is not None and operation.state == OperationState.FAILED:
        phrases.append(f"its last refresh failed: {(operation.error or {}).get('message')}")
    return phrases


def _row_of(session: Session, node: Node, operation: Operation) -> NodeRefresh:
    """Return the row of a node for an operation, without the results of an earlier one."""
    row = session.get(NodeRefresh, node.id)
    if row is None:
        row = NodeRefresh(node_id=node.id)
        session.add(row)
    if row.operation_uuid != operation.uuid:
        row.operation_uuid, row.parts, row.changed, row.changes = operation.uuid, {}, 0, []
    return row


def _described(changes: Sequence[Mapping[str, Any]], count: int) -> str:
    phrases = [
        f"{change['fact']} {_value(change['before'])} -> {_value(change['after'])}"
        for change in changes[:MOST_NAMED]
    ]
    return enumerated(phrases, MOST_NAMED, separator="; ", total=count)


def _value(value: str | None) -> str:
    return "none" if value is None else value
