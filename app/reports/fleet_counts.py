"""
Counts of nodes, operations, queues and conductors, for the gauges of the metrics.

Each query reads an index that has few rows, or the index of provision states, and no whole rows.
"""

from collections.abc import Iterator

from sqlalchemy import and_, case, func, select
from sqlalchemy.orm import Session

from app.broker.backlog import Messages
from app.cluster import conductors, periodic_passes
from app.db.clock import age
from app.db.transactions import connection_of
from app.events import notification_events
from app.inventory import quotas
from app.metrics import table
from app.metrics.kinds import Gauge
from app.models import (
    ACTIVE,
    UNENDED,
    Baseline,
    BaselineNode,
    Compliance,
    Conductor,
    Node,
    Operation,
    OperationState,
    Quota,
    Rollout,
    RolloutNodeState,
    Webhook,
)
from app.reports import stalled_operations

#: A gauge, the values of its labels, and its value.
Count = tuple[Gauge, tuple[str, ...], float]
_first_sent = func.coalesce(Operation.first_sent_at, Operation.sent_at)
#: State of the operations that wait for a heartbeat of their agent.
AGENT = "agent"


def in_database(session: Session, timeout: float, grace: float) -> Iterator[Count]:
    """
    Yield the counts of the database's rows.

    timeout: seconds without a heartbeat after which a conductor counts as dead. grace: seconds
    after which an operation counts as stalled (`stalled_operations.grace`).
    """
    yield from _nodes(session)
    yield from _operations(session)
    for name, seconds in oldest_messages(session).items():
        yield table.OLDEST_MESSAGE, (name,), seconds
    yield table.CONDUCTORS, ("alive",), len(conductors.alive(session, timeout))
    yield table.CONDUCTORS, ("impeded",), len(conductors.impeded(session, timeout))
    yield table.CONDUCTORS, ("drained",), len(conductors.drained(session, timeout))
    yield table.CONDUCTORS, ("lost",), len(conductors.lost(session, timeout))
    failing = select(func.count()).where(Webhook.enabled, Webhook.failing_since.is_not(None))
    yield table.WEBHOOKS_FAILING, (), session.scalar(failing) or 0
    if (waiting := notification_events.waiting(session)) is not None:
        yield table.NOTIFICATIONS_WAITING, (), waiting.events
    yield from _rollouts(session)
    yield from _baselines(session)
    yield from _quotas(session)
    yield table.BEAT_LEADS, (), float(conductors.beat_leads(session))
    if (silence := conductors.beat_silence(session)) is not None:
        yield table.BEAT_SILENCE, (), silence
    passes = periodic_passes.passes(connection_of(session), timeout)
    for task, oldest in periodic_passes.oldest(passes).items():
        yield table.PASS_AGE, (task,), oldest.seconds
        yield table.PASS_BOUND, (task,), oldest.bound
    yield table.STALLED_OPERATIONS, (), stalled_operations.count(session, grace)


def in_queues(messages: Messages, names: list[str]) -> Iterator[Count]:
    """
    Yield the lengths of conductors' queues, by the names of the conductors.

    Raises one of `app.broker.queue.FAILURES`: the broker is out of reach.
    """
    for name in names:
        yield table.CONDUCTOR_QUEUE, (name,), messages.backlog(name)


def _nodes(session: Session) -> Iterator[Count]:
    states = select(Node.provision_state, func.count()).group_by(Node.provision_state)
    for state, count in session.execute(states):
        yield table.NODES, (state or "none",), count
    faults = select(Node.fault, func.count()).where(Node.maintenance).group_by(Node.fault)
    for fault, count in session.execute(faults):
        yield table.NODES_IN_MAINTENANCE, (fault or "none",), count


def _operations(session: Session) -> Iterator[Count]:
    for_agent = and_(Operation.state == OperationState.WAITING, Operation.wake_at.is_(None))
    state = case((for_agent, AGENT), else_=Operation.state)
    oldest = func.max(age(Operation.created_at))
    active = (
        select(Operation.kind, state, func.count(), oldest)
        .where(Operation.state.in_(ACTIVE))
        .group_by(Operation.kind, state)
    )
    for kind, state_name, count, seconds in session.execute(active):
        yield table.ACTIVE_OPERATIONS, (kind, state_name), count
        yield table.OLDEST_OPERATION, (kind, state_name), float(seconds)
    queue = (
        select(Operation.queue, func.count(), oldest)
        .where(Operation.is_queued)
        .group_by(Operation.queue)
    )
    counts: dict[str, tuple[int, float]] = {}
    for name, count, seconds in session.execute(queue):
        kind = str(name).partition("/")[0]  # without the conductor group
        queued, longest = counts.get(kind, (0, 0.0))
        counts[kind] = queued + count, max(longest, float(seconds))
    for kind, (total, longest) in counts.items():
        yield table.ADMISSION_QUEUE, (kind,), total
        yield table.OLDEST_ADMISSION, (kind,), longest


def _rollouts(session: Session) -> Iterator[Count]:
    states = select(Rollout.state, func.count()).group_by(Rollout.state)
    for state, count in session.execute(states):
        yield table.ROLLOUTS, (state,), count
    columns = (Rollout.running, Rollout.succeeded, Rollout.failed)
    sums = [func.coalesce(func.sum(column), 0) for column in (Rollout.nodes, *columns)]
    nodes, *numbers = session.execute(select(*sums).where(Rollout.state.in_(UNENDED))).one()
    yield table.ROLLOUT_NODES, (RolloutNodeState.PENDING,), float(nodes - sum(numbers))
    for column, number in zip(columns, numbers, strict=True):
        yield table.ROLLOUT_NODES, (column.key,), float(number)


def _baselines(session: Session) -> Iterator[Count]:
    states = select(BaselineNode.baseline_id, BaselineNode.state, func.count())
    counts = {
        (baseline_id, state): count
        for baseline_id, state, count in session.execute(
            states.group_by(BaselineNode.baseline_id, BaselineNode.state)
        )
    }
    for baseline_id, name in session.execute(select(Baseline.id, Baseline.name)):
        for state in Compliance:
            yield table.BASELINE_NODES, (name, state), counts.get((baseline_id, state), 0)


def _quotas(session: Session) -> Iterator[Count]:
    query = select(Quota.project, Quota.node_limit, quotas.leased_nodes(Quota.project))
    for project, limit, count in session.execute(query):
        yield table.QUOTA_NODE_LIMIT, (project,), limit
        yield table.QUOTA_LEASED_NODES, (project,), count


def oldest_messages(session: Session) -> dict[str, float]:
    """
    Return the age of each conductor's oldest message that it has not claimed, by its name.

    A message that was sent again has the age of the first one.
    """
    query = (
        select(Conductor.hostname, func.max(age(_first_sent)))
        .join(Conductor, Conductor.incarnation == Operation.sent_to)
        .where(Operation.state == OperationState.QUEUED)
        .group_by(Conductor.hostname)
    )
    return {name: float(seconds) for name, seconds in session.execute(query)}
