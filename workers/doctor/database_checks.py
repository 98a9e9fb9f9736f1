"""
Checks of database rows: each function finds, or repairs, one kind of inconsistency.
"""

import itertools
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from sqlalchemy import Table, and_, delete, exists, func, select, update
from sqlalchemy.orm import Session

from app.cluster import conductors, periodic_passes
from app.db.clock import age
from app.db.transactions import connection_of
from app.engine import operation_end, operations
from app.events import notification_events
from app.lifecycle import failures
from app.lifecycle.operation_states import Actor, OperationEvent, StepEvent, step_transition
from app.lifecycle.provision_states import Kind, of_kind
from app.models import (
    ACTIVE,
    BESIDE,
    Conductor,
    EventSubscription,
    Fault,
    Node,
    NotificationCursor,
    Operation,
)
from app.models.base import Base
from app.reports import stalled_operations
from app.text.sentences import counted, enumerated
from drivers.core.errors import FailureCode
from workers.doctor.checks import Finding, Installation
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact
from workers.periodic.sole_subscriber import MAX_RETRY_INTERVAL
from workers.restoration import restore

#: Most nodes of a finding that are named.
MOST_NODES = 5
TRANSIENT = of_kind(Kind.BUSY, Kind.WAIT, Kind.HOLD)
_has_operation = exists().where(
    Operation.node_id == Node.id,
    Operation.state.in_(ACTIVE),
    Operation.kind.not_in(BESIDE),
)


def reservations(installation: Installation) -> Iterator[Finding]:
    """Find reserved nodes without an active operation."""
    holder = exists().where(Operation.id == Node.operation_id, Operation.state.in_(ACTIVE))
    query = select(Node.id, Node.uuid, Node.reservation).where(
        Node.reservation.is_not(None), ~holder
    )
    with installation.runtime.reading() as session:
        for key, uuid, reservation in session.execute(query):
            yield Finding(
                f"node {uuid}",
                f"it is reserved for {reservation} without an active operation, so it is blocked",
                key,
            )


def release(installation: Installation, finding: Finding) -> None:
    """Release the reservation, with a new fence."""
    with installation.runtime.transaction(Actor.COMMAND) as session:
        node = operations.lock(session, finding.key)
        holder = node.operation_id and session.get(Operation, node.operation_id)
        if node.reservation is None or (holder and holder.state in ACTIVE):
            return
        node.fence += 1
        node.reservation = node.operation_id = None


def stuck(installation: Installation) -> Iterator[Finding]:
    """Find nodes in a busy, wait or hold state without an active operation."""
    query = select(Node.id, Node.uuid, Node.provision_state).where(
        Node.provision_state.in_(TRANSIENT), ~_has_operation
    )
    with installation.runtime.reading() as session:
        for key, uuid, state in session.execute(query):
            yield Finding(f"node {uuid}", f"it is {state} without an active operation", key)


def enter_failed(installation: Installation, finding: Finding) -> None:
    """Move the node to the failed state of its flow, with a new fence."""
    with installation.runtime.transaction(Actor.COMMAND) as session:
        node = operations.lock(session, finding.key)
        if session.scalar(select(Node.id).where(Node.id == node.id, _has_operation)) is not None:
            return
        reason = f"The node was {node.provision_state} without an active operation"
        node.fence += 1
        restore.enter_failed(session, node, "conductor", reason)


def inconsistent(installation: Installation) -> Iterator[Finding]:
    """Find active operations of a flow whose node is in a state without an operation."""
    query = (
        select(Operation.id, Operation.uuid, Operation.kind, Node.uuid, Node.provision_state)
        .join(Node, Node.id == Operation.node_id)
        .where(*_inconsistent())
    )
    with installation.runtime.reading() as session:
        for key, uuid, kind, node, state in session.execute(query):
            yield Finding(
                f"operation {uuid}",
                f"its kind is {kind}, but its node {node} is {state}: the state was changed from"
                " outside",
                key,
            )


def _inconsistent() -> tuple[Any, ...]:
    return (
        Operation.state.in_(ACTIVE),
        Operation.kind.not_in(BESIDE),
        Operation.aborting.is_(False),
        Node.provision_state.not_in(TRANSIENT),
    )


def fail(installation: Installation, finding: Finding) -> None:
    """Fail the operation, and release its node."""
    with installation.runtime.transaction(Actor.COMMAND) as session:
        node, operation = operations.lock_operation(session, finding.key)
        inconsistent_ids = select(Operation.id).join(Node, Node.id == Operation.node_id)
        if (
            session.scalar(inconsistent_ids.where(Operation.id == operation.id, *_inconsistent()))
            is None
        ):
            return
        for row in operations.pending(session, operation):
            step_transition(row, StepEvent.SKIP)
        reason = f"The node was {node.provision_state}, a state without an operation"
        operation.error = failures.describe(FailureCode.INCONSISTENT, reason) | {
            "step": None,
            "retryable": False,
        }
        operation_end.end(session, node, operation, OperationEvent.REPAIR)
        node.fence += 1
        if node.operation_id == operation.id:
            node.reservation = node.operation_id = None


def stalled(installation: Installation) -> Iterator[Finding]:
    """Find operations that the reconciler should have dispatched."""
    with installation.runtime.reading() as session:
        living = conductors.living_incarnations(session, installation.grace)
        timeout = installation.runtime.settings.conductor.heartbeat_timeout
        service = _service(session, len(conductors.alive(session, timeout)))
        query = (
            select(Operation.id, Operation.uuid, Operation.kind, Operation.state, Node.uuid)
            .join(Node, Node.id == Operation.node_id)
            .where(stalled_operations.condition(living, installation.grace))
        )
        for key, uuid, kind, state, node in session.execute(query):
            yield Finding(
                f"operation {uuid}",
                f"{kind} of node {node} is {state}, and no conductor drives it; {service}",
                key,
            )


def _service(session: Session, living_count: int) -> str:
    """Describe the processes that should have driven an operation."""
    leads = conductors.beat_leads(session)
    beat = "a beat leads" if leads else "no beat leads: start `ingot beat`"
    return f"{living_count or 'no'} conductors are alive, {beat}"


def reconcile(installation: Installation, _finding: Finding) -> None:
    """Run one pass of the reconciler, which dispatches all stalled operations."""
    reconciler.reconcile(installation.runtime, Contact(timeout=0))


def beat(installation: Installation) -> Iterator[Finding]:
    """Find a service without a leading beat, which therefore runs no periodic task."""
    timeout = installation.runtime.settings.conductor.heartbeat_timeout
    with installation.runtime.reading() as session:
        has_leader = any(
            of_kind(session, timeout)
            for of_kind in (conductors.alive, conductors.impeded, conductors.drained)
        )
        if has_leader and not conductors.beat_leads(session):
            yield Finding(
                "beat",
                "conductors are running, but no beat leads: no reconciler and no power sync runs;"
                " start `ingot beat`, which leads while it reaches the database and the broker",
            )


def lost(installation: Installation) -> Iterator[Finding]:
    """Find dead conductors, and a service without any live conductor."""
    timeout = installation.runtime.settings.conductor.heartbeat_timeout
    with installation.runtime.reading() as session:
        dead = conductors.lost(session, timeout)
        living = conductors.alive(session, timeout)
        impeded = conductors.impeded(session, timeout)
        drained = conductors.drained(session, timeout)
        has_leader = dead or conductors.beat_leads(session)
    if has_leader and not living and not impeded and drained:
        yield Finding("conductors", f"no conductor takes work: {drained[0].summary()}")
    elif has_leader and not living and not impeded:
        yield Finding(
            "conductors",
            "no conductor is alive: active operations do not continue, and new ones wait; start"
            " `ingot conductor`",
        )
    takeover = "its work was taken over" if living else "no other conductor takes over its work"
    for name, _incarnation, silence in dead:
        yield Finding(
            f"conductor {name}",
            f"its last heartbeat is {silence:.0f} s old, and it was not stopped; {takeover}. Read"
            " its log and start it again; one that is removed for good is deleted after"
            " [conductor]conductor_cleanup_timeout",
        )


def impeded(installation: Installation) -> Iterator[Finding]:
    """Find conductors that are running, and can do no new work."""
    timeout = installation.runtime.settings.conductor.heartbeat_timeout
    with installation.runtime.reading() as session:
        for name, reason in conductors.impeded(session, timeout):
            yield Finding(f"conductor {name}", f"it takes no new work: {reason}")


def late_passes(installation: Installation) -> Iterator[Finding]:
    """Find periodic tasks that complete no pass, although a beat leads."""
    timeout = installation.runtime.settings.conductor.heartbeat_timeout
    with installation.runtime.reading() as session:
        if not conductors.beat_leads(session) or not conductors.alive(session, timeout):
            return
        for task_pass in periodic_passes.passes(connection_of(session), timeout):
            if task_pass.is_late:
                place = f" on conductor {task_pass.conductor}" if task_pass.conductor else ""
                yield Finding(
                    f"task {task_pass.task}{place}",
                    f"it has not completed for {task_pass.seconds:.0f} s, and should within"
                    f" {task_pass.bound:.0f}: {task_pass.without}. The logs of the conductors say"
                    " why (`task.postponed`); without a line, restart them",
                )


def unserved(installation: Installation) -> Iterator[Finding]:
    """Find nodes whose driver no live conductor of their group has loaded."""
    timeout = installation.runtime.settings.conductor.heartbeat_timeout
    with installation.runtime.reading() as session:
        living = conductors.alive(session, timeout)
        if not living:
            return
        for share in conductors.shares(session, living):
            if share.members:
                continue
            group = share.group
            group_name = f"conductor group {group!r}" if group else "the default conductor group"
            yield Finding(
                f"driver {share.driver}",
                f"no live conductor of {group_name} has loaded it:"
                f" {counted(share.nodes, 'node')} cannot be managed; see"
                " `ingot conductor list` and [DEFAULT]enabled_hardware_types",
            )


def unchecked(installation: Installation) -> Iterator[Finding]:
    """Find nodes with fault `restored`: not yet compared with their machines after a restore."""
    query = select(Node.uuid, Node.provision_state).where(Node.fault == Fault.RESTORED)
    with installation.runtime.reading() as session:
        for uuid, state in session.execute(query):
            yield Finding(
                f"node {uuid}",
                f"the database, in which it is {state}, was restored from a backup: compare the"
                " machine, correct the node, then end its maintenance",
            )


def orphans(installation: Installation) -> Iterator[Finding]:
    """Find rows with a reference to a missing row, such as the history of a missing node."""
    with installation.runtime.reading() as session:
        for table, column, is_dangling in REFERENCES:
            count = session.scalar(select(func.count()).select_from(table).where(is_dangling))
            if count:
                yield Finding(
                    f"{table.name}.{column.name}",
                    f"{count} rows refer to {column.name.removesuffix('_id')}s that do not exist",
                    (table, column, is_dangling),
                )


def _references() -> Iterator[tuple[Table, Any, Any]]:
    """Yield the table and column of every foreign key, and the condition of a missing target."""
    for table in reversed(Base.metadata.sorted_tables):  # referring tables first
        for key in sorted(table.foreign_keys, key=lambda key: key.parent.name):
            target = key.column.table.alias()
            has_target = exists().where(target.c[key.column.name] == key.parent)
            yield table, key.parent, and_(key.parent.is_not(None), ~has_target)


REFERENCES = tuple(_references())


def delete_orphans(installation: Installation, finding: Finding) -> None:
    """Clear the references if their column may be null; else delete the rows."""
    table, column, is_dangling = finding.key
    change = update(table).values({column: None}) if column.nullable else delete(table)
    with installation.runtime.transaction(Actor.COMMAND) as session:
        session.execute(change.where(is_dangling), execution_options={"synchronize_session": False})


def future_heartbeats(installation: Installation) -> Iterator[Finding]:
    """Find heartbeats in the future: the database's clock was set back."""
    query = select(Conductor.hostname, age(Conductor.heartbeat_at)).where(
        age(Conductor.heartbeat_at) < -1
    )
    with installation.runtime.reading() as session:
        for name, seconds in session.execute(query):
            yield Finding(
                f"conductor {name}",
                f"its last heartbeat is {-float(seconds):.0f} s in the future: the clock of the"
                " database was set back; until then it counts as alive even if it is dead",
            )


def refused_subscriptions(installation: Installation) -> Iterator[Finding]:
    """Find BMCs that send no events because they refuse a subscription, by the reason."""
    if installation.runtime.settings.redfish.event_receiver_url is None:
        return
    query = (
        select(Node.uuid, EventSubscription.error)
        .join(Node, Node.id == EventSubscription.node_id)
        .where(EventSubscription.subscribed_at.is_(None), EventSubscription.error.is_not(None))
        .order_by(EventSubscription.error, Node.uuid)
    )
    with installation.runtime.reading() as session:
        rows = session.execute(query).all()
    for error, group in itertools.groupby(rows, attrgetter("error")):
        nodes = [row.uuid for row in group]
        yield Finding(
            f"node {enumerated(nodes, MOST_NODES)}",
            f"no subscription to events: {error}. Sweeps alone see changes of"
            f" {counted(len(nodes), 'node')}; see docs/redfish-events.md",
        )


def late_notifications(installation: Installation) -> Iterator[Finding]:
    """Find notifications that RabbitMQ does not accept, or that no conductor sends."""
    settings = installation.runtime.settings
    with installation.runtime.reading() as session:
        waiting = notification_events.waiting(session)
    if waiting is None or not settings.default.notification_level:
        return
    usual = installation.grace + MAX_RETRY_INTERVAL
    if waiting.events and (waiting.last_error or waiting.seconds > usual):
        yield Finding(
            "notifications",
            f"{waiting}. They are sent when RabbitMQ accepts them, but events are deleted after"
            " [conductor]change_events_lifetime: see [oslo_messaging_notifications]transport_url",
        )


def ended_notifications(installation: Installation) -> Iterator[Finding]:
    """Find the place of notifications in the events, although they are off."""
    with installation.runtime.reading() as session:
        waiting = notification_events.waiting(session)
    if waiting is not None and not installation.runtime.settings.default.notification_level:
        yield Finding(
            "notifications",
            f"they are off, and {waiting}. With [DEFAULT]notification_level they continue there;"
            " the repair forgets the place, so that events no longer keep the fields of nodes",
        )


def forget_notifications(installation: Installation, finding: Finding) -> None:
    with installation.runtime.transaction(Actor.COMMAND) as session:
        session.execute(delete(NotificationCursor))
