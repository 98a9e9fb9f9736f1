"""
What a caller sees of nodes: columns as they are, and what is computed beside them.

A page costs one query for the nodes, their agents and traits, and two for the operations in
progress, those only if a field needs them. The database writes each node's columns as JSON; what is
computed is added to that text, and documents that hold no secret pass through it undecoded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import orjson
from flask import Response, request
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Select,
    Text,
    bindparam,
    cast,
    select,
)
from sqlalchemy.orm import Session

from app import ring
from app.api import access, etags, json_rows, versions
from app.api.answers import OPTIONS, host, json, links, runtime
from app.api.auth import caller
from app.api.masking import (
    DOCUMENTS,
    HIDDEN,
    SHOWN_BY,
    TEXTS,
    mask,
    mask_text,
    redacted,
)
from app.api.owned import SEE_NODE
from app.errors import NotFound
from app.models import AgentRecord, Allocation, Node, NodeTrait, Operation, OperationStep
from app.services import conductors, operations
from app.services.nodes import INTERFACES
from app.states import Kind, of_kind

View = dict[str, Any]
#: A unique column, and the value in it.
Key = tuple[str, str]
Progress = tuple[Operation, OperationStep | None, list[OperationStep]]

SHORT = ("uuid", "name", "instance_uuid", "power_state", "provision_state", "maintenance")
#: Columns that hold JSON documents and need no masking.
OPEN = ("properties", "extra", "network_data", "raid_config", "target_raid_config")
STEPS = {"clean_step": "clean", "deploy_step": "deploy", "service_step": "service"}
#: Columns of tables with at most one row for a node.
JOINED = {"allocation_uuid": Allocation.__table__.c.uuid.label("allocation_uuid")}
LINKED = ("states", "ports", "portgroups", "volume")
PLAIN = (
    "uuid", "name", "instance_uuid", "instance_name", "power_state", "target_power_state",
    "provision_state", "target_provision_state", "provision_updated_at", "maintenance",
    "maintenance_reason", "fault", "last_error", "reservation", "driver", "resource_class",
    "conductor_group", "owner", "lessee", "description", "shard", "parent_node", "chassis_uuid",
    "automated_clean", "protected", "protected_reason", "retired", "retired_reason",
    "disable_power_off", "console_enabled", "boot_mode", "secure_boot", "health",
    "inspection_started_at", "inspection_finished_at", "created_at", "updated_at", *INTERFACES,
)  # fmt: skip
FULL = (*PLAIN, *OPEN, *DOCUMENTS, *STEPS, *JOINED, "traits", "conductor")
SORTABLE = frozenset(PLAIN)
#: Fields that are empty together in many nodes: of trouble and change, of a tenant, of what the
#: machine did not tell.
SPARSE = (
    frozenset({
        "fault", "last_error", "reservation", "target_power_state", "target_provision_state",
        "maintenance", "maintenance_reason", "protected", "protected_reason", "retired",
        "retired_reason", "automated_clean", "disable_power_off", "console_enabled", "health",
        "parent_node", "chassis_uuid",
    }),
    frozenset({"instance_uuid", "instance_name", "owner", "lessee"}),
    frozenset({"boot_mode", "secure_boot", "inspection_started_at", "inspection_finished_at"}),
)  # fmt: skip
#: The version from which every state is told.
AGED = 39
STATES = (
    "console_enabled", "last_error", "power_state", "provision_state", "provision_updated_at",
    "target_power_state", "target_provision_state", "raid_config", "target_raid_config",
    "boot_mode", "secure_boot",
)  # fmt: skip

_NODES = Node.__table__.c
#: Documents that are read as text: those that are shown as they are, then those that are masked.
_TEXTS: Mapping[str, ColumnElement[str]] = {
    **{name: cast(_NODES[name], Text) for name in OPEN},
    "traits": json_rows.array(
        NodeTrait.__table__.c.trait, NodeTrait.__table__.c.node_id == _NODES.id, Node.__table__
    ),
    **{name: cast(_NODES[name], Text) for name in DOCUMENTS},
}
_AGENTS = AgentRecord.__table__.c
_AGENT = (
    _AGENTS.url.label("agent_url"),
    _AGENTS.version.label("agent_version"),
    _AGENTS.last_heartbeat_at.label("agent_last_heartbeat"),
    _AGENTS.token.label("agent_secret_token"),
)
_AGENT_FACTS = tuple(each.name for each in _AGENT)
#: Columns that what is computed is computed from.
_SOURCES = ("id", "uuid", "provision_state", "driver", "conductor_group")
#: An operation with steps is in progress only in these.
_AT_WORK = of_kind(Kind.BUSY, Kind.WAIT, Kind.HOLD)
#: Stands for what differs from node to node, in a text that has none of it: no URL has.
_GAP = "\x7f"


@dataclass(frozen=True, eq=False)
class Reading:
    """
    What is read to show some fields of nodes.

    parts: with how many JSON texts each row begins; its `_SOURCES` come next, then the texts of
    `documents` that are shown as they are. places: column -> where a row has it. computed: the
    fields that no column shows as they are. wanted: all of the fields.
    """

    query: Select[Any]
    parts: int
    documents: Sequence[str]
    places: Mapping[str, int]
    computed: frozenset[str]
    wanted: frozenset[str]

    @cached_property
    def by(self) -> Mapping[str, Select[Any]]:
        """Unique column -> how to read the node that has `value` there, with its entity tag."""
        query = self.query.add_columns(*etags.PARTS)
        return {name: query.where(_NODES[name] == bindparam("value")) for name in ("uuid", "name")}


def reading(wanted: Iterable[str]) -> Reading:
    """How to read the wanted fields, in the request's version."""
    return _reading(frozenset(wanted), versions.current() < AGED, caller().restricted)


@lru_cache(maxsize=512)  # SQLAlchemy looks through a query only once, if it is the same object
def _reading(wanted: frozenset[str], aged: bool, restricted: bool) -> Reading:
    computed = wanted & {*DOCUMENTS, *STEPS, "conductor"}
    if aged:
        computed |= wanted & {"provision_state"}
    if restricted:
        computed |= wanted & {*TEXTS}
    own = [_NODES[name] for name in PLAIN if name in wanted - computed]
    joined = [column for name, column in JOINED.items() if name in wanted]
    parts = json_rows.objects([*own, *joined], SPARSE)
    documents = [name for name in _TEXTS if name in wanted and name not in DOCUMENTS]
    columns: list[ColumnElement[Any]] = [*parts, *(_NODES[name] for name in _SOURCES)]
    columns += [column.label(name) for name, column in _TEXTS.items() if name in wanted]
    if restricted:
        columns += [_NODES[name] for name in ("owner", "lessee", *TEXTS)]
    source: FromClause = Node.__table__
    if joined:
        allocated = Allocation.__table__.c.node_id == _NODES.id
        source = source.outerjoin(Allocation.__table__, allocated)
    if "driver_internal_info" in wanted:
        columns += _AGENT
        source = source.outerjoin(AgentRecord.__table__, _AGENTS.node_id == _NODES.id)
    places = {column.name: place for place, column in enumerate(columns)}
    query = select(*columns).select_from(source)
    return Reading(query, len(parts), documents, places, computed, wanted)


def views(
    connection: Connection,
    rows: Sequence[Row[Any]],
    read: Reading,
    *,
    conductor: str | None = None,
    linked: bool = True,
) -> list[orjson.Fragment]:
    """
    The rows of a `Reading` as the caller sees them, each a ready JSON object.

    conductor: only nodes that belong to it. linked: with links to the node and to what it has.
    """
    places, computed, version = read.places, read.computed, versions.current()
    line, uuids = _line(read, host() if linked else None)
    first = read.parts + len(_SOURCES)
    last = first + len(read.documents)
    resting = dict.fromkeys(sorted(computed), "{}")
    masked = [
        (name, places[name], access.shows(SHOWN_BY[name])) for name in DOCUMENTS if name in computed
    ]
    limited = [(name, places[name]) for name in TEXTS if name in computed]
    restricted = caller().restricted
    steps = [(name, flow) for name, flow in STEPS.items() if name in computed]
    progress: Mapping[int, Progress] = {}
    if steps or "driver_internal_info" in computed:
        key, state = places["id"], places["provision_state"]
        working = [row[key] for row in rows if row[state] in _AT_WORK]
        with Session(connection) as session:
            progress = operations.current(session, working)
    announced = places.get("agent_url")
    owned = "conductor" in computed or conductor is not None
    members = conductors.members(runtime(), connection) if owned else ()
    result = []
    for row in rows:
        key, uuid, state, driver, group = row[read.parts : first]
        told = resting.copy()  # field -> its value's text
        if owned:
            owner = ring.owner(uuid, driver, group, members)
            name = owner.name if owner else None
            if conductor is not None and name != conductor:
                continue
            if "conductor" in computed:
                told["conductor"] = _text(name)
        if "provision_state" in computed:
            told["provision_state"] = _text(_aged(state, version))
        for name, place, shown in masked:
            told[name] = mask_text(row[place], name, shown=shown)
        for name, place in limited:
            told[name] = _text(row[place])
        current = progress.get(key)
        if announced is not None and (current or row[announced] is not None):
            _add_agent(told, row, current)
        if restricted:
            for name in access.hidden(row.owner, row.lessee) & computed:
                told[name] = _text(redacted(f"{SEE_NODE}:{name}"))
        if current:
            told |= {name: _text(_current_step(current, flow)) for name, flow in steps}
        plain = [json_rows.members(row[: read.parts])] if read.parts else []
        pieces = line.copy()
        pieces[1::2] = (*plain, *row[first:last], *told.values(), *[uuid] * uuids)
        result.append(orjson.Fragment("".join(pieces)))
    return result


@lru_cache(maxsize=512)
def _line(read: Reading, base: str | None) -> tuple[list[str], int]:
    """
    The document of a node in pieces, of which every second one differs from node to node, and how
    many of these, the last ones, are its UUID. base: the URL that links begin with; without one
    there are none.
    """
    members, uuids = [_GAP] if read.parts else [], 0
    members += [f'"{name}":{_GAP}' for name in (*read.documents, *sorted(read.computed))]
    if base is not None:
        document: View = {"links": links(f"nodes/{_GAP}", base)}
        for name in LINKED:
            if name in read.wanted:
                document[name] = links(f"nodes/{_GAP}/{name}", base)
        members.append(_text(document)[1:-1])
        uuids = members[-1].count(_GAP)
    fixed = f"{{{','.join(members)}}}".split(_GAP)
    return [piece for text in fixed for piece in (text, "")][:-1], uuids


def _text(value: Any) -> str:
    return orjson.dumps(value, option=OPTIONS).decode()


def one(key: Key, wanted: Iterable[str], *, linked: bool = True) -> orjson.Fragment | None:
    """The node that a key means, or None."""
    found = _found(key, reading(wanted), linked=linked)
    return found[0] if found else None


def tagged(key: Key, wanted: Iterable[str], status: int = 200) -> Response:
    """
    The answer that shows a node, with its entity tag; where it is new, with its location.

    Raises NotFound.
    """
    found = _found(key, reading(wanted))
    if found is None:
        raise NotFound("node", request.path.rpartition("/")[2])
    view, row = found
    response = json(view, status)
    response.headers["ETag"] = etags.of(row[-len(etags.PARTS) :])
    if status == 201:
        response.headers["Location"] = f"{host()}/v1/nodes/{row.uuid}"
    return response


def _found(
    key: Key, read: Reading, *, linked: bool = True
) -> tuple[orjson.Fragment, Row[Any]] | None:
    column, value = key
    with runtime().looking() as connection:
        row = connection.execute(read.by[column], {"value": value}).one_or_none()
        return row and (views(connection, [row], read, linked=linked)[0], row)


def whole() -> list[str]:
    """Every field that the request's version has."""
    return versions.visible("node", (*FULL, *LINKED))


def _aged(state: str, version: int) -> str | None:
    """A state in the words of a version that did not know all of them."""
    if state == "inspect wait":
        return "inspecting"
    return None if state == "available" and version < 2 else state


def _add_agent(node: dict[str, str], row: Row[Any], progress: Progress | None) -> None:
    """What Ironic keeps in `driver_internal_info` and we in tables of their own."""
    facts = {name: value for name in _AGENT_FACTS if (value := getattr(row, name)) is not None}
    if "agent_secret_token" in facts:
        facts["agent_secret_token"] = HIDDEN
    for flow in STEPS.values():
        steps = _steps(progress, flow)
        if steps:
            current = progress[1] if progress else None
            facts[f"{flow}_steps"] = [step_view(each) for each in steps]
            facts[f"{flow}_step_index"] = steps.index(current) if current in steps else None
    if facts:
        document = orjson.loads(node["driver_internal_info"])
        node["driver_internal_info"] = _text(document | facts)


def _steps(progress: Progress | None, flow: str) -> list[OperationStep]:
    return [each for each in progress[2] if each.flow == flow] if progress else []


def _current_step(progress: Progress, flow: str) -> View:
    current = progress[1]
    return step_view(current) if current is not None and current.flow == flow else {}


def step_view(step: OperationStep) -> View:
    """A step as Ironic shows it."""
    return {
        "interface": step.interface,
        "step": step.name,
        "args": mask(step.args) or None,
        "priority": int(step.priority) if step.priority == int(step.priority) else step.priority,
        "abortable": step.abortable,
        "requires_ramdisk": step.requires_ramdisk,
    }
