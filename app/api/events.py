"""Route for events from other services: those of Neutron end waits for its ports."""

from collections.abc import Mapping
from typing import Any

from flask import Response

from app import log
from app.api import repeats
from app.api.answers import empty, runtime
from app.api.openapi.returns import NO_CONTENT
from app.api.routes import Routes
from app.api.schemas.events import Events
from app.engine import vif_events

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
def report_events(fields: Mapping[str, Any]) -> Response:
    """Report events"""
    for event in fields["events"]:
        facts = {name: value for name, value in event.items() if name != "event"}
        logger.info("event.reported", kind=event["event"], **facts)
    vif_events.wake(runtime(), fields["events"])
    return empty(204)
