"""Route for events from other services: those of Neutron end waits for its ports."""

from collections.abc import Mapping
from typing import Any

from flask import Response

from app.api.openapi.returns import NO_CONTENT
from app.api.request import repeats
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.schemas.events import Events
from app.api.transport.responses import empty
from app.engine import vif_events
from app.observe import log

events = Routes("events", "Events from other services")

logger = log.get(__name__)


@events.declare(
    "POST",
    "/events",
    since=54,
    rule="baremetal:events:post",
    returns=NO_CONTENT,
    no_key=repeats.OF_EVENTS,
)
@events.arguments(Events)
def report_events(context: RequestContext, fields: Mapping[str, Any]) -> Response:
    """Report events"""
    for event in fields["events"]:
        facts = {name: value for name, value in event.items() if name != "event"}
        logger.info("event.reported", kind=event["event"], **facts)
    vif_events.resume_waiting(context.runtime, fields["events"])
    return empty(204)
