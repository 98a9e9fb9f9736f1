"""Routes of the history of nodes."""

from collections.abc import Sequence

from flask import Response
from sqlalchemy import select

from app.api.node.node_identifiers import node_of
from app.api.openapi.returns import listed
from app.api.openapi.shapes import LINKS, Component, column_shapes, subset_of, versioned
from app.api.request.context import Query, RequestContext, View
from app.api.request.paging import page_answer, page_of
from app.api.request.routes import Routes
from app.api.schemas.nodes import HistoryQuery
from app.api.transport.responses import json
from app.errors import NotFound
from app.models import NodeHistory
from app.rows.keyset_pages import fetch

history = Routes("history", "Recorded events of nodes", since=78)

SHORT = ("uuid", "created_at", "severity", "event")
FULL = (
    "uuid", "created_at", "severity", "event_type", "event", "conductor", "user", "project",
    "state", "target_provision_state", "duration_seconds",
)  # fmt: skip
SORTABLE = frozenset(FULL)
#: In the short form an event longer than `LONGEST` characters is cut to `CUT`.
CUT, LONGEST = 251, 255

ENTRY = Component("HistoryEntry", versioned("history", subset_of(
    {**column_shapes(NodeHistory, FULL), "links": LINKS}, always=["links"]
)))  # fmt: skip


def _view(
    context: RequestContext, entry: NodeHistory, node_uuid: str, requested_fields: Sequence[str]
) -> View:
    view = {name: getattr(entry, name) for name in requested_fields}
    href = f"{context.base_url}/v1/nodes/{node_uuid}/history/{entry.uuid}"
    return view | {"links": [{"href": href, "rel": "self"}]}


@history.declare(
    "GET",
    "/nodes/<ident>/history",
    rule="baremetal:node:history:get",
    returns=listed("history", ENTRY, sortable=SORTABLE),
)
@history.arguments(HistoryQuery, location="query")
def list_history(context: RequestContext, query: Query, ident: str) -> Response:
    """List the history of a node"""
    detail = query.get("detail", False)
    requested_fields = context.version.visible("history", FULL if detail else SHORT)
    page = page_of(context, query, "history", sortable=SORTABLE)
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        of_node = NodeHistory.node_id == node.id
        statement = select(NodeHistory).where(of_node)
        rows = fetch(session, statement, NodeHistory, page, among=of_node)
        entries = [row[0] for row in rows]
    items = [_view(context, entry, node.uuid, requested_fields) for entry in entries]
    for item in items:
        if not detail and len(item["event"]) > LONGEST:
            item["event"] = item["event"][:CUT] + "..."
    return page_answer(context, "history", items, page, entries)


@history.declare(
    "GET", "/nodes/<ident>/history/<uuid>", rule="baremetal:node:history:get", returns=ENTRY
)
def show_history(context: RequestContext, ident: str, uuid: str) -> Response:
    """Show an entry of a node's history"""
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        entry = session.scalar(
            select(NodeHistory).where(NodeHistory.node_id == node.id, NodeHistory.uuid == uuid)
        )
    if entry is None:
        raise NotFound("node history record", uuid)
    return json(_view(context, entry, node.uuid, context.version.visible("history", FULL)))
