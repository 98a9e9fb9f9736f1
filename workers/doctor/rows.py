"""
What can be wrong with rows: each function finds, or repairs, one kind of it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Table, and_, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from app.db import age
from app.models import ACTIVE, BESIDE, Conductor, Fault, Node, Operation, OperationState, StepState
from app.models.base import Base
from app.ring import owner
from app.services import conductors, faults, operations, outcomes, restoration
from app.states import Kind, of_kind
from drivers.core.errors import FailureCode
from workers import reconciler
from workers.doctor.checks import Finding, Patient

TRANSIENT = of_kind(Kind.BUSY, Kind.WAIT, Kind.HOLD)
_at_work = exists().where(
    Operation.node_id == Node.id,
    Operation.state.in_(ACTIVE),
    Operation.kind.not_in(BESIDE),
)


def reservations(patient: Patient) -> Iterator[Finding]:
    """Reserved, and the operation for it is over, or there never was one."""
    holder = exists().where(Operation.id == Node.operation_id, Operation.state.in_(ACTIVE))
    query = select(Node.id, Node.uuid, Node.reservation).where(
        Node.reservation.is_not(None), ~holder
    )
    with patient.runtime.reading() as session:
        for key, uuid, reservation in session.execute(query):
            yield Finding(
                f"node {uuid}",
                f"it is reserved for {reservation} by no operation, so that nobody can use it",
                key,
            )


def free(patient: Patient, finding: Finding) -> None:
    with patient.runtime.transaction() as session:
        node = operations.lock(session, finding.key)
        holder = node.operation_id and session.get(Operation, node.operation_id)
        if node.reservation is None or (holder and holder.state in ACTIVE):
            return
        node.fence += 1
        node.reservation = node.operation_id = None


def transient(patient: Patient) -> Iterator[Finding]:
    """Somebody should be acting, and there is nobody."""
    query = select(Node.id, Node.uuid, Node.provision_state).where(
        Node.provision_state.in_(TRANSIENT), ~_at_work
    )
    with patient.runtime.reading() as session:
        for key, uuid, state in session.execute(query):
            yield Finding(f"node {uuid}", f"it is {state}, and no operation is at work on it", key)


def enter_failed(patient: Patient, finding: Finding) -> None:
    with patient.runtime.transaction() as session:
        node = operations.lock(session, finding.key)
        if session.scalar(select(Node.id).where(Node.id == node.id, _at_work)) is not None:
            return
        reason = f"The node was {node.provision_state}, and no operation was at work on it"
        node.fence += 1
        restoration.enter_failed(session, node, "conductor", reason)


def misfits(patient: Patient) -> Iterator[Finding]:
    """Operations that would move their node, which is in a state where nothing is going on."""
    query = (
        select(Operation.id, Operation.uuid, Operation.kind, Node.uuid, Node.provision_state)
        .join(Node, Node.id == Operation.node_id)
        .where(*_misfit())
    )
    with patient.runtime.reading() as session:
        for key, uuid, kind, node, state in session.execute(query):
            yield Finding(
                f"operation {uuid}",
                f"it is to {kind} node {node}, which is {state}: somebody changed that state",
                key,
            )


def _misfit() -> tuple[Any, ...]:
    return (
        Operation.state.in_(ACTIVE),
        Operation.kind.not_in(BESIDE),
        Operation.aborting.is_(False),
        Node.provision_state.not_in(TRANSIENT),
    )


def give_up(patient: Patient, finding: Finding) -> None:
    with patient.runtime.transaction() as session:
        node, operation = operations.lock_operation(session, finding.key)
        still = select(Operation.id).join(Node, Node.id == Operation.node_id)
        if session.scalar(still.where(Operation.id == operation.id, *_misfit())) is None:
            return
        for row in operations.pending(session, operation):
            row.state = StepState.SKIPPED
        reason = f"The node was {node.provision_state}, a state in which nothing is going on"
        operation.error = faults.described(FailureCode.INCONSISTENT, reason) | {
            "step": None,
            "retryable": False,
        }
        outcomes.end(session, node, operation, OperationState.FAILED)
        node.fence += 1
        if node.operation_id == operation.id:
            node.reservation = node.operation_id = None


def undriven(patient: Patient) -> Iterator[Finding]:
    """The reconciler should have driven them, and has not."""
    with patient.runtime.reading() as session:
        living = conductors.living(session, patient.patience)
        alive = conductors.alive(session, patient.runtime.settings.conductor.heartbeat_timeout)
        who = _who_works(session, len(alive))
        query = (
            select(Operation.id, Operation.uuid, Operation.kind, Operation.state, Node.uuid)
            .join(Node, Node.id == Operation.node_id)
            .where(_late(living, patient.patience))
        )
        for key, uuid, kind, state, node in session.execute(query):
            yield Finding(
                f"operation {uuid}",
                f"{kind} of node {node} is {state}, and nobody drives it; {who}",
                key,
            )


def _who_works(session: Session, alive: int) -> str:
    leads = conductors.beat_leads(session)
    clock = "a beat leads" if leads else "no beat leads: start `ingot beat`"
    return f"{alive or 'no'} conductors are alive, {clock}"


def _late(living: Iterable[str], patience: float) -> Any:
    state = Operation.state
    return or_(
        and_(
            state == OperationState.RUNNING,
            or_(Operation.claimed_by.not_in(living), age(Operation.deadline_at) > patience),
        ),
        and_(
            state == OperationState.QUEUED,
            Operation.admitted_at.is_not(None),
            or_(Operation.sent_to.is_(None), Operation.sent_to.not_in(living)),
            or_(
                age(Operation.sent_at) > patience,
                and_(Operation.sent_at.is_(None), age(Operation.created_at) > patience),
            ),
        ),
        and_(
            state == OperationState.WAITING,
            or_(
                age(Operation.wake_at) > patience,
                and_(age(Operation.deadline_at) > patience, Node.maintenance.is_(False)),
            ),
            or_(Node.reservation.is_(None), Node.operation_id == Operation.id),
        ),
    )


def drive(patient: Patient, _finding: Finding) -> None:
    """A pass of the reconciler, which sees to all of them."""
    reconciler.reconcile(patient.runtime, reconciler.Contact(timeout=0))


def beat(patient: Patient) -> Iterator[Finding]:
    """Conductors without a clock: nothing periodic is done."""
    with patient.runtime.reading() as session:
        alive = conductors.alive(session, patient.runtime.settings.conductor.heartbeat_timeout)
        if alive and not conductors.beat_leads(session):
            yield Finding(
                "beat",
                "conductors are alive, but no beat leads: lost work is not found, and power states"
                " are not read; start `ingot beat`",
            )


def lost(patient: Patient) -> Iterator[Finding]:
    """Conductors that died, and a service without any."""
    timeout = patient.runtime.settings.conductor.heartbeat_timeout
    with patient.runtime.reading() as session:
        dead = conductors.lost(session, timeout)
        alive = conductors.alive(session, timeout)
        running = dead or conductors.beat_leads(session)
    if running and not alive:
        yield Finding(
            "conductors",
            "no conductor is alive: what is under way stands still, and what is asked for waits;"
            " start `ingot conductor`",
        )
    taken = "its work was taken over" if alive else "no other conductor takes over its work"
    for name, _incarnation, silent in dead:
        yield Finding(
            f"conductor {name}",
            f"it has given no sign of life for {silent:.0f} s and did not leave; {taken}. Look at"
            " its log and start it again; one that is gone for good is forgotten after"
            " [conductor]conductor_cleanup_timeout",
        )


def unserved(patient: Patient) -> Iterator[Finding]:
    """Nodes whose driver no live conductor of their group has loaded."""
    timeout = patient.runtime.settings.conductor.heartbeat_timeout
    with patient.runtime.reading() as session:
        alive = conductors.alive(session, timeout)
        if not alive:
            return
        for driver, group in session.execute(select(Node.driver, Node.conductor_group).distinct()):
            if owner("", driver, group, alive) is not None:
                continue
            whose = Node.driver == driver, Node.conductor_group == group
            count = session.scalar(select(func.count()).select_from(Node).where(*whose))
            where = f"conductor group {group!r}" if group else "the default conductor group"
            yield Finding(
                f"driver {driver}",
                f"no live conductor of {where} has loaded it: nothing can be done to {count} nodes;"
                " see `ingot conductor list` and [DEFAULT]enabled_hardware_types",
            )


def unchecked(patient: Patient) -> Iterator[Finding]:
    """Nodes that nobody has compared with their machines since a backup was restored."""
    query = select(Node.uuid, Node.provision_state).where(Node.fault == Fault.RESTORED)
    with patient.runtime.reading() as session:
        for uuid, state in session.execute(query):
            yield Finding(
                f"node {uuid}",
                f"the database, in which it is {state}, was restored from a backup: compare the"
                " machine, correct the node, then end its maintenance",
            )


def orphans(patient: Patient) -> Iterator[Finding]:
    """Rows that refer to a row that is not there, as agents and history of a node that is gone."""
    with patient.runtime.reading() as session:
        for table, column, missing in REFERENCES:
            count = session.scalar(select(func.count()).select_from(table).where(missing))
            if count:
                yield Finding(
                    f"{table.name}.{column.name}",
                    f"{count} rows refer to {column.name.removesuffix('_id')}s that do not exist",
                    (table, column, missing),
                )


def _references() -> Iterator[tuple[Table, Any, Any]]:
    """Every reference: its table, its column, and the condition that it leads nowhere."""
    for table in reversed(Base.metadata.sorted_tables):  # what refers before what is referred to
        for key in sorted(table.foreign_keys, key=lambda key: key.parent.name):
            there = key.column.table.alias()
            found = exists().where(there.c[key.column.name] == key.parent)
            yield table, key.parent, and_(key.parent.is_not(None), ~found)


REFERENCES = tuple(_references())


def delete_orphans(patient: Patient, finding: Finding) -> None:
    table, column, missing = finding.key
    change = update(table).values({column: None}) if column.nullable else delete(table)
    with patient.runtime.transaction() as session:
        session.execute(change.where(missing), execution_options={"synchronize_session": False})


def signs_of_life(patient: Patient) -> Iterator[Finding]:
    """Signs of life from the future: the database's clock was set back."""
    query = select(Conductor.hostname, age(Conductor.heartbeat_at)).where(
        age(Conductor.heartbeat_at) < -1
    )
    with patient.runtime.reading() as session:
        for name, seconds in session.execute(query):
            yield Finding(
                f"conductor {name}",
                f"its last sign of life lies {-float(seconds):.0f} s in the future: the clock of"
                " the database was set back; until then it counts as alive, dead or not",
            )
