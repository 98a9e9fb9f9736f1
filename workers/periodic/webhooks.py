"""Posting change events to the receivers of webhooks."""

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    func,
    insert,
    or_,
    select,
    update,
)

from app.db.clock import now
from app.db.prepared import Prepared
from app.events import change_events
from app.metrics.table import WEBHOOK_DELIVERIES, WEBHOOK_LAG
from app.models import ChangeEvent, Webhook, WebhookFailure
from app.runtime import Runtime
from app.text.masking import Unreadable
from drivers.core.errors import HardwareError
from drivers.net import fetch, networks
from drivers.net.signed import SIGNATURE, signature, standard_headers
from workers.periodic.delivery import Deliverer, Sent, is_due

_HOOK: Any = Webhook.__table__.c
_EVENT: Any = ChangeEvent.__table__.c
_FAILURE: Any = WebhookFailure.__table__.c

#: Selects a row while a webhook is due, which may have no events to post.
DUE_ONE = Prepared(select(_HOOK.id).where(is_due(_HOOK, _HOOK.enabled)).limit(1))


class Webhooks(Deliverer):
    """Deliveries of a process to webhooks."""

    name = "webhook"
    model = Webhook
    outcomes, lag = WEBHOOK_DELIVERIES, WEBHOOK_LAG

    def __init__(self, runtime: Runtime) -> None:
        webhooks = runtime.settings.webhooks
        super().__init__(runtime, webhooks.timeout, webhooks.max_retry_interval)
        self._give_up_after = webhooks.give_up_after
        self._options = runtime.settings.options()

    def enabled(self) -> ColumnElement[bool]:
        enabled: ColumnElement[bool] = _HOOK.enabled
        return enabled

    def facts(self) -> Sequence[ColumnElement[Any]]:
        names = ("uuid", "url", "owner", "types", "node_uuid", "secret", "previous_secret")
        overlaps = func.coalesce(_HOOK.previous_secret_until > now(), False).label("overlaps")
        return (*(_HOOK[name] for name in names), overlaps, now().label("read_at"))

    def selected(self, row: Row[Any]) -> Select[Any]:
        """Select the events that pass the filters of a webhook."""
        events = change_events.ALL
        if row.owner is not None:
            events = events.where(or_(_EVENT.owner == row.owner, _EVENT.lessee == row.owner))
        if row.types:
            events = events.where(_EVENT.type.in_(row.types))
        if row.node_uuid:
            events = events.where(_EVENT.node_uuid == row.node_uuid)
        return events

    def send(self, row: Row[Any], previous_sequence: int, page: change_events.Found) -> Sent:
        """Post events to the receiver, in one request."""
        secrets = [row.secret, *([row.previous_secret] if row.overlaps else ())]
        if any(isinstance(text, Unreadable) for text in (row.url, *secrets)):
            return Sent(row.position, "no key of this conductor opens the secrets of the webhook")
        documents = [change_events.document(event) for event in page.rows]
        document = {
            "webhook": row.uuid,
            "after": previous_sequence,
            "last": page.last,
            "events": documents,
        }
        body = orjson.dumps(document, option=orjson.OPT_NAIVE_UTC)
        seconds = int(row.read_at.replace(tzinfo=UTC).timestamp())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "ingot",
            SIGNATURE: signature(secrets, seconds, body),
            **standard_headers(secrets, seconds, body),
        }
        try:
            reach = networks.of_webhooks(self._options, project=row.owner is not None)
            answer = fetch.post(self._options, reach, row.url, body, headers, timeout=self._timeout)
        except HardwareError as error:
            return Sent(row.position, str(error))
        if 200 <= answer.status < 300:
            return Sent(page.last)
        return Sent(row.position, f"the receiver answered {answer.status}", answer.retry_after)

    def give_up(
        self, connection: Connection, row: Row[object], error: str, newest_sequence: int
    ) -> Mapping[str, object]:
        """After `[webhooks]give_up_after` make all events up to the newest a failure."""
        if row.failing is None or row.failing < self._give_up_after:
            return {}
        _add_failure(connection, row, error[:255], newest_sequence)
        return {"position": newest_sequence}


def _add_failure(connection: Connection, hook: Row[Any], error: str, last_sequence: int) -> None:
    """Add a failure, or extend the one that the webhook got since its receiver fails."""
    failure_row = and_(_FAILURE.webhook_id == hook.id, _FAILURE.created_at >= hook.failing_since)
    change = update(WebhookFailure).where(failure_row).values(last=last_sequence, error=error)
    if not connection.execute(change).rowcount:
        values = {
            "webhook_id": hook.id,
            "after": hook.position,
            "last": last_sequence,
            "error": error,
        }
        connection.execute(insert(WebhookFailure).values(**values))
