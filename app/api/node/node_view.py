"""
Documents of nodes, with the fields that the caller may see.

A page costs one query for the nodes (`node_query.py`), and two more for the operations in progress,
only if a field needs them. Computed fields are spliced into the JSON text of the database, and
documents without secrets are never decoded. The work is done per column, not per row, so that most
loops over a page run in C.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import orjson
from flask import Response, request
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from app.api.node import etags, json_rows
from app.api.node.node_query import (
    AGENT_FACTS,
    LINKED,
    STEPS,
    Columns,
    Found,
    Key,
    Reading,
    reading,
    visible_fields,
)
from app.api.node.node_steps import internal_info
from app.api.policy.masking import DOCUMENTS, SHOWN_BY, TEXTS, mask_text, redacted
from app.api.policy.targets import SEE_NODE
from app.api.request.context import RequestContext
from app.api.transport.responses import OPTIONS, json, links
from app.cluster import conductors, hash_ring
from app.db.sealing import Keyring, Place, has_sealed, keyring_of
from app.db.secret_columns import place_of
from app.engine import operations
from app.errors import NotFound
from app.lifecycle.provision_states import Kind, of_kind
from app.models import Node
from app.planning.step_views import Progress, current_step

#: Provision states of nodes that may have an operation with steps in progress.
_AT_WORK = of_kind(Kind.BUSY, Kind.WAIT, Kind.HOLD)
#: Placeholder of a UUID in a link; no URL contains this character.
_GAP = "\x7f"


def views(
    context: RequestContext,
    connection: Connection,
    rows: Sequence[Found],
    read: Reading,
    *,
    conductor: str | None = None,
) -> list[orjson.Fragment]:
    """
    Build the documents of the rows of a `Reading`, as JSON text.

    A document is a template with gaps for the fields that vary from node to node. Nodes with
    equal recurring fields share a template. Two nodes with the gaps `uuid` and `name`:

        {"driver":"ipmi","uuid":"  | a | ","name": | "one" | }
        {"driver":"ipmi","uuid":"  | b | ","name": | null  | }

    The columns are, by turns, parts of the templates and encoded values; the texts of a row,
    joined, are a document.

    conductor: only nodes that it is responsible for.
    """
    columns = read.columns(rows)
    encoded: dict[str, Sequence[str]] = {}  # field -> JSON text of each value
    if conductor is not None or "conductor" in read.computed:
        owners = _owners(columns, conductors.members(context.runtime, connection))
        if conductor is not None:
            rows = [row for row, owner in zip(rows, owners, strict=True) if owner == conductor]
            columns, owners = read.columns(rows), [conductor] * len(rows)
        texts = {name: _text(name) for name in set(owners)}
        encoded["conductor"] = [texts[name] for name in owners]
    if not rows:
        return []
    keyring = keyring_of(connection.dialect)
    encoded |= _computed(context, connection, columns, read, keyring)
    for name in {*read.gaps} - encoded.keys():
        encoded[name] = _texts(name, columns[name], read, keyring, columns["uuid"])
    base = context.base_url if "links" in read.fields else ""
    recurring_texts = columns["recurring"] if read.recurring else ["[]"] * len(rows)
    templates = {text: _line(read, base, text) for text in set(recurring_texts)}
    first_parts, *further_parts = zip(*map(templates.__getitem__, recurring_texts), strict=True)
    column_texts: list[Iterable[str]] = [first_parts]
    for name, template_parts in zip(read.gaps, further_parts, strict=True):
        column_texts += (encoded[name], template_parts)
    return list(map(orjson.Fragment, map("".join, zip(*column_texts, strict=True))))


def _texts(
    name: str, values: Sequence[Any], read: Reading, keyring: Keyring, uuids: Sequence[str]
) -> Sequence[str]:
    """Encode the values of a column as JSON. uuids: of the nodes."""
    if name in read.documents:
        # one search in all is a tenth of the cost of one in each
        if not has_sealed("".join(values)):
            return values
        places = _places(name, uuids)
        return [keyring.open_text(*sealed_text) for sealed_text in zip(values, places, strict=True)]
    if name == "uuid":  # without quotes: links contain it, too
        return values
    if name in read.moments:
        return ["null" if value is None else f'"{json_rows.iso(value)}"' for value in values]
    texts = {value: _text(value) for value in set(values)}  # most are equal, or null
    return [texts[value] for value in values]


def _places(name: str, uuids: Sequence[str]) -> Iterable[Place]:
    """Places of the values of a column in nodes."""
    column_place = place_of(Node.__table__.c[name], {"uuid": ""})
    return (column_place + uuid for uuid in uuids)


@lru_cache(maxsize=1024)
def _line(read: Reading, base: str, recurring_text: str) -> Sequence[str]:
    """
    JSON template of a node, split at its variable parts.

    base: the URL that links start with. recurring_text: the values of recurring fields, as JSON
    text.
    """
    values = json_rows.split(read.recurring, recurring_text)
    pieces = ["{"]
    for name in read.fields:
        pieces[-1] += f'"{name}":'
        if name in values:
            pieces[-1] += values[name]
        elif name == "links" or name in LINKED:
            path = f"nodes/{_GAP}" if name == "links" else f"nodes/{_GAP}/{name}"
            start, *remaining_pieces = _text(links(path, base)).split(_GAP)
            pieces[-1] += start
            pieces += remaining_pieces
        elif name == "uuid":
            pieces[-1] += '"'
            pieces.append('"')
        else:
            pieces.append("")
        pieces[-1] += ","
    pieces[-1] = pieces[-1].removesuffix(",") + "}"
    return pieces


def _owners(columns: Columns, members: Sequence[hash_ring.Member]) -> list[str | None]:
    """Names of the conductors that are responsible for the nodes."""
    serving = cache(partial(hash_ring.serving, members=members))
    nodes = zip(columns["uuid"], columns["driver"], columns["conductor_group"], strict=True)
    owners = [hash_ring.winner(uuid, serving(driver, group)) for uuid, driver, group in nodes]
    return [owner.name if owner else None for owner in owners]


def _computed(
    context: RequestContext,
    connection: Connection,
    columns: Columns,
    read: Reading,
    keyring: Keyring,
) -> dict[str, list[str]]:
    """Computed field, without `conductor` -> JSON text of its value in each node."""
    encoded = {}
    for name in read.computed & {*DOCUMENTS}:
        encoded[name] = _masked(context, columns, name, keyring)
    for name in read.computed & {*TEXTS}:
        encoded[name] = [_text(value) for value in columns[name]]
    for name in read.computed & {*STEPS}:
        encoded[name] = ["{}"] * len(columns["id"])
    if "provision_state" in read.computed:
        aged = partial(_aged, version=context.version)
        encoded["provision_state"] = [_text(aged(state)) for state in columns["provision_state"]]
    if read.computed & {*STEPS, "driver_internal_info"}:
        _add_work(connection, columns, encoded)
    access = context.access
    if context.caller.restricted:
        for number, owners in enumerate(zip(columns["owner"], columns["lessee"], strict=True)):
            for name in access.hidden_fields(*owners) & read.computed:
                encoded[name][number] = _text(redacted(f"{SEE_NODE}:{name}"))
    return encoded


def _masked(context: RequestContext, columns: Columns, name: str, keyring: Keyring) -> list[str]:
    """Mask a document of each node, or open its secrets for a caller who may see them."""
    if is_shown := context.access.shows_secrets(SHOWN_BY[name]):
        context.audit.show_secret(name)
    mask = partial(mask_text, document=name, is_shown=is_shown, keyring=keyring)
    texts = columns[name]
    if has_sealed("".join(filter(None, texts))):
        places = _places(name, columns["uuid"])
        return [mask(text, place=place) for text, place in zip(texts, places, strict=True)]
    masked_texts = {text: mask(text) for text in set(texts)}  # many are equal
    return [masked_texts[text] for text in texts]


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
        node_progress = progress.get(key)
        if node_progress:
            for name, flow in flows:
                encoded[name][number] = _text(current_step(node_progress, flow))
        if internal and (node_progress or urls[number] is not None):
            facts = {name: columns[name][number] for name in AGENT_FACTS}
            internal[number] = internal_info(internal[number], facts, node_progress)


def _text(value: object) -> str:
    return orjson.dumps(value, option=OPTIONS).decode()


def one(
    context: RequestContext, key: Key, fields: Iterable[str], *, linked: bool = True
) -> orjson.Fragment | None:
    """Read the document of a node; None if there is no such node."""
    with context.runtime.read_connection() as connection:
        record = _found(context, connection, key, reading(context, fields, linked=linked))
    return record[0] if record else None


def tagged(context: RequestContext, key: Key, fields: Iterable[str]) -> Response:
    """Return the response with a node and its entity tag. Raises NotFound."""
    with context.runtime.read_connection() as connection:
        record = _found(context, connection, key, reading(context, fields))
    if record is None:
        raise NotFound("node", request.path.rpartition("/")[2])
    return _signed(*record)


def respond(context: RequestContext, session: Session, node: Node, status: int = 200) -> Response:
    """Return the response with a node as its transaction leaves it; with its URL if it is new."""
    session.flush()
    record = _found(
        context,
        session.connection(),
        ("uuid", node.uuid),
        reading(context, visible_fields(context.version)),
    )
    assert record  # its row is locked
    response = _signed(*record)
    if status == 201:
        response.status_code = status
        response.headers["Location"] = f"{context.base_url}/v1/nodes/{node.uuid}"
    return response


def _signed(view: orjson.Fragment, row: Found) -> Response:
    response = json(view)
    response.headers["ETag"] = etags.tag_of(row[-len(etags.PARTS) :])
    return response


def _found(
    context: RequestContext, connection: Connection, key: Key, read: Reading
) -> tuple[orjson.Fragment, Found] | None:
    column, value = key
    row = read.by[column].first(connection, {"value": value})
    return row and (views(context, connection, [row], read)[0], row)


def _aged(state: str, version: int) -> str | None:
    """Name of a provision state in a version that lacks some of the states."""
    if state == "inspect wait":
        return "inspecting"
    return None if state == "available" and version < 2 else state
