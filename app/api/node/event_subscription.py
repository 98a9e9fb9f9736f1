"""Route of the subscription to the events of a node's BMC: an addition to Ironic's API."""

from flask import Response

from app.api.node.node_identifiers import uuid_of
from app.api.openapi.shapes import TEXT, TIME, exactly, one_of, or_null
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.transport.responses import json
from app.inventory import event_subscriptions
from app.inventory.event_subscriptions import SubscriptionState

event_subscription = Routes("event_subscription", "Subscriptions to the events of BMCs")

SUBSCRIPTION = exactly({
    "state": one_of(SubscriptionState), "subscribed_at": or_null(TIME),
    "tested_at": or_null(TIME), "received_at": or_null(TIME), "error": or_null(TEXT),
})  # fmt: skip


@event_subscription.declare(
    "GET",
    "/nodes/<ident>/event_subscription",
    rule="baremetal:node:get_event_subscription",
    returns=SUBSCRIPTION,
)
def show_event_subscription(context: RequestContext, ident: str) -> Response:
    """
    Show whether the BMC of a node sends its events to this service

    An addition to Ironic's API. tested_at: the last test event was ordered. received_at: the last
    event has arrived; since the subscription: the state is `proven`. error: of the last check.
    """
    uuid = uuid_of(context, ident)
    with context.runtime.reading() as session:
        subscription = event_subscriptions.of_node(session, uuid, context.runtime.settings)
    return json(subscription._asdict())
