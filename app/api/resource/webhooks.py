"""Routes of /v1/webhooks: receivers of change events; an addition to Ironic's API."""

from typing import Any

from flask import Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.api.declarations import versions
from app.api.openapi.shapes import array, column_shapes, exactly
from app.api.request.context import Fields, Query, RequestContext
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.resource.resource_routes import ResourceRoutes, by_value, without_context
from app.api.resource.resources import Resource
from app.api.schemas.webhooks import Replay, WebhookChange, WebhookCreate, WebhooksQuery
from app.api.transport.responses import json
from app.events import change_events
from app.events import webhooks as service
from app.models import Webhook, WebhookFailure
from app.text.masking import mask

webhooks = Routes("webhooks", "Webhooks: receivers of change events")

WEBHOOK = Resource(
    name="webhook",
    path="webhooks",
    schema="Webhook",
    model=Webhook,
    short=("uuid", "name", "url", "owner", "enabled", "last_error"),
    all_fields=(
        "uuid", "created_at", "updated_at", "name", "url", "owner", "user_id", "user_name", "types",
        "node_uuid",
        "enabled", "position", "failed_attempts", "failing_since", "last_error",
        "last_delivery_at", "previous_secret_until", "links", "failures",
    ),
    masked={"url": lambda _access, row: mask(row.url)},
    links=("failures",),
    names_since=versions.MIN,
)  # fmt: skip

_FAILURES = WebhookFailure.__table__.c
FAILURE = ("created_at", "after", "last", "error")
FAILURES = exactly({"failures": array(exactly(column_shapes(WebhookFailure, FAILURE)))})


def _prepared(context: RequestContext, fields: Fields) -> dict[str, Any]:
    change_events.number(
        context.runtime
    )  # the first event that is posted follows the newest number
    return context.access.with_owner("webhook", fields)


ROUTES = ResourceRoutes(WEBHOOK, webhooks, "webhook", "webhooks", "baremetal:webhook")
ROUTES.lists(WebhooksQuery, by_value(Webhook.owner))
ROUTES.creates(
    WebhookCreate,
    lambda context, session, fields: service.create(session, fields, context.caller),
    prepare=_prepared,
)
ROUTES.shows()
ROUTES.changes(WebhookChange(), without_context(service.change))
ROUTES.deletes(without_context(service.remove))


@webhooks.declare(
    "GET", "/webhooks/<ident>/failures", rule="baremetal:webhook:get", returns=FAILURES
)
def list_webhook_failures(context: RequestContext, ident: str) -> Response:
    """
    List the events that the receiver did not accept for too long, the oldest first

    An item stands for all events after number `after`, up to number `last`, that pass the filters.
    """
    of_webhook = _FAILURES.webhook_id == WEBHOOK.id_of(context, ident)
    query = select(*(_FAILURES[name] for name in FAILURE)).where(of_webhook).order_by(_FAILURES.id)
    with context.runtime.read_connection() as connection:
        rows = connection.execute(query).all()
    return json({"failures": [dict(row._mapping) for row in rows]})


@webhooks.declare(
    "POST",
    "/webhooks/<ident>/replay",
    rule="baremetal:webhook:update",
    returns=WEBHOOK.component,
)
@webhooks.arguments(Replay)
def replay_webhook(context: RequestContext, fields: Query, ident: str) -> Response:
    """Post the events after a number again, in order; by default from the oldest failure on"""
    change_events.number(context.runtime)

    def work(session: Session) -> Response:
        webhook = WEBHOOK.find(context, session, ident)
        service.replay(session, webhook, fields.get("after"))
        return json(ROUTES.read_item(context, session, webhook))

    return in_transaction(context, work)
