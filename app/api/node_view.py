"""
What a caller sees of nodes: columns as they are, and what is computed beside them.

A page costs one query for the nodes and their agents, and two for the operations in progress,
those only if a field needs them. Documents that hold no secret go from the database to the answer
without being decoded.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Row, Select, Text, cast, select
from sqlalchemy.orm import Session

from app import ring
from app.api import versions
from app.api.answers import host, links, runtime
from app.api.masking import DOCUMENTS, HIDDEN, mask, mask_text
from app.models import AgentRecord, Node, Operation, OperationStep
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
#: Of what is not built yet: what clients expect when there is none of it.
ABSENT: Mapping[str, Any] = {"chassis_uuid": None, "allocation_uuid": None, "traits": []}
LINKED = ("states", "ports")
PLAIN = (
    "uuid", "name", "instance_uuid", "instance_name", "power_state", "target_power_state",
    "provision_state", "target_provision_state", "provision_updated_at", "maintenance",
    "maintenance_reason", "fault", "last_error", "reservation", "driver", "resource_class",
    "conductor_group", "owner", "lessee", "description", "shard", "parent_node",
    "automated_clean", "protected", "protected_reason", "retired", "retired_reason",
    "disable_power_off", "console_enabled", "boot_mode", "secure_boot", "health",
    "inspection_started_at", "inspection_finished_at", "created_at", "updated_at", *INTERFACES,
)  # fmt: skip
FULL = (*PLAIN, *OPEN, *DOCUMENTS, *STEPS, *ABSENT, "conductor")
SORTABLE = frozenset(PLAIN)
STATES = (
    "console_enabled", "last_error", "power_state", "provision_state", "provision_updated_at",
    "target_power_state", "target_provision_state", "raid_config", "target_raid_config",
    "boot_mode", "secure_boot",
)  # fmt: skip

_NODES = Node.__table__.c
_AGENTS = AgentRecord.__table__.c
_AGENT = (
    _AGENTS.url.label("agent_url"),
    _AGENTS.version.label("agent_version"),
    _AGENTS.last_heartbeat_at.label("agent_last_heartbeat"),
    _AGENTS.token.label("agent_secret_token"),
)
_AGENT_FACTS = tuple(each.name for each in _AGENT)
#: What a field that is computed is computed from.
_SOURCES: Mapping[str, tuple[str, ...]] = {
    "conductor": ("driver", "conductor_group"),
    "driver_internal_info": ("provision_state",),
    **dict.fromkeys(STEPS, ("provision_state",)),
}
#: An operation with steps is in progress only in these.
_AT_WORK = of_kind(Kind.BUSY, Kind.WAIT, Kind.HOLD)


def query(wanted: Iterable[str]) -> Select[Any]:
    """A query for all that the wanted fields are made of; `id` and `uuid` are always there."""
    return _query(frozenset(wanted))


@lru_cache(maxsize=256)
def _query(wanted: frozenset[str]) -> Select[Any]:
    needed = {"uuid", *wanted, *(source for name in wanted for source in _SOURCES.get(name, ()))}
    names = ["id", *(name for name in PLAIN if name in needed)]
    columns: list[ColumnElement[Any]] = [_NODES[name] for name in names]
    columns += [
        cast(_NODES[name], Text).label(name) for name in (*OPEN, *DOCUMENTS) if name in wanted
    ]
    if "driver_internal_info" not in wanted:
        return select(*columns)
    joined = select(*columns, *_AGENT).select_from(Node.__table__)
    return joined.outerjoin(AgentRecord.__table__, _AGENTS.node_id == _NODES.id)


def views(session: Session, rows: Sequence[Row[Any]], wanted: Sequence[str]) -> list[View]:
    """The rows of such a query, as the caller sees them."""
    base, version, asked = host(), versions.current(), frozenset(wanted)
    extra = asked - frozenset(PLAIN)
    linked = [name for name in LINKED if name in asked]
    absent = {name: ABSENT[name] for name in ABSENT if name in asked}
    progress: Mapping[int, Progress] = {}
    if extra & STEPS.keys() or "driver_internal_info" in extra:
        working = [row.id for row in rows if row.provision_state in _AT_WORK]
        progress = operations.current(session, working)
    members = conductors.members(of(session), session) if "conductor" in extra else ()
    result = []
    for row in rows:
        node: View = dict(row._mapping)
        key, uuid = node.pop("id"), node["uuid"]
        if version < 39:
            _age(node, version)
        if "conductor" in extra:
            owner = ring.owner(uuid, node["driver"], node["conductor_group"], members)
            node["conductor"] = owner.name if owner else None
        for name in OPEN:
            if name in extra:
                node[name] = orjson.Fragment(node[name] or "{}")
        for name in DOCUMENTS:
            if name in extra:
                node[name] = mask_text(node[name], name)
        if "driver_internal_info" in extra:
            _add_agent(node, progress.get(key))
        if extra:
            for name, flow in STEPS.items():
                if name in extra:
                    node[name] = _current_step(progress.get(key), flow)
            node.update(absent)
        for name in node.keys() - asked:
            del node[name]
        node["links"] = links(f"nodes/{uuid}", base)
        for name in linked:
            node[name] = links(f"nodes/{uuid}/{name}", base)
        result.append(node)
    return result


def one(session: Session, condition: ColumnElement[bool], wanted: Sequence[str]) -> View | None:
    """The node that meets a condition, or None."""
    rows = session.execute(query(wanted).where(condition)).all()
    return views(session, rows, wanted)[0] if rows else None


def whole() -> list[str]:
    """Every field that the request's version has."""
    return versions.visible("node", (*FULL, *LINKED))


def shown(uuid: str) -> View:
    """A node that was just written, whole."""
    with runtime().reading() as session:
        found = one(session, Node.uuid == uuid, whole())
    assert found is not None
    return found


def _age(node: View, version: int) -> None:
    """States that older versions did not know."""
    state = node.get("provision_state")
    if state == "inspect wait":
        node["provision_state"] = "inspecting"
    elif state == "available" and version < 2:
        node["provision_state"] = None


def _add_agent(node: View, progress: Progress | None) -> None:
    """What Ironic keeps in `driver_internal_info` and we in tables of their own."""
    facts = {name: value for name in _AGENT_FACTS if (value := node.pop(name)) is not None}
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


def _current_step(progress: Progress | None, flow: str) -> View:
    current = progress[1] if progress else None
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
