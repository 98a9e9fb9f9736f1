"""
Documents of nodes, with the fields that the caller may see.

A page costs one query for the nodes, their agents and traits, and two more for the operations in
progress, only if a field needs them. The database encodes most columns as JSON text; computed
fields are spliced into it, and documents without secrets are never decoded. The work is done per
column, not per row, so that most loops over a page run in C.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from itertools import repeat
from typing import Any

import orjson
from flask import Response, request
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    DateTime,
    FromClause,
    Select,
    Text,
    bindparam,
    cast,
    select,
)
from sqlalchemy.orm import Session

from app import ring
from app.api import etags, json_rows, node_fields, versions
from app.api.answers import OPTIONS, host, json, links, runtime
from app.api.auth import caller
from app.api.masking import DOCUMENTS, SHOWN_BY, TEXTS, mask_text, redacted
from app.api.node_steps import FLOWS, Progress, current_step, internal_info
from app.api.policy import enforce
from app.api.policy.targets import SEE_NODE
from app.db.prepared import Prepared
from app.engine import operations
from app.errors import NotFound
from app.kit import conductors
from app.models import AgentRecord, Allocation, Node, NodeTrait
from app.states import Kind, of_kind

#: A unique column, and its value.
Key = tuple[str, str]
#: A row of a query, read with or without the ORM.
Found = Sequence[Any]
#: Column -> its values, one for each node of a page.
Columns = Mapping[str, Sequence[Any]]

_NODES = Node.__table__.c


def _has_type(name: str, kind: type) -> bool:
    """Whether a field has a column of this type."""
    return name in _NODES and isinstance(_NODES[name].type, kind)


#: Columns that hold JSON documents and need no masking.
OPEN = tuple(
    field.name
    for field in node_fields.FIELDS
    if field.name not in DOCUMENTS and _has_type(field.name, JSON)
)
STEPS = {f"{flow}_step": flow for flow in FLOWS}
#: Columns of tables with at most one row for a node.
JOINED = {"allocation_uuid": Allocation.__table__.c.uuid.label("allocation_uuid")}
LINKED = tuple(node_fields.LINKS)
SHORT = ("uuid", "instance_uuid", "maintenance", "power_state", "provision_state", "name")
FULL = node_fields.FULL
#: Field -> its place: negative before all others, positive after them.
_PLACES = {
    **{name: place for place, name in enumerate(node_fields.HEAD, -len(node_fields.HEAD))},
    **{name: place for place, name in enumerate(("links", *node_fields.TAIL, *LINKED), 1)},
}
PLAIN = tuple(name for name in FULL if name in _NODES and not _has_type(name, JSON))
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
    **{name: cast(_NODES[name], Text) for name in DOCUMENTS},
}
_AGENTS = AgentRecord.__table__.c
_AGENT = (
    _AGENTS.url.label("agent_url"),
    _AGENTS.version.label("agent_version"),
    json_rows.Moment(_AGENTS.last_heartbeat_at).label("agent_last_heartbeat"),
    _AGENTS.token.label("agent_secret_token"),
)
_AGENT_FACTS = tuple(each.name for each in _AGENT)
#: Columns from which fields are computed.
_SOURCES = ("id", "uuid", "provision_state", "driver", "conductor_group")
#: Provision states in which an operation with steps can be in progress.
_AT_WORK = of_kind(Kind.BUSY, Kind.WAIT, Kind.HOLD)
#: Placeholder of a UUID in a link; no URL contains this character.
_GAP = "\x7f"


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
    wanted: Sequence[str]

    def columns(self, rows: Sequence[Found]) -> Columns:
        """Turn rows into columns."""
        return dict(zip(self.names, zip(*rows, strict=False) if rows else repeat(()), strict=False))

    @cached_property
    def gaps(self) -> Sequence[str]:
        """Parts that vary from node to node, in order: fields, and the UUID in each link."""
        shared = {column.name for column in self.recurring}
        gaps: list[str] = []
        for name in self.wanted:
            if name == "links" or name in LINKED:
                gaps += ["uuid"] * len(links("", ""))
            elif name not in shared:
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


def reading(wanted: Iterable[str], *, linked: bool = True) -> Reading:
    """
    Prepare the query for the wanted fields, in the request's version.

    linked: include links to the node and to its sub-collections.
    """
    return _reading(tuple(wanted), linked, versions.current() < AGED, caller().restricted)


@lru_cache(maxsize=512)  # SQLAlchemy caches the compiled form of a query object
def _reading(asked: Sequence[str], linked: bool, aged: bool, restricted: bool) -> Reading:
    fields = dict.fromkeys((*asked, "links"))
    wanted = sorted(fields, key=lambda name: _PLACES.get(name, 0))
    if not linked:
        wanted = [name for name in wanted if name not in ("links", *LINKED)]
    computed = {*wanted} & {*DOCUMENTS, *STEPS, "conductor"}
    if aged:
        computed |= {*wanted} & {"provision_state"}
    if restricted:
        computed |= {*wanted} & {*TEXTS}
    own = [name for name in wanted if name in _NODES and name not in computed]
    shared = [_NODES[name] for name in own if name in RECURRING]
    moments = frozenset(name for name in own if _has_type(name, DateTime))
    columns: dict[str, ColumnElement[Any]] = {}
    if shared:
        columns["recurring"] = json_rows.combined(shared).label("recurring")
    columns |= {name: _NODES[name] for name in own if name not in RECURRING}
    columns |= {name: json_rows.Moment(_NODES[name]).label(name) for name in moments}
    columns |= {name: _NODES[name] for name in _SOURCES}
    columns |= {name: column.label(name) for name, column in _TEXTS.items() if name in wanted}
    if restricted:
        columns |= {name: _NODES[name] for name in ("owner", "lessee", *TEXTS)}
    source: FromClause = Node.__table__
    if joined := {name: column for name, column in JOINED.items() if name in wanted}:
        columns |= joined
        allocated = Allocation.__table__.c.node_id == _NODES.id
        source = source.outerjoin(Allocation.__table__, allocated)
    if "driver_internal_info" in wanted:
        columns |= {each.name: each for each in _AGENT}
        source = source.outerjoin(AgentRecord.__table__, _AGENTS.node_id == _NODES.id)
    query = select(*columns.values()).select_from(source)
    documents = frozenset(_TEXTS) - {*DOCUMENTS}
    return Reading(query, [*columns], shared, moments, documents, frozenset(computed), wanted)


def views(
    connection: Connection, rows: Sequence[Found], read: Reading, *, conductor: str | None = None
) -> list[orjson.Fragment]:
    """
    Build the documents of the rows of a `Reading`, as JSON text.

    conductor: only nodes that it is responsible for.
    """
    columns = read.columns(rows)
    encoded: dict[str, Sequence[str]] = {}  # field -> JSON text of each value
    if conductor is not None or "conductor" in read.computed:
        owners = _owners(columns, conductors.members(runtime(), connection))
        if conductor is not None:
            rows = [row for row, owner in zip(rows, owners, strict=True) if owner == conductor]
            columns, owners = read.columns(rows), [conductor] * len(rows)
        texts = {name: _text(name) for name in set(owners)}
        encoded["conductor"] = [texts[name] for name in owners]
    if not rows:
        return []
    encoded |= _computed(connection, columns, read)
    for name in {*read.gaps} - encoded.keys():
        encoded[name] = _texts(name, columns[name], read)
    base = host() if "links" in read.wanted else ""
    shared = columns["recurring"] if read.recurring else ["[]"] * len(rows)
    same = {name: texts[0] for name, texts in encoded.items() if texts.count(texts[0]) == len(rows)}
    lines = {text: _filled(_line(read, base, text), read.gaps, same) for text in set(shared)}
    first, *fixed = zip(*map(lines.__getitem__, shared), strict=True)
    woven: list[Iterable[str]] = [first]
    for name, text in zip((name for name in read.gaps if name not in same), fixed, strict=True):
        woven += (encoded[name], text)
    return list(map(orjson.Fragment, map("".join, zip(*woven, strict=True))))


def _texts(name: str, values: Sequence[Any], read: Reading) -> Sequence[str]:
    """Encode the values of a column as JSON."""
    if name in read.documents or name == "uuid":  # a UUID without quotes: links contain it, too
        return values
    if name in read.moments:
        return ["null" if each is None else f'"{json_rows.iso(each)}"' for each in values]
    texts = {each: _text(each) for each in set(values)}  # most are equal, or null
    return [texts[each] for each in values]


def _filled(line: Sequence[str], gaps: Sequence[str], same: Mapping[str, str]) -> Sequence[str]:
    """Fill the gaps of a line whose value is equal in all nodes of the page."""
    pieces = [line[0]]
    for name, text in zip(gaps, line[1:], strict=True):
        if name in same:
            pieces[-1] += same[name] + text
        else:
            pieces.append(text)
    return pieces


@lru_cache(maxsize=1024)
def _line(read: Reading, base: str, shared: str) -> Sequence[str]:
    """
    JSON template of a node, split at its variable parts.

    base: the URL that links begin with. shared: the values of recurring fields, as JSON text.
    """
    values = json_rows.split(read.recurring, shared)
    pieces = ["{"]
    for name in read.wanted:
        pieces[-1] += f'"{name}":'
        if name in values:
            pieces[-1] += values[name]
        elif name == "links" or name in LINKED:
            path = f"nodes/{_GAP}" if name == "links" else f"nodes/{_GAP}/{name}"
            before, *after = _text(links(path, base)).split(_GAP)
            pieces[-1] += before
            pieces += after
        elif name == "uuid":
            pieces[-1] += '"'
            pieces.append('"')
        else:
            pieces.append("")
        pieces[-1] += ","
    pieces[-1] = pieces[-1].removesuffix(",") + "}"
    return pieces


def _owners(columns: Columns, members: Sequence[ring.Member]) -> list[str | None]:
    """Names of the conductors that are responsible for the nodes."""
    serving = cache(partial(ring.serving, members=members))
    nodes = zip(columns["uuid"], columns["driver"], columns["conductor_group"], strict=True)
    found = [ring.winner(uuid, serving(driver, group)) for uuid, driver, group in nodes]
    return [owner.name if owner else None for owner in found]


def _computed(connection: Connection, columns: Columns, read: Reading) -> dict[str, list[str]]:
    """Computed field, without `conductor` -> JSON text of its value in each node."""
    encoded = {}
    for name in read.computed & {*DOCUMENTS}:
        shown = enforce.shows_secrets(SHOWN_BY[name])
        masked = {text: mask_text(text, name, shown=shown) for text in set(columns[name])}
        encoded[name] = [masked[text] for text in columns[name]]
    for name in read.computed & {*TEXTS}:
        encoded[name] = [_text(value) for value in columns[name]]
    for name in read.computed & {*STEPS}:
        encoded[name] = ["{}"] * len(columns["id"])
    if "provision_state" in read.computed:
        aged = partial(_aged, version=versions.current())
        encoded["provision_state"] = [_text(aged(each)) for each in columns["provision_state"]]
    if read.computed & {*STEPS, "driver_internal_info"}:
        _add_work(connection, columns, encoded)
    if caller().restricted:
        for number, whose in enumerate(zip(columns["owner"], columns["lessee"], strict=True)):
            for name in enforce.hidden_fields(*whose) & read.computed:
                encoded[name][number] = _text(redacted(f"{SEE_NODE}:{name}"))
    return encoded


def _add_work(connection: Connection, columns: Columns, encoded: Mapping[str, list[str]]) -> None:
    """Add the steps in progress and the facts of the agents to the texts of their nodes."""
    states = zip(columns["id"], columns["provision_state"], strict=True)
    progress: Mapping[int, Progress] = {}
    if working := [key for key, state in states if state in _AT_WORK]:
        with Session(connection) as session:
            progress = operations.current(session, working)
    flows = [(name, flow) for name, flow in STEPS.items() if name in encoded]
    internal, urls = encoded.get("driver_internal_info"), columns.get("agent_url", ())
    for number, key in enumerate(columns["id"]):
        current = progress.get(key)
        if current:
            for name, flow in flows:
                encoded[name][number] = _text(current_step(current, flow))
        if internal and (current or urls[number] is not None):
            facts = {name: columns[name][number] for name in _AGENT_FACTS}
            internal[number] = internal_info(internal[number], facts, current)


def _text(value: Any) -> str:
    return orjson.dumps(value, option=OPTIONS).decode()


def one(key: Key, wanted: Iterable[str], *, linked: bool = True) -> orjson.Fragment | None:
    """Read the document of a node; None if there is no such node."""
    with runtime().looking() as connection:
        found = _found(connection, key, reading(wanted, linked=linked))
    return found[0] if found else None


def tagged(key: Key, wanted: Iterable[str]) -> Response:
    """Return the response with a node and its entity tag. Raises NotFound."""
    with runtime().looking() as connection:
        found = _found(connection, key, reading(wanted))
    if found is None:
        raise NotFound("node", request.path.rpartition("/")[2])
    return _signed(*found)


def written(session: Session, node: Node, status: int = 200) -> Response:
    """Return the response with a node as its transaction leaves it; with its URL if it is new."""
    session.flush()
    found = _found(session.connection(), ("uuid", node.uuid), reading(whole()))
    assert found  # its row is locked
    response = _signed(*found)
    if status == 201:
        response.status_code = status
        response.headers["Location"] = f"{host()}/v1/nodes/{node.uuid}"
    return response


def _signed(view: orjson.Fragment, row: Found) -> Response:
    response = json(view)
    response.headers["ETag"] = etags.tag_of(row[-len(etags.PARTS) :])
    return response


def _found(connection: Connection, key: Key, read: Reading) -> tuple[orjson.Fragment, Found] | None:
    column, value = key
    row = read.by[column].first(connection, {"value": value})
    return row and (views(connection, [row], read)[0], row)


def whole() -> Sequence[str]:
    """Every field of a node in the request's version."""
    return _whole(versions.current())


@cache
def _whole(_version: int) -> Sequence[str]:
    return tuple(versions.visible("node", (*FULL, *LINKED)))


def _aged(state: str, version: int) -> str | None:
    """Name of a provision state in a version that lacks some of the states."""
    if state == "inspect wait":
        return "inspecting"
    return None if state == "available" and version < 2 else state
