"""
Queries for nodes: the columns that the fields of a node are built from.

A page costs one query for the nodes, their agents and traits. The database encodes most columns as
JSON text, and combines the columns with recurring values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import repeat
from typing import Any

from sqlalchemy import (
    ColumnElement,
    DateTime,
    FromClause,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    select,
    type_coerce,
)

from app.api.declarations import node_fields
from app.api.declarations.versions import Version
from app.api.node import etags, json_rows
from app.api.node.node_steps import FLOWS
from app.api.policy.masking import DOCUMENTS, TEXTS
from app.api.request.context import RequestContext
from app.api.transport.responses import links
from app.db.prepared import Prepared
from app.db.secret_columns import JSON_TYPES
from app.models import AgentRecord, Allocation, Hold, Node, NodeTrait
from app.models.hold import in_effect

#: A unique column, and its value.
Key = tuple[str, str]
#: A row of a query, read with or without the ORM.
Found = Sequence[Any]
#: Column -> its values, one for each node of a page.
Columns = Mapping[str, Sequence[Any]]

_NODES = Node.__table__.c


def _has_type(name: str, kind: type | tuple[type, ...]) -> bool:
    """Whether a field has a column of this type."""
    return name in _NODES and isinstance(_NODES[name].type, kind)


#: Columns that hold JSON documents and need no masking.
OPEN = tuple(
    field.name
    for field in node_fields.FIELDS
    if field.name not in DOCUMENTS and _has_type(field.name, JSON_TYPES)
)
STEPS = {f"{flow}_step": flow for flow in FLOWS}
#: Columns of tables with at most one row for a node.
JOINED = {"allocation_uuid": Allocation.__table__.c.uuid.label("allocation_uuid")}
LINKED = tuple(node_fields.LINKS)
SHORT = ("uuid", "instance_uuid", "maintenance", "power_state", "provision_state", "name")
FULL = node_fields.FULL
#: Fields that `fields` may name.
CHOOSABLE = (*FULL, *node_fields.NAMED_ONLY)
#: Field -> its place: negative before all others, positive after them.
_PLACES = {
    **{name: place for place, name in enumerate(node_fields.HEAD, -len(node_fields.HEAD))},
    **{name: place for place, name in enumerate(("links", *node_fields.TAIL, *LINKED), 1)},
}
PLAIN = tuple(name for name in FULL if name in _NODES and not _has_type(name, JSON_TYPES))
SORTABLE = frozenset(PLAIN)
#: Fields that have equal values in many nodes, or are empty in most.
RECURRING = frozenset(
    name for name in PLAIN if name not in node_fields.VARYING and not _has_type(name, DateTime)
)
#: The version from which every provision state is shown by its own name.
AGED = 39
STATES = (
    "console_enabled", "last_error", "power_state", "provision_state", "target_power_state",
    "target_provision_state", "provision_updated_at", "raid_config", "target_raid_config",
    "boot_mode", "secure_boot",
)  # fmt: skip

#: Documents that are read as JSON text: unmasked ones, then masked ones.
_TEXTS: Mapping[str, ColumnElement[str]] = {
    **{name: cast(_NODES[name], Text) for name in OPEN},
    "traits": json_rows.array(
        NodeTrait.__table__.c.trait, NodeTrait.__table__.c.node_id == _NODES.id, Node.__table__
    ),
    "holds": json_rows.array(
        Hold.__table__.c.kind,
        and_(Hold.__table__.c.node_id == _NODES.id, in_effect()),
        Node.__table__,
    ),
    **{name: cast(_NODES[name], Text) for name in DOCUMENTS},
}
_AGENTS = AgentRecord.__table__.c
_AGENT = (
    _AGENTS.url.label("agent_url"),
    _AGENTS.version.label("agent_version"),
    json_rows.Moment(_AGENTS.last_heartbeat_at).label("agent_last_heartbeat"),
    type_coerce(_AGENTS.token, Text).label("agent_secret_token"),
)
#: Columns with facts of the agent.
AGENT_FACTS = tuple(column.name for column in _AGENT)
#: Columns from which fields are computed.
_SOURCES = ("id", "uuid", "provision_state", "driver", "conductor_group")


@dataclass(frozen=True, eq=False)
class Reading:
    """A query for nodes, and the rules for building their documents from its rows."""

    query: Select[Any]
    #: Names of the query's columns.
    names: Sequence[str]
    #: Columns that are read as one, the first of the query.
    recurring: Sequence[ColumnElement[Any]]
    #: Columns with times.
    moments: frozenset[str]
    #: Columns with JSON text that is shown unchanged.
    documents: frozenset[str]
    #: Fields whose value no column has.
    computed: frozenset[str]
    #: All fields of the document and `links`, in their order.
    fields: Sequence[str]

    def columns(self, rows: Sequence[Found]) -> Columns:
        """Turn rows into columns."""
        return dict(zip(self.names, zip(*rows, strict=False) if rows else repeat(()), strict=False))

    @cached_property
    def gaps(self) -> Sequence[str]:
        """Parts that vary from node to node, in order: fields, and the UUID in each link."""
        recurring_names = {column.name for column in self.recurring}
        gaps: list[str] = []
        for name in self.fields:
            if name == "links" or name in LINKED:
                gaps += ["uuid"] * len(links("", ""))
            elif name not in recurring_names:
                gaps.append(name)
        return gaps

    @cached_property
    def by(self) -> Mapping[str, Prepared]:
        """Unique column -> the query for the node with this `value`, and for its entity tag."""
        query = self.query.add_columns(*etags.PARTS)
        return {
            name: Prepared(query.where(_NODES[name] == bindparam("value")))
            for name in ("uuid", "name")
        }


def reading(context: RequestContext, fields: Iterable[str], *, linked: bool = True) -> Reading:
    """
    Prepare the query for the wanted fields, in the request's version.

    linked: include links to the node and to its sub-collections.
    """
    return _reading(tuple(fields), linked, context.version < AGED, context.caller.restricted)


@lru_cache(maxsize=512)  # SQLAlchemy caches the compiled form of a query object
def _reading(names: Sequence[str], linked: bool, aged: bool, restricted: bool) -> Reading:
    fields = dict.fromkeys((*names, "links"))
    ordered_names = sorted(fields, key=lambda name: _PLACES.get(name, 0))
    if not linked:
        ordered_names = [name for name in ordered_names if name not in ("links", *LINKED)]
    computed = {*ordered_names} & {*DOCUMENTS, *STEPS, "conductor"}
    if aged:
        computed |= {*ordered_names} & {"provision_state"}
    if restricted:
        computed |= {*ordered_names} & {*TEXTS}
    node_columns = [name for name in ordered_names if name in _NODES and name not in computed]
    recurring_columns = [_NODES[name] for name in node_columns if name in RECURRING]
    moments = frozenset(name for name in node_columns if _has_type(name, DateTime))
    columns: dict[str, ColumnElement[Any]] = {}
    if recurring_columns:
        columns["recurring"] = json_rows.combined(recurring_columns).label("recurring")
    columns |= {name: _NODES[name] for name in node_columns if name not in RECURRING}
    columns |= {name: json_rows.Moment(_NODES[name]).label(name) for name in moments}
    columns |= {name: _NODES[name] for name in _SOURCES}
    columns |= {
        name: column.label(name) for name, column in _TEXTS.items() if name in ordered_names
    }
    if restricted:
        columns |= {name: _NODES[name] for name in ("owner", "lessee", *TEXTS)}
    source: FromClause = Node.__table__
    if joined_columns := {name: column for name, column in JOINED.items() if name in ordered_names}:
        columns |= joined_columns
        allocated = Allocation.__table__.c.node_id == _NODES.id
        source = source.outerjoin(Allocation.__table__, allocated)
    if "driver_internal_info" in ordered_names:
        columns |= {column.name: column for column in _AGENT}
        source = source.outerjoin(AgentRecord.__table__, _AGENTS.node_id == _NODES.id)
    query = select(*columns.values()).select_from(source)
    documents = frozenset(_TEXTS) - {*DOCUMENTS}
    return Reading(
        query, [*columns], recurring_columns, moments, documents, frozenset(computed), ordered_names
    )


@cache
def visible_fields(version: Version) -> Sequence[str]:
    """Return every field of a node in a version."""
    return tuple(version.visible("node", (*FULL, *LINKED)))
