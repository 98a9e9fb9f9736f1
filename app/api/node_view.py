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
from sqlalchemy import ColumnElement, FromClause, Row, Select, Text, cast, select
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
from app.runtime import of
from app.services import conductors, operations
from app.services.nodes import INTERFACES
from app.states import Kind, of_kind

View = dict[str, Any]
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
#: The version from which every state is told.
AGED = 39
STATES = (
    "console_enabled", "last_error", "power_state", "provision_state", "provision_updated_at",
    "target_power_state", "target_provision_state", "raid_config", "target_raid_config",
    "boot_mode", "secure_boot",
)  # fmt: skip

_NODES = Node.__table__.c
_TRAITS = json_rows.array(
    NodeTrait.__table__.c.trait, NodeTrait.__table__.c.node_id == _NODES.id, Node.__table__
).label("traits")
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
#: Stands for the node's UUID in the text of its links.
_UUID = "<uuid>"


@dataclass(frozen=True)
class Reading:
    """
    What is read to show some fields of nodes.

    parts: with how many JSON texts each row begins. computed: the fields that are not in these.
    """

    query: Select[Any]
    parts: int
    computed: frozenset[str]

    @cached_property
    def tagged(self) -> Select[Any]:
        """The same with what a node's entity tag is made of."""
        return self.query.add_columns(*etags.PARTS)


def reading(wanted: Iterable[str]) -> Reading:
    """How to read the wanted fields, in the request's version."""
    return _reading(frozenset(wanted), versions.current() < AGED, caller().restricted)


@lru_cache(maxsize=512)
def _reading(wanted: frozenset[str], aged: bool, restricted: bool) -> Reading:
    computed = wanted & {*DOCUMENTS, *STEPS, "conductor"}
    if aged:
        computed |= wanted & {"provision_state"}
    if restricted:
        computed |= wanted & {*TEXTS}
    own = [_NODES[name] for name in (*PLAIN, *OPEN) if name in wanted - computed]
    joined = [column for name, column in JOINED.items() if name in wanted]
    traits = [_TRAITS] if "traits" in wanted else []
    parts = json_rows.objects([*own, *joined, *traits])
    columns: list[ColumnElement[Any]] = [*parts, *(_NODES[name] for name in _SOURCES)]
    columns += [cast(_NODES[name], Text).label(name) for name in DOCUMENTS if name in wanted]
    if restricted:
        columns += [_NODES[name] for name in ("owner", "lessee", *TEXTS)]
    source: FromClause = Node.__table__
    if joined:
        allocated = Allocation.__table__.c.node_id == _NODES.id
        source = source.outerjoin(Allocation.__table__, allocated)
    if "driver_internal_info" in wanted:
        columns += _AGENT
        source = source.outerjoin(AgentRecord.__table__, _AGENTS.node_id == _NODES.id)
    return Reading(select(*columns).select_from(source), len(parts), computed)


def views(
    session: Session,
    rows: Sequence[Row[Any]],
    wanted: Sequence[str],
    *,
    conductor: str | None = None,
    linked: bool = True,
) -> list[orjson.Fragment]:
    """
    The rows of a `Reading` as the caller sees them, each a ready JSON object.

    conductor: only nodes that belong to it. linked: with links to the node and to what it has.
    """
    read, version = reading(wanted), versions.current()
    parts, computed = read.parts, read.computed
    linking = _links(wanted) if linked else ""
    steps = [(name, flow) for name, flow in STEPS.items() if name in computed]
    masked = [(name, access.shows(SHOWN_BY[name])) for name in DOCUMENTS if name in computed]
    limited = [name for name in TEXTS if name in computed]
    restricted = caller().restricted
    resting = _members({name: {} for name, _ in steps})
    progress: Mapping[int, Progress] = {}
    if steps or "driver_internal_info" in computed:
        working = [row.id for row in rows if row.provision_state in _AT_WORK]
        progress = operations.current(session, working)
    owned = "conductor" in computed or conductor is not None
    members = conductors.members(of(session), session) if owned else ()
    result = []
    for row in rows:
        key, uuid, state, driver, group = row[parts : parts + len(_SOURCES)]
        more: View = {}
        if owned:
            owner = ring.owner(uuid, driver, group, members)
            name = owner.name if owner else None
            if conductor is not None and name != conductor:
                continue
            if "conductor" in computed:
                more["conductor"] = name
        if "provision_state" in computed:
            more["provision_state"] = _aged(state, version)
        for document, shown in masked:
            more[document] = mask_text(getattr(row, document), document, shown=shown)
        for field in limited:
            more[field] = getattr(row, field)
        current = progress.get(key)
        if "driver_internal_info" in computed and (current or row.agent_url is not None):
            _add_agent(more, row, current)
        if restricted:
            for field in access.hidden(row.owner, row.lessee) & computed:
                more[field] = redacted(f"{SEE_NODE}:{field}")
        if current:
            more |= {field: _current_step(current, flow) for field, flow in steps}
        texts = [
            json_rows.members(row[:parts]) if parts else "",
            _members(more),
            "" if current else resting,
            linking.replace(_UUID, uuid),
        ]
        result.append(orjson.Fragment(f"{{{','.join(text for text in texts if text)}}}"))
    return result


def _members(document: View) -> str:
    """The text of a JSON object without its braces."""
    return orjson.dumps(document, option=OPTIONS).decode()[1:-1] if document else ""


def _links(wanted: Sequence[str]) -> str:
    """The members of a node's document that link to it and to what it has."""
    base, asked = host(), frozenset(wanted)
    document: View = {"links": links(f"nodes/{_UUID}", base)}
    for name in LINKED:
        if name in asked:
            document[name] = links(f"nodes/{_UUID}/{name}", base)
    return _members(document)


def one(
    session: Session, condition: ColumnElement[bool], wanted: Sequence[str], *, linked: bool = True
) -> orjson.Fragment | None:
    """The node that meets a condition, or None."""
    rows = session.execute(reading(wanted).query.where(condition)).all()
    return views(session, rows, wanted, linked=linked)[0] if rows else None


def tagged(condition: ColumnElement[bool], wanted: Sequence[str], status: int = 200) -> Response:
    """
    The answer that shows a node, with its entity tag; where it is new, with its location.

    Raises NotFound.
    """
    with runtime().reading() as session:
        query = reading(wanted).tagged.where(condition)
        row = session.execute(query).one_or_none()
        if row is None:
            raise NotFound("node", request.path.rpartition("/")[2])
        response = json(views(session, [row], wanted)[0], status)
    response.headers["ETag"] = etags.of(row[-len(etags.PARTS) :])
    if status == 201:
        response.headers["Location"] = f"{host()}/v1/nodes/{row.uuid}"
    return response


def whole() -> list[str]:
    """Every field that the request's version has."""
    return versions.visible("node", (*FULL, *LINKED))


def _aged(state: str, version: int) -> str | None:
    """A state in the words of a version that did not know all of them."""
    if state == "inspect wait":
        return "inspecting"
    return None if state == "available" and version < 2 else state


def _add_agent(node: View, row: Row[Any], progress: Progress | None) -> None:
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
        document = node["driver_internal_info"]
        if isinstance(document, orjson.Fragment):
            document = orjson.loads(orjson.dumps(document))
        node["driver_internal_info"] = document | facts


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
