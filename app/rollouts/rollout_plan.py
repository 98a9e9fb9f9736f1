"""
Plan of a rollout: which nodes take part, and the wave of each.

All limits of a strategy are met by the waves, which are fixed at the creation: the nodes of a wave
are in progress together, and a wave starts once every node of the wave before it has ended.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, String, or_, select
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from app.errors import Invalid, NodeLocked, ServiceError, Unavailable
from app.identity.caller import UNAUTHENTICATED, Caller
from app.inventory import holds
from app.models import Node
from app.observe import log
from app.rollouts import rollout_targets
from app.rows import uuid_or_name
from app.runtime import runtime_of
from drivers.core.errors import HardwareError

logger = log.get(__name__)

#: Fields that group nodes; and documents, one key of which does.
GROUPING = ("chassis_uuid", "conductor_group", "lessee", "owner", "resource_class", "shard")
GROUPING_DOCUMENTS = ("extra", "properties")

_NODES = Node.__table__.c
#: Columns that the plan reads.
COLUMNS = ("id", "uuid", "name", "owner", "lessee")
#: Nodes whose rows are loaded at once.
CHUNK = 200
#: Names that one statement looks for, and most unknown names of a refusal.
NAMES, MOST_UNKNOWN = 1000, 10
#: Reason of a refusal that is a defect of a driver, or of the service.
DEFECT = "The start of the verb failed; the log has more."


#: The caller's rights: owner and lessee of a node -> reason of a denial, if it is denied.
Denial = Callable[[str | None, str | None], str | None]


@dataclass(frozen=True, slots=True)
class Strategy:
    """Limits of a rollout. Numbers of nodes are texts: a count, or a share as "5%"."""

    max_unavailable: str = "1"  # most nodes in progress at a time
    group_by: str | None = None  # one of `GROUPING`, or DOCUMENT.KEY; by default one group
    max_groups: int | None = None  # groups with a node in progress at once; by default any number
    max_per_group: int | None = None  # nodes in progress in each group; by default any number
    canary: int = 0  # first nodes: if one fails, the rollout pauses
    error_budget: str = "1"  # failed nodes at which the rollout pauses
    not_before: str | None = None  # time before which no node is started, in ISO 8601, naive UTC
    # objects of cron, zone and minutes, see `app.rollouts.windows`: no node is started outside of
    # them; by default at any time
    windows: Sequence[Mapping[str, Any]] = ()

    def document(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Member:
    """A node that takes part."""

    uuid: str
    name: str | None
    owner: str | None
    lessee: str | None
    group: str
    wave: int


@dataclass(frozen=True, slots=True)
class Excluded:
    """A node that matches the filters and does not take part."""

    uuid: str
    name: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Nodes and waves of a rollout."""

    members: Sequence[Member]  # in the order of their waves
    excluded: Sequence[Excluded]
    waves: int
    canary_waves: int
    error_budget: int  # failed nodes at which the rollout pauses


def count_of(text: str, total: int) -> int:
    """Return a number of nodes: the count, or the share of `total`; rounded down, at least 1."""
    number, share, _ = text.partition("%")
    return max(math.floor(total * int(number) / 100) if share else int(number), 1)


def columns(strategy: Strategy) -> list[ColumnElement[Any]]:
    """Return the columns of a query for nodes whose rows `plan` takes."""
    return [*(_NODES[name] for name in COLUMNS), _group_of(strategy.group_by).label("group")]


def ids_of_names(session: Session, node_query: Select[Any], names: Sequence[str]) -> Sequence[int]:
    """
    Return the ids of nodes by their UUIDs or names.

    node_query: id, uuid and name of the nodes to choose from. Raises Invalid: others are named.
    """
    keys = {name: uuid_or_name.key_of(name)[1] for name in names}
    ids: dict[str, int] = {}
    values = list(dict.fromkeys(keys.values()))
    for start in range(0, len(values), NAMES):
        part = values[start : start + NAMES]
        is_named = or_(_NODES.uuid.in_(part), _NODES.name.in_(part))
        for row in session.execute(node_query.where(is_named)):
            ids[row.uuid] = ids[row.name] = row.id
    if unknown_names := [name for name, value in keys.items() if value not in ids]:
        examples = ", ".join(unknown_names[:MOST_UNKNOWN])
        ellipsis = ", ..." if len(unknown_names) > MOST_UNKNOWN else ""
        raise Invalid(
            f"nodes.names: {len(unknown_names)} of {len(keys)} could not be found:"
            f" {examples}{ellipsis}"
        )
    return sorted({ids[value] for value in values})


def _group_of(field: str | None) -> ColumnElement[Any]:
    if field is None:
        return sql_cast("", String)
    document, _, key = field.partition(".")
    if key:
        value: ColumnElement[object] = _NODES[document][key].as_string()
        return value
    return _NODES[field]


def plan(  # noqa: PLR0917 - what a rollout consists of
    session: Session,
    node_query: Select[object],
    target: str,
    strategy: Strategy,
    denial: Denial,
    arguments: Mapping[str, object] | None = None,
    caller: Caller = UNAUTHENTICATED,
) -> Plan:
    """
    Plan a rollout of `target` over the nodes of a query with the columns of `columns`.

    A node takes part unless its request would be refused now, by the checks of that request. One
    that is locked, or has no conductor, takes part: it is tried again.
    """
    accepted_rows: list[Row[object]] = []
    excluded = []
    rows = session.execute(node_query.order_by(_NODES.id)).all()
    holds.preload(session)
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        nodes = {node.id: node for node in session.scalars(_nodes_of(chunk))}
        for row in chunk:
            reason = denial(row.owner, row.lessee) or _refusal(
                session, nodes[row.id], target, arguments or {}, caller
            )
            if reason is None:
                accepted_rows.append(row)
            else:
                excluded.append(Excluded(row.uuid, row.name, reason))
        session.expunge_all()
    total = len(accepted_rows)
    canary = min(strategy.canary, total)
    members: list[Member] = []
    wave_number, canary_waves = 0, 0
    for wave_number, wave in enumerate(_waves(accepted_rows, strategy, canary), 1):
        canary_waves += len(members) < canary
        members += (
            Member(row.uuid, row.name, row.owner, row.lessee, _name_of(row), wave_number)
            for row in wave
        )
    budget = count_of(strategy.error_budget, total)
    return Plan(members, excluded, wave_number, canary_waves, budget)


def _nodes_of(rows: Sequence[Row[object]]) -> Select[Any]:
    return select(Node).where(Node.id.in_([row.id for row in rows]))


def _refusal(
    session: Session, node: Node, target: str, arguments: Mapping[str, object], caller: Caller
) -> str | None:
    """Return the reason why the request of a node would be refused, or fail at once; or None."""
    if node.driver not in runtime_of(session).drivers.types:
        return None  # a process that has loaded it starts the node
    try:
        return rollout_targets.check(session, node, target, arguments, caller)
    except (NodeLocked, Unavailable):
        return None
    except (ServiceError, HardwareError) as error:
        return str(error)
    except Exception:  # of a driver: it must not end the plan of the other nodes
        logger.exception("rollout.start_failed", node=node.uuid, target=target)
        return DEFECT


def _waves(
    rows: Iterable[Row[object]], strategy: Strategy, canary: int
) -> Iterator[Sequence[Row[object]]]:
    """
    Yield the waves: each has as many nodes as the limits allow, of the first groups.

    The first `canary` nodes have waves of their own.
    """
    by_group: dict[str, deque[Row[object]]] = {}
    for row in rows:
        by_group.setdefault(_name_of(row), deque()).append(row)
    total = sum(map(len, by_group.values()))
    largest = count_of(strategy.max_unavailable, total)
    groups = deque(by_group[name] for name in sorted(by_group))
    node_count = 0
    while groups:
        limit = min(largest, canary - node_count) if node_count < canary else largest
        wave = _next_wave(groups, strategy, limit)
        node_count += len(wave)
        yield wave


def _name_of(row: Row[object]) -> str:
    """Return the name of the row's group; empty for nodes without a value."""
    return "" if row.group is None else str(row.group)


def _next_wave(
    groups: deque[deque[Row[object]]], strategy: Strategy, max_nodes: int
) -> Sequence[Row[object]]:
    """
    Take the nodes of a wave, at most `max_nodes`, from the first groups, and drop empty groups.
    """
    wave: list[Row[object]] = []
    remaining_groups: list[deque[Row[object]]] = []
    used = 0
    while groups and len(wave) < max_nodes and used != strategy.max_groups:
        group = groups.popleft()
        used += 1
        room = min(max_nodes - len(wave), len(group), strategy.max_per_group or len(group))
        wave += (group.popleft() for _ in range(room))
        if group:
            remaining_groups.append(group)
    groups.extendleft(reversed(remaining_groups))
    return wave
