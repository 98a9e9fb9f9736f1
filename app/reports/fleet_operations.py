"""
Operations of the whole fleet: current steps, admission queues, slow steps, failures in groups.

The queries read active rows, a limited number of the newest rows, or the rows of one state, by an
index. `narrow` limits a query for operations to those that a caller may list.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, not_, or_, select
from sqlalchemy.orm import Session, aliased

from app.cluster import conductors
from app.db.clock import age
from app.engine import admission
from app.models import (
    ACTIVE,
    BESIDE,
    READING,
    Conductor,
    Node,
    Operation,
    OperationState,
    OperationStep,
    StepState,
)
from app.runtime import runtime_of

Narrow = Callable[[Select[Any]], Select[Any]]
Document = dict[str, Any]

#: Newest operations whose steps are compared.
RECENT = 2_000
#: Newest failures that are grouped.
FAILURES = 20_000
#: Operations that are shown of each admission queue.
HEADS = 20

_NODES, _OPERATIONS, _STEPS = (model.__table__.c for model in (Node, Operation, OperationStep))
#: Key of a group of failures -> its column. The filters of a list of nodes have these names, with
#: the prefix `failure_` for values of an operation.
OF_OPERATION: Mapping[str, ColumnElement[Any]] = {
    "code": _OPERATIONS.error["code"].as_string(),
    "step": _OPERATIONS.error["step"].as_string(),
}
OF_NODE: Mapping[str, ColumnElement[Any]] = {
    name: _NODES[name]
    for name in ("driver", "resource_class", "conductor_group", "shard", "chassis_uuid")
}
GROUPED = (*OF_OPERATION, *OF_NODE)
_LABEL = _STEPS.interface + "." + _STEPS.name
_IS_ACTIVE = _OPERATIONS.state.in_(ACTIVE)
_NAMES = (_NODES.uuid.label("node_uuid"), _NODES.name.label("node_name"))


def counts(session: Session, narrow: Narrow) -> dict[str, int]:
    """Count the active operations by state, which is `admission` in an admission queue."""
    in_queue = and_(_OPERATIONS.queue.is_not(None), _OPERATIONS.admitted_at.is_(None))
    state = case((in_queue, "admission"), else_=_OPERATIONS.state)
    query = narrow(select(state, func.count().label("number")).where(_IS_ACTIVE)).group_by(state)
    state_counts = dict.fromkeys((*map(str, ACTIVE), "admission"), 0)
    return state_counts | {row[0]: row.number for row in session.execute(query)}


def current(session: Session, narrow: Narrow, limit: int) -> list[Document]:
    """Return the current steps of operations that run, wait or are held, the longest first."""
    is_current = and_(_STEPS.operation_id == _OPERATIONS.id, _STEPS.position == _OPERATIONS.cursor)
    # a subquery, for which no database scans all steps: few operations are active
    started_at = select(_STEPS.started_at).where(is_current).scalar_subquery()
    longest = (
        narrow(
            select(
                _OPERATIONS.id, func.coalesce(started_at, _OPERATIONS.created_at).label("since")
            ).where(_IS_ACTIVE, _OPERATIONS.state != OperationState.QUEUED)
        )
        .order_by("since", _OPERATIONS.id)
        .limit(limit)
        .subquery()
    )
    query = (
        select(
            _OPERATIONS.uuid,
            _OPERATIONS.kind,
            _OPERATIONS.state,
            *_NAMES,
            _LABEL.label("step"),
            _STEPS.conductor,
            _STEPS.deaths.label("takeovers"),
            longest.c.since,
            _OPERATIONS.wake_at,
            _OPERATIONS.deadline_at,
        )
        .select_from(longest)
        .join(Operation, _OPERATIONS.id == longest.c.id)
        .join(Node, _NODES.id == _OPERATIONS.node_id)
        .join(OperationStep, is_current)
        .order_by(longest.c.since, _OPERATIONS.id)
    )
    return _documents(session, query)


def conductors_at_fault(session: Session, narrow: Narrow) -> list[Document]:
    """
    Describe the conductors that are lost or impeded, and what is left to them of the operations.

    An operation that another conductor has taken over is not theirs any more. One that waits, for
    its machine or an operator, goes on at any conductor.
    """
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    silence = age(Conductor.heartbeat_at)
    is_lost = silence >= timeout
    faulty = session.execute(
        select(
            Conductor.hostname, Conductor.conductor_group, Conductor.impediment, is_lost, silence
        )
        .where(Conductor.online, or_(is_lost, Conductor.impediment.is_not(None)))
        .order_by(Conductor.hostname)
    ).all()
    if not faulty:
        return []
    reserved = _NODES.operation_id == _OPERATIONS.id
    holder = select(_NODES.reservation).where(reserved).scalar_subquery()
    in_hand = _OPERATIONS.state.in_((OperationState.RUNNING, OperationState.QUEUED))
    begun = and_(in_hand, not_(Operation.is_queued))
    reservations = narrow(select(holder.label("conductor"), begun.label("begun")).where(_IS_ACTIVE))
    columns = reservations.subquery().c
    counts = Counter[tuple[str, bool]]()
    key = columns.conductor, columns.begun
    query = select(*key, func.count()).group_by(*key)
    for conductor, is_begun, count in session.execute(query):
        counts[conductor, bool(is_begun)] = count
    groups = Counter(member.group for member in conductors.alive(session, timeout))
    return [
        {
            "hostname": name,
            "state": "lost" if lost else "impeded",
            "reason": f"no heartbeat for {float(silent):.0f} s" if lost else impediment,
            "operations": counts[name, True],
            "waiting": counts[name, False],
            "successors": groups[group],
        }
        for name, group, impediment, lost, silent in faulty
    ]


def queues(session: Session, narrow: Narrow) -> list[Document]:
    """
    Describe the admission queues of the operations that the caller may list, each with its first.

    Lengths and places count the operations of all callers, as `admission.document` does.
    """
    heads = _heads(session, narrow)
    length = select(_OPERATIONS.queue, func.count().label("queued")).where(Operation.is_queued)
    lengths = {
        row["queue"]: row["queued"]
        for row in _documents(session, length.group_by(_OPERATIONS.queue))
    }
    oldest = (
        narrow(select(_OPERATIONS.queue, func.min(_OPERATIONS.created_at).label("oldest_at")))
        .where(Operation.is_queued)
        .group_by(_OPERATIONS.queue)
        .order_by(_OPERATIONS.queue)
    )
    queue_documents = []
    for row in _documents(session, oldest):
        limited, _, group = row["queue"].partition("/")
        queue_documents.append(
            {
                "class": limited,
                "conductor_group": group or None,
                "limit": admission.limit_of(runtime_of(session).settings, row["queue"]),
                "queued": lengths.get(row["queue"], 0),
                "oldest_at": row["oldest_at"],
                "operations": heads.get(row["queue"], []),
            }
        )
    return queue_documents


def _heads(session: Session, narrow: Narrow) -> dict[str, list[Document]]:
    """Return the first `HEADS` operations of each queue that the caller may list, in order."""
    in_order = _OPERATIONS.round.is_(None), _OPERATIONS.round, _OPERATIONS.id
    place = func.row_number().over(partition_by=_OPERATIONS.queue, order_by=in_order)
    # also behind the operations of others
    placed = (
        select(_OPERATIONS.id, _OPERATIONS.queue, place.label("place"))
        .where(Operation.is_queued)
        .subquery()
    )
    listed_operations = narrow(
        select(placed).join(Operation, _OPERATIONS.id == placed.c.id)
    ).subquery()
    rank = func.row_number().over(
        partition_by=listed_operations.c.queue, order_by=listed_operations.c.place
    )
    ranked = select(listed_operations, rank.label("rank")).subquery()
    query = (
        select(
            ranked.c.queue,
            ranked.c.place,
            _OPERATIONS.uuid,
            _OPERATIONS.kind,
            *_NAMES,
            _OPERATIONS.created_at,
        )
        .join(ranked, ranked.c.id == _OPERATIONS.id)
        .join(Node, _NODES.id == _OPERATIONS.node_id)
        .where(ranked.c.rank <= HEADS)
        .order_by(ranked.c.queue, ranked.c.place)
    )
    heads: dict[str, list[Document]] = {}
    for head in _documents(session, query):
        heads.setdefault(head.pop("queue"), []).append(head)
    return heads


def slow_steps(session: Session, narrow: Narrow, limit: int) -> list[Document]:
    """
    Return the steps of the newest `RECENT` operations, the slowest first by their mean duration.

    A duration includes retries and waits of the step.
    """
    newest = narrow(select(_OPERATIONS.id)).order_by(_OPERATIONS.id.desc()).limit(RECENT)
    recent = newest.subquery()
    seconds = age(_STEPS.started_at) - age(_STEPS.finished_at)
    mean = func.avg(seconds)
    query = (
        select(
            _LABEL.label("step"),
            func.count().label("runs"),
            func.sum(case((_STEPS.state == StepState.FAILED, 1), else_=0)).label("failed"),
            mean.label("mean_seconds"),
            func.max(seconds).label("longest_seconds"),
        )
        .join(recent, recent.c.id == _STEPS.operation_id)
        .where(_STEPS.started_at.is_not(None), _STEPS.finished_at.is_not(None))
        .group_by(_STEPS.interface, _STEPS.name)
        .order_by(mean.desc(), "step")
        .limit(limit)
    )
    steps = _documents(session, query)
    for step in steps:
        for name in ("mean_seconds", "longest_seconds"):
            step[name] = round(float(step[name]), 3)
    return steps


def standing_failures() -> Select[Any]:
    """
    Select the ids of operations that have failed, and whose failure still describes their node.

    No operation that moves the node has started since, and no other one has failed: as `why`
    selects the failure that it explains.
    """
    later = aliased(Operation)
    # with a limit, for PostgreSQL would read all operations to join them
    since = (
        select(later.id)
        .where(
            later.node_id == Operation.node_id,
            later.id > Operation.id,
            or_(
                later.kind.not_in(BESIDE),
                and_(later.state == OperationState.FAILED, later.kind.not_in(READING)),
            ),
        )
        .limit(1)
        .scalar_subquery()
    )
    is_failed = and_(Operation.state == OperationState.FAILED, Operation.kind.not_in(READING))
    return select(Operation.id).where(is_failed, since.is_(None))


def nodes_failed_with(narrow: Narrow, code: str | None, step: str | None) -> Select[Any]:
    """Select the ids of the nodes with a standing failure of a code or at a step."""
    query = standing_failures().with_only_columns(_OPERATIONS.node_id)
    for key, value in (("code", code), ("step", step)):
        if value is not None:
            query = query.where(OF_OPERATION[key] == value)
    return narrow(query)


def failures(session: Session, narrow: Narrow, grouping: Sequence[str], limit: int) -> Document:
    """
    Count the nodes with standing failures in groups, the largest first.

    grouping: of `GROUPED`. Of a fleet with more than `FAILURES`, the newest are counted.
    """
    of_operation = [column.label(name) for name, column in OF_OPERATION.items()]
    standing = standing_failures().add_columns(_OPERATIONS.node_id, *of_operation)
    newest = narrow(standing).order_by(_OPERATIONS.id.desc()).limit(FAILURES).subquery()
    keys = [newest.c[name] if name in OF_OPERATION else OF_NODE[name] for name in grouping]
    total, last_id = func.count(), func.max(newest.c.id)
    query = (
        select(*keys, total.label("nodes"), last_id.label("last"))
        .select_from(newest)
        .join(Node, _NODES.id == newest.c.node_id)
        .group_by(*keys)
        .order_by(total.desc(), last_id.desc())
    )
    groups = _documents(session, query)
    nodes = sum(group["nodes"] for group in groups)
    examples = _examples(session, [group["last"] for group in groups[:limit]])
    return {
        "groups": [_group(group, grouping, examples[group["last"]]) for group in groups[:limit]],
        "nodes": nodes,
        "complete": nodes < FAILURES and len(groups) <= limit,
    }


def _group(group: Document, grouping: Sequence[str], example: Document) -> Document:
    """Build the document of a group: its values, its size, an example, the filter of its nodes."""
    values = {name: group[name] for name in grouping}
    filters: Document = {}
    for name, value in values.items():
        if name == "shard" and value is None:
            filters["sharded"] = "false"
        elif value is not None:
            filters[f"failure_{name}" if name in OF_OPERATION else name] = value
    return {"values": values, "nodes": group["nodes"], "example": example, "filter": filters}


def _examples(session: Session, ids: Sequence[int]) -> dict[int, Document]:
    """Return the failures of operations by their ids."""
    query = (
        select(
            _OPERATIONS.id, _OPERATIONS.uuid, _OPERATIONS.finished_at, *_NAMES, _OPERATIONS.error
        )
        .join(Node, _NODES.id == _OPERATIONS.node_id)
        .where(_OPERATIONS.id.in_(ids))
    )
    examples = {}
    for row in _documents(session, query):
        key, error = row.pop("id"), row.pop("error") or {}
        texts = {name: error.get(name) for name in ("message", "cause", "hint")}
        examples[key] = row | texts
    return examples


def _documents(session: Session, query: Select[Any]) -> list[Document]:
    return [dict(row) for row in session.execute(query).mappings()]
