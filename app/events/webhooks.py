"""Webhooks: their rows, the rules for their fields, and the replay of events."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from app.db.clock import after as seconds_from_now
from app.db.clock import now
from app.errors import Conflict, Invalid
from app.events import change_events
from app.identity.caller import UNAUTHENTICATED, Caller
from app.models import Node, Webhook, WebhookFailure
from app.rows import row_changes
from app.runtime import runtime_of
from drivers import networks, urls
from drivers.core.errors import InvalidDriverInfo

#: Caller of requests without authentication.


def create(
    session: Session, fields: Mapping[str, Any], caller: Caller = UNAUTHENTICATED
) -> Webhook:
    """
    Create a webhook for the events after the newest number. `fields` were validated against the
    API's schema.

    Raises Invalid, AlreadyExists.
    Raises Conflict: the project has as many webhooks as it may have.
    """
    owner = fields.get("owner")
    _check(session, fields, owner)
    most = runtime_of(session).settings.webhooks.max_per_project
    if owner and _count(session, owner) >= most:
        raise Conflict(
            f"owner: project {owner} has {most} webhooks, the most that [webhooks]max_per_project"
            " allows: delete one of them"
        )
    _, newest = change_events.ends(session)
    webhook = row_changes.make(Webhook, {**fields, "position": newest})
    webhook.user_id, webhook.user_name = caller.user_id, caller.user_name
    row_changes.add(session, webhook)
    return webhook


def change(session: Session, webhook: Webhook, values: Mapping[str, Any]) -> None:
    """
    Update a webhook, whose row is locked; the previous secret signs for a while, too.

    Raises Invalid, AlreadyExists.
    """
    _check(session, values, webhook.owner)
    if "secret" in values:
        overlap = runtime_of(session).settings.webhooks.secret_overlap
        webhook.previous_secret = webhook.secret
        webhook.previous_secret_until = seconds_from_now(overlap)
    if values.keys() & {"url", "enabled"}:
        _try_now(webhook)
    row_changes.change(session, webhook, values)


def remove(session: Session, webhook: Webhook) -> None:
    """Delete a webhook, whose row is locked, and its failures."""
    session.execute(delete(WebhookFailure).where(WebhookFailure.webhook_id == webhook.id))
    session.delete(webhook)


def replay(session: Session, webhook: Webhook, after: int | None) -> None:
    """
    Post all events after a number again, in order; the row of the webhook is locked.

    after: None: the events from the oldest failure on. Failures in the range are deleted.

    Raises Invalid: there are no such events, or not all of them are kept.
    """
    failures = WebhookFailure.webhook_id == webhook.id
    first, newest = change_events.ends(session)
    if after is None:
        oldest = session.scalar(select(func.min(WebhookFailure.after)).where(failures))
        if oldest is None:
            raise Invalid("after: required, because the webhook has no failures")
        after = max(oldest, first - 1)
    least = max(first - 1, 0)
    if not least <= after <= newest:
        raise Invalid(
            f"after: {after} must be at least {least}, as older events were deleted, and at most"
            f" {newest}, the number of the newest event"
        )
    partly = failures & (WebhookFailure.after < after) & (WebhookFailure.last > after)
    session.execute(delete(WebhookFailure).where(failures, WebhookFailure.after >= after))
    session.execute(update(WebhookFailure).where(partly).values(last=after))
    webhook.position, webhook.failing_since = after, None
    _try_now(webhook)


def _try_now(webhook: Webhook) -> None:
    """Make the next attempt due at once; an attempt in progress can no longer be recorded."""
    webhook.due_at, webhook.holder, webhook.failed_attempts = now(), None, 0


def _check(session: Session, values: Mapping[str, Any], owner: str | None) -> None:
    """Check the fields that are set, of a webhook of a project or the system. Raises Invalid."""
    if values.get("url") is not None:
        _check_url(session, values["url"], owner)
    node = values.get("node_uuid")
    if node and session.scalar(select(Node.id).where(Node.uuid == node)) is None:
        raise Invalid(f"node_uuid: there is no node {node}")


def _check_url(session: Session, url: str, owner: str | None) -> None:
    try:
        urls.checked(url, "url")
        options = runtime_of(session).settings.options()
        networks.of_webhooks(options, project=owner is not None).check_url(url)
    except InvalidDriverInfo as error:
        raise Invalid(str(error)) from None
    try:
        parts = urlsplit(url)
        if not parts.hostname or parts.port == 0:
            raise ValueError
    except ValueError:
        raise Invalid(f"url: {urls.redacted(url)!r} needs a host, and a port up to 65535") from None
    if "@" in parts.netloc:
        raise Invalid("url: must not contain a user or a password; verify the signature instead")


def _count(session: Session, owner: str) -> int:
    return session.scalar(select(func.count()).where(Webhook.owner == owner)) or 0
