"""Route for events from other services, such as Neutron; they are only logged."""

from collections.abc import Mapping
from typing import Any

from flask import Response

from app import log
from app.api.openapi.returns import NO_CONTENT
from app.api.request import repeats
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.schemas.events import Events
from app.api.transport.responses import empty

events = Routes("events", "Events from other services")

logger = log.get(__name__)


@events.declare(
    "POST",
    "/events",
    since=54,
    rule="baremetal:events:post",
    returns=NO_CONTENT,
    no_key=repeats.ONLY_LOGGED,
)
@events.arguments(Events)
def report_events(context: RequestContext, fields: Mapping[str, Any]) -> Response:
    """Report events"""
    for event in fields["events"]:
        kind = event.pop("event")
        logger.info("event.reported", kind=kind, **event)
    return empty(204)
