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
from drivers.core.errors import InvalidDriverInfo
from drivers.net import networks, urls


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
    limit = runtime_of(session).settings.webhooks.max_per_project
    if owner and _count(session, owner) >= limit:
        raise Conflict(
            f"owner: project {owner} has {limit} webhooks, the most that [webhooks]max_per_project"
            " allows: delete one of them"
        )
    _, newest = change_events.ends(session)
    webhook = row_changes.make(Webhook, {**fields, "position": newest})
    webhook.user_id, webhook.user_name = caller.user_id, caller.user_name
    return row_changes.add(session, webhook)


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


def replay(session: Session, webhook: Webhook, sequence: int | None) -> None:
    """
    Post all events after a number again, in order; the row of the webhook is locked.

    sequence: the number before the first event; from the oldest failure on by default. Failures in
    the range are deleted.

    Raises Invalid: there are no such events, or not all of them are kept.
    """
    failures = WebhookFailure.webhook_id == webhook.id
    oldest_event, newest = change_events.ends(session)
    if sequence is None:
        oldest = session.scalar(select(func.min(WebhookFailure.after)).where(failures))
        if oldest is None:
            raise Invalid("after: required, because the webhook has no failures")
        sequence = max(oldest, oldest_event - 1)
    lowest = max(oldest_event - 1, 0)
    if not lowest <= sequence <= newest:
        raise Invalid(
            f"after: {sequence} must be at least {lowest}, as older events were deleted, and at"
            f" most {newest}, the number of the newest event"
        )
    partly = failures & (WebhookFailure.after < sequence) & (WebhookFailure.last > sequence)
    session.execute(delete(WebhookFailure).where(failures, WebhookFailure.after >= sequence))
    session.execute(update(WebhookFailure).where(partly).values(last=sequence))
    webhook.position, webhook.failing_since = sequence, None
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
