"""
Scheduling: find nodes for allocations.

One transaction locks the allocation, locks a node that fits, and updates both. A conductor that
dies before the commit leaves the allocation unchanged, and its message is sent again at `due_at`.
So several conductors may search at the same time, and messages may be lost or repeated.

The cost does not depend on the number of nodes: an index has the free nodes of each resource class,
and the search reads it in batches from a random position.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, TextClause, or_, select
from sqlalchemy.orm import Session

from app.broker.messages import TaskMessage
from app.db.clock import after, age, fixed, now
from app.db.prepared import Prepared
from app.db.transactions import call_after_commit, retrying
from app.inventory import holds
from app.inventory.nodes import touch
from app.lifecycle.hold_kinds import Effect, kinds_with
from app.models import Allocation, AllocationState, Hold, Node, NodeTrait
from app.models.hold import in_effect
from app.models.node import FREE
from app.observe import log
from app.process import kill_points
from app.runtime import Runtime, runtime_of

logger = log.get(__name__)

Condition = ColumnElement[bool] | TextClause

TASK = "ingot.allocate"
_DUE = Allocation.due_at < fixed(now())
#: Selects a row while a message is due again.
DUE_ONE = Prepared(select(Allocation.id).where(_DUE).limit(1))
#: Nodes per batch of the search; a batch is shuffled.
BATCH = 20
#: Most messages that one run of the periodic task sends again.
RESENT = 1000
#: Most seconds between two messages about the same allocation.
RESEND_AT_MOST = 60.0


def request_search(
    session: Session, allocation: Allocation, *, delay: float = 0, existed: float = 0
) -> None:
    """
    Send a message about an allocation after the commit, and set the time to send it again.

    `delay`: seconds until a conductor searches. `existed`: age of the allocation in seconds; the
    interval grows with it, as a lost message becomes less and less likely.
    """
    runtime, uuid = runtime_of(session), allocation.uuid
    interval = max(runtime.settings.conductor.resend_after, existed)
    allocation.due_at = after(delay + min(interval, RESEND_AT_MOST))

    def deliver() -> None:
        kill_points.reach("committed", "allocation")
        runtime.send(TaskMessage(TASK, (uuid,), delay))

    call_after_commit(session, deliver)


def resend_due(runtime: Runtime) -> int:
    """Send messages that are due again, and return their number."""
    with runtime.transaction() as session:
        due_rows = session.execute(
            select(Allocation, age(Allocation.created_at))
            .where(_DUE)
            .order_by(Allocation.due_at)
            .limit(RESENT)
            .with_for_update(skip_locked=True)
        ).all()
        for allocation, existed in due_rows:
            request_search(session, allocation, existed=existed)
    if due_rows:
        logger.info("allocations.resent", count=len(due_rows))
    return len(due_rows)


def allocate(runtime: Runtime, uuid: str) -> None:
    """Find a node for an allocation in state `allocating`, or set its state `error`."""

    def work() -> None:
        with runtime.transaction() as session:
            allocation = session.scalar(_allocating(uuid))
            if allocation is not None:
                _allocate(session, allocation)
                kill_points.reach("acted", "allocation")

    retrying(work)


def bind(node: Node, allocation: Allocation) -> None:
    """Assign a node to an allocation; both rows are locked."""
    node.instance_uuid = allocation.uuid
    node.instance_info = {**node.instance_info, "traits": allocation.traits}
    touch(node)
    allocation.node_id = node.id
    allocation.state = AllocationState.ACTIVE
    allocation.last_error = allocation.due_at = None


def _allocating(uuid: str) -> Select[Any]:
    return (
        select(Allocation)
        .where(Allocation.uuid == uuid, Allocation.state == AllocationState.ALLOCATING)
        .with_for_update()
    )


def _allocate(session: Session, allocation: Allocation) -> None:
    settings = runtime_of(session).settings.conductor
    holder_uuid = session.scalar(select(Node.uuid).where(Node.instance_uuid == allocation.uuid))
    if holder_uuid is not None:  # a caller has set it; `instance_uuid` is unique
        _fail(allocation, f"it is {instance_of(allocation, holder_uuid)}")
        return
    fit = _fit(allocation)
    node = _lock_one(session, allocation, fit)
    if node is not None:
        bind(node, allocation)
        allocation.updated_at = now()
        logger.info("allocation.active", allocation=allocation.uuid, node=node.uuid)
        return
    busy = Node.reservation.is_not(None)
    locked = session.scalar(select(Node.id).where(*fit, busy).limit(1)) is not None
    allocation.attempts += 1
    if locked and allocation.attempts < settings.node_locked_retry_attempts:
        request_search(session, allocation, delay=settings.node_locked_retry_interval)
    elif locked:
        _fail(allocation, f"every available node {_wanted(allocation)} is locked")
    else:
        _fail(allocation, f"there is no available node {_wanted(allocation)}")


def instance_of(allocation: Allocation, node: str) -> str:
    """Describe the node with the allocation's UUID, which may be another project's."""
    return f"the instance of {'another node' if allocation.owner else f'node {node}'}"


def _fail(allocation: Allocation, reason: str) -> None:
    allocation.state, allocation.due_at = AllocationState.ERROR, None
    allocation.updated_at = now()
    allocation.last_error = f"Failed to process allocation {allocation.uuid}: {reason}"
    logger.info("allocation.failed", allocation=allocation.uuid, reason=reason)


def _in_class(allocation: Allocation) -> tuple[Condition, Condition]:
    """Conditions for the free nodes of the allocation's resource class, as in the index."""
    return (FREE, Node.resource_class == allocation.resource_class)


def _fit(allocation: Allocation) -> Sequence[Condition]:
    """Conditions for nodes that the allocation may get, including reserved ones."""
    fit = [
        *_in_class(allocation),
        Node.power_state.is_not(None),
        Node.maintenance.is_(False),
        Node.parent_node.is_(None),
        ~_held().exists(),
    ]
    if allocation.owner is not None:
        fit.append(or_(Node.owner == allocation.owner, Node.lessee == allocation.owner))
    if allocation.candidate_nodes:
        fit.append(Node.uuid.in_(allocation.candidate_nodes))
    for trait in allocation.traits:
        has = select(NodeTrait).where(NodeTrait.node_id == Node.id, NodeTrait.trait == trait)
        fit.append(has.exists())
    return fit


def _held() -> Select[Any]:
    """Select the holds of a node of the outer query that keep allocations away."""
    keep_away = Hold.kind.in_(kinds_with(Effect.INSTANCES))
    return select(Hold.id).where(Hold.node_id == Node.id, keep_away, in_effect())


def _lock_one(session: Session, allocation: Allocation, fit: Sequence[Condition]) -> Node | None:
    """Lock a free node that fits, and return it; skip those that other transactions have taken."""
    conditions = (*fit, Node.reservation.is_(None))
    for node_id in _candidates(session, allocation, conditions):
        node = session.scalar(select(Node).where(Node.id == node_id, *conditions).with_for_update())
        # a hold may have been set while the statement waited for the lock
        if node is not None and not holds.with_effect(session, node, Effect.INSTANCES):
            return node
    return None


def _candidates(
    session: Session, allocation: Allocation, conditions: Sequence[Condition]
) -> Iterator[int]:
    """
    Yield ids of free nodes that fit.

    The node with the allocation's name is first; the others follow from a random position, and
    wrap around.
    """
    ids = select(Node.id).where(*conditions)
    if allocation.name is not None:
        yield from session.scalars(ids.where(Node.name == allocation.name)).all()
    of_class = select(Node.id).where(*_in_class(allocation)).limit(1)
    bounds = (of_class.order_by(Node.id), of_class.order_by(Node.id.desc()))
    # in one query: between two, other conductors may take nodes
    lowest, highest = session.execute(select(*(end.scalar_subquery() for end in bounds))).one()
    start = random.randint(lowest or 0, highest or 0)  # noqa: S311
    for part in (Node.id >= start, Node.id < start):
        page, last_id = ids.where(part).order_by(Node.id).limit(BATCH), 0
        while batch := list(session.scalars(page.where(Node.id > last_id))):
            last_id = batch[-1]
            random.shuffle(batch)
            yield from batch


def _wanted(allocation: Allocation) -> str:
    """Describe the requested node for error messages."""
    description = f"of resource class {allocation.resource_class}"
    if allocation.traits:
        description += f" with the traits {', '.join(allocation.traits)}"
    if allocation.owner is not None:
        description += f" that project {allocation.owner} may use"
    if allocation.candidate_nodes:
        description += f" among the {len(allocation.candidate_nodes)} candidates"
    return description
