"""Route of the events of BMCs. The secret in the path is its credential."""

from flask import Response

from app.api.openapi.returns import NO_CONTENT
from app.api.openapi.shapes import DOCUMENT
from app.api.request import repeats
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.transport.request_body import data_of
from app.api.transport.responses import empty

bmc_events = Routes("bmc_events", "Events of BMCs")


@bmc_events.declare(
    "POST",
    "/redfish_events/<ident>/<secret>",
    returns=NO_CONTENT,
    takes=DOCUMENT,
    no_key=repeats.OF_EVENTS,
    any_query=True,
)
def receive_bmc_events(context: RequestContext, ident: str, secret: str) -> Response:
    """
    Take the events of a node's BMC, a document of DSP0266

    An addition to Ironic's API. A document that is no such document is accepted, and ignored: a BMC
    ends a subscription whose events are refused.
    """
    context.services.bmc_events.receive(ident, secret, data_of(context.request))
    return empty(204)
