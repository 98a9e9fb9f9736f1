"""Routes of change events: an addition to Ironic's API."""

from typing import Any

from flask import Response, request
from sqlalchemy import Select

from app.api.fleet import event_stream
from app.api.fleet.event_selection import Selection
from app.api.node.node_identifiers import uuid_of
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import (
    INTEGER,
    TEXT,
    UUID,
    Component,
    array,
    column_shapes,
    exactly,
    one_of,
    or_null,
)
from app.api.request.context import Query, RequestContext
from app.api.request.long_polls import long_polling
from app.api.request.routes import Routes
from app.api.schemas.change_events import ChangeEventsQuery, EventStreamQuery
from app.api.transport.responses import json
from app.errors import Invalid
from app.events import change_events as service
from app.events.change_events import Found, document
from app.models import TYPES, ChangeEvent

change_events = Routes(
    "change_events", "Changes of nodes, operations and other resources, in order"
)

RULE = "baremetal:event:list"

EVENT = Component("ChangeEvent", exactly({
    **column_shapes(ChangeEvent, service.SHOWN),
    "sequence": INTEGER, "node_uuid": or_null(UUID), "resource_uuid": or_null(UUID),
    "type": one_of(TYPES),
}))  # fmt: skip
EVENTS_PAGE = exactly({"events": array(EVENT), "first": INTEGER, "last": INTEGER})
STREAM = Returns({200: TEXT}, types=(event_stream.MEDIA_TYPE,))
#: Header with the number of the last event that a reader has received, which browsers send.
LAST_EVENT_ID = "Last-Event-ID"
#: Most digits of a number.
DIGITS = 19


@change_events.declare("GET", "/events", rule=RULE, returns=EVENTS_PAGE)
@change_events.arguments(ChangeEventsQuery, location="query")
def list_events(context: RequestContext, query: Query) -> Response:
    """
    List the events that follow a number, or else the newest; the oldest first

    `last` is the number for the next request; it rises even if the filters exclude all events.
    `first` is the oldest number that is kept: a greater one than the request's `after` plus 1
    means that events between them were deleted.
    """
    api = context.runtime.settings.api
    limit = min(query.get("limit", api.max_limit), api.max_limit)
    if "wait" in query and "after" not in query:
        raise Invalid("wait: needs `after`, the number of the last event that is known")
    with long_polling(context, query.get("wait", 0)) as poll:
        selection = _selection(context, query)
        statement, condition = selection.query(), selection.condition()
        page = poll.wait_until(lambda: _page(context, statement, query, limit), condition)
    events = [document(row) for row in page.rows]
    return json({"events": events, "first": page.first, "last": page.last})


@change_events.declare("GET", "/events/stream", rule=RULE, returns=STREAM)
@change_events.arguments(EventStreamQuery, location="query")
def stream_events(context: RequestContext, query: Query) -> Response:
    """
    Stream the events as they occur, as Server-Sent Events

    `Last-Event-ID` or `after`: the number that the stream continues after; without them it begins
    with the next event. A message `gap` says that events after that number were deleted.
    """
    return event_stream.respond(context, RULE, _selection(context, query), _last_known(query))


def _last_known(query: Query) -> int | None:
    """Return the number that a stream continues after. Raises Invalid."""
    header = request.headers.get(LAST_EVENT_ID)
    if not header:  # a browser that has received none sends none
        return query.get("after")
    if not header.isascii() or not header.isdigit() or len(header) > DIGITS:
        raise Invalid(f"{LAST_EVENT_ID}: must be the number of an event, 0 or more")
    return int(header)


def _selection(context: RequestContext, query: Query) -> Selection:
    """Return the selection of a request. Raises NotFound."""
    node = uuid_of(context, query["node"]) if "node" in query else None
    return Selection(context, query.get("type"), node)


def _page(context: RequestContext, statement: Select[Any], query: Query, limit: int) -> Found:
    service.number(context.runtime)
    with context.runtime.read_connection() as connection:
        return service.read(
            connection, statement, query.get("after"), limit, of_node="node" in query
        )
