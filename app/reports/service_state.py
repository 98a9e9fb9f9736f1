"""State of the service: its parts, its conductors with their load, the ring, takeovers."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session

from app.cluster import conductors, periodic_passes
from app.cluster.hash_ring import Member
from app.db.clock import age
from app.db.transactions import connection_of
from app.errors import Unavailable
from app.events import notification_events
from app.models import ACTIVE, Conductor, Node, Operation, OperationState, OperationStep
from app.models.operation import TAKEN_OVER
from app.reports import fleet_counts, health
from app.reports.health import OK, Part
from app.requests.request_slots import yielding_slot
from app.runtime import Runtime, runtime_of

Document = dict[str, Any]

#: Newest operations whose takeovers are listed, and most takeovers in the list.
RECENT, TAKEOVERS = 2_000, 50
_ADMITTED = and_(Operation.state.in_(ACTIVE), Operation.admitted_at.is_not(None))


def describe(session: Session) -> Document:
    """Describe the state of the service in documents."""
    runtime = runtime_of(session)
    live_conductors = conductors.alive(session, runtime.settings.conductor.heartbeat_timeout)
    ring = conductors.shares(session, live_conductors)
    broker, messages = _queues(runtime, live_conductors)
    parts = [*health.examine(session), broker, *_notifications(session)]
    return {
        "parts": [
            {"part": part.part, "healthy": part.is_healthy, "reason": part.reason,
             "details": part.details}
            for part in parts
        ],
        "conductors": _conductors(session, live_conductors, ring, messages),
        "ring": [
            {"driver": share.driver, "conductor_group": share.group, "nodes": share.nodes,
             "conductors": [member.name for member in share.members]}
            for share in ring
        ],
        "periodic_tasks": _periodic_tasks(session),
        "takeovers": _takeovers(session),
    }  # fmt: skip


def _periodic_tasks(session: Session) -> list[Document]:
    """Describe the last completed passes of the periodic tasks."""
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    return [
        {
            "task": entry.task, "conductor": entry.conductor or None, "healthy": not entry.is_late,
            "completed_seconds": round(entry.seconds, 1), "bound_seconds": round(entry.bound, 1),
            "without": entry.without,
        }
        for entry in periodic_passes.passes(connection_of(session), timeout)
    ]  # fmt: skip


def _notifications(session: Session) -> list[Part]:
    """Return the health of the notifications; empty if they were never on."""
    waiting = notification_events.waiting(session)
    if waiting is None:
        return []
    is_on = runtime_of(session).settings.default.notification_level is not None
    problem = "RabbitMQ does not accept them" if waiting.last_error else OK
    return [Part("notifications", problem if is_on else "they are off", str(waiting))]


def _queues(runtime: Runtime, live_conductors: Sequence[Member]) -> tuple[Part, dict[str, int]]:
    """Return the health of the broker, and the lengths of the conductors' queues by name."""
    if runtime.backlog is None:
        return Part("broker", "unknown", "this process reads no queues"), {}
    try:
        with yielding_slot():  # it may wait for the broker
            lengths = {
                conductor.name: runtime.backlog(conductor.name) for conductor in live_conductors
            }
    except Unavailable as error:
        return Part("broker", "it does not answer", str(error)), {}
    return Part("broker", OK, f"{sum(lengths.values())} messages are queued"), lengths


def _expected_nodes(names: Iterable[str], ring: Sequence[conductors.Share]) -> dict[str, float]:
    """Return the number of nodes that the ring assigns to each conductor, on average."""
    expected = dict.fromkeys(names, 0.0)
    for share in ring:
        for member in share.members:
            expected[member.name] += share.nodes / len(share.members)
    return expected


def _conductors(
    session: Session,
    live_conductors: Sequence[Member],
    ring: Sequence[conductors.Share],
    messages: dict[str, int],
) -> list[Document]:
    """Describe every registered conductor, alive or not."""
    names = {conductor.name for conductor in live_conductors}
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    impediments = dict(conductors.impeded(session, timeout))
    expected = _expected_nodes(names, ring)
    operation_counts, oldest = _held(session), fleet_counts.oldest_messages(session)
    rows = session.execute(
        select(
            Conductor.hostname,
            Conductor.conductor_group,
            Conductor.online,
            Conductor.version,
            Conductor.drained_at,
            Conductor.drain_reason,
            age(Conductor.heartbeat_at),
        ).order_by(Conductor.hostname)
    )
    return [
        {
            "hostname": name,
            "conductor_group": group,
            "state": _state_of(
                name in names,
                name in impediments,
                online and float(seconds) < timeout,
                online,
                is_drained=drained_at is not None,
                runs=bool(operation_counts.get(name, {}).get(OperationState.RUNNING)),
            ),
            "impediment": impediments.get(name),
            "drained_at": drained_at,
            "drain_reason": drain_reason,
            "version": version,
            "heartbeat_seconds": round(max(float(seconds), 0), 1),
            "nodes": round(expected.get(name, 0)),
            "threads": runtime_of(session).settings.conductor.workers_pool_size,
            "holds": dict.fromkeys(map(str, ACTIVE), 0) | operation_counts.get(name, {}),
            "messages": messages.get(name),
            "oldest_message_seconds": round(oldest[name], 1) if name in oldest else None,
        }
        for name, group, online, version, drained_at, drain_reason, seconds in rows
    ]


def _state_of(
    is_alive: bool,
    is_impeded: bool,
    beats: bool,
    online: bool,
    *,
    is_drained: bool,
    runs: bool,
) -> str:
    """
    Return the state of a conductor.

    beats: it sends heartbeats. runs: it has a running step, which ends before it is drained.
    """
    if is_alive:
        return "alive"
    if is_drained and beats:
        return "draining" if runs else "drained"
    if is_impeded:
        return "impeded"
    return "lost" if online else "stopped"


def _held(session: Session) -> dict[str, dict[str, int]]:
    """Count the operations that conductors hold or wait for: name -> state -> number."""
    # a subquery, for which no database scans all nodes: few operations are admitted
    holder = (
        select(Node.reservation)
        .where(Node.id == Operation.node_id, Node.operation_id == Operation.id)
        .scalar_subquery()
    )
    held_operations = select(holder.label("conductor"), Operation.state).where(_ADMITTED).subquery()
    name, state = held_operations.c.conductor, held_operations.c.state
    query = select(name, state, func.count()).group_by(name, state)
    counts: dict[str, dict[str, int]] = {}
    for conductor, of_state, count in session.execute(query):
        counts.setdefault(conductor or "", {})[of_state] = count
    return counts


def _takeovers(session: Session) -> list[Document]:
    """Return the steps of the newest operations that a conductor has taken over, newest first."""
    newest = select(Operation.id).order_by(Operation.id.desc()).limit(RECENT).subquery()
    query = (
        select(
            Operation.uuid,
            Operation.kind,
            Operation.state,
            Node.uuid.label("node_uuid"),
            Node.name.label("node_name"),
            (OperationStep.interface + "." + OperationStep.name).label("step"),
            OperationStep.deaths.label("times"),
            OperationStep.conductor,
            OperationStep.started_at,
            OperationStep.finished_at,
        )
        .join(newest, newest.c.id == OperationStep.operation_id)
        .join(Operation, Operation.id == OperationStep.operation_id)
        .join(Node, Node.id == Operation.node_id)
        .where(TAKEN_OVER)
        .order_by(Operation.id.desc(), OperationStep.position)
        .limit(TAKEOVERS)
    )
    return [dict(row) for row in session.execute(query).mappings()]
