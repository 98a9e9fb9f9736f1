"""
Delivery of change events to the receivers of webhooks.

The row of a webhook has the number of the last event that its receiver has accepted. An attempt
holds the webhook by a lease in that row, posts the next events, and advances the number only if it
still holds the webhook. So a death at any line repeats events, and loses none.
"""

import hashlib
import hmac
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

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

from app import killpoints, log
from app.db.clock import after, age, now
from app.db.prepared import Prepared
from app.db.sealing import has_sealed
from app.kit import change_events
from app.metrics.table import WEBHOOK_DELIVERIES, WEBHOOK_LAG
from app.models import ChangeEvent, Webhook, WebhookFailure
from app.runtime import Runtime
from drivers.core.errors import HardwareError
from drivers.web import fetch
from workers import retry

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Webhooks that a process serves at once: one thread each, because receivers may be slow.
AT_ONCE = 32
#: Most events in a request, and most requests to a receiver before it is another one's turn.
BATCH, ROUND = 100, 20
#: Numbers without an event for the receiver, after which its position is recorded nevertheless.
UNRECORDED = 10_000
#: Seconds before the second attempt.
FIRST_RETRY = 1.0
#: Seconds of a lease beyond the longest attempt.
MARGIN = 5.0
#: Header of the signature.
SIGNATURE = "Ingot-Signature"

_HOOK: Any = Webhook.__table__.c
_EVENT: Any = ChangeEvent.__table__.c
_FAILURE: Any = WebhookFailure.__table__.c

_DUE = _HOOK.enabled & (_HOOK.due_at <= now())
#: Selects a row while a webhook is due, which may have no events to post.
DUE_ONE = Prepared(select(_HOOK.id).where(_DUE).limit(1))


class Deliverer:
    """Deliveries of a process, in threads, so that no receiver delays another one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._settings = runtime.settings.webhooks
        self._options = runtime.settings.options()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="webhook")
        self._served: set[int] = set()  # ids of the webhooks with a thread

    def start_due(self) -> None:
        """Begin to serve the webhooks that are due, as many as there are free threads."""
        for ident in self._due():
            if len(self._served) >= AT_ONCE:
                return
            if ident not in self._served:
                self._served.add(ident)
                self._threads.submit(self._serve, ident)

    def close(self) -> None:
        """Wait until no webhook is served."""
        self._threads.shutdown()

    def _due(self) -> Sequence[int]:
        """Return the ids of webhooks with events to post, those that wait for longest first."""
        with self._runtime.read_connection() as connection:
            if DUE_ONE.first(connection, {}) is None:
                return ()
        change_events.number(self._runtime)
        newest = select(func.max(_EVENT.sequence)).scalar_subquery()
        behind = (
            select(_HOOK.id)
            .where(_DUE, _HOOK.position < newest)
            .order_by(_HOOK.due_at)
            .limit(2 * AT_ONCE)
        )
        with self._runtime.read_connection() as connection:
            return connection.scalars(behind).all()

    def _serve(self, ident: int) -> None:
        """Post the events of a webhook until there are none, an attempt fails, or its turn ends."""
        try:
            with retry.log_outages("webhooks"):
                for _ in range(ROUND):
                    if not self.deliver(ident):
                        break
        except Exception:
            logger.exception("webhook.crashed", webhook=ident)
        finally:
            self._served.discard(ident)

    def deliver(self, ident: int) -> bool:
        """Post the next events of a webhook; return whether to continue with those after them."""
        with self._runtime.read_connection() as connection:
            hook = connection.execute(_read(ident)).one_or_none()
            if hook is None:
                return False
            found = change_events.read(
                connection, _selected(hook), hook.position, BATCH, of_node=bool(hook.node_uuid)
            )
            _, newest = change_events.ends(connection)
        if not found.rows:
            return found.last - hook.position >= UNRECORDED and self._skip(hook, found.last)
        token = uuid4().hex
        if not self._hold(hook, token):
            return False
        waited, begun = max(0.0, found.rows[0].waited), time.monotonic()
        error = self._post(hook, max(hook.position, found.first - 1), found)
        killpoints.reach("posted")
        if error is not None:
            self._record_failure(hook, token, error, newest)
        elif self._record(hook, token, found.last):
            WEBHOOK_DELIVERIES.add("accepted")
            WEBHOOK_LAG.observe(waited + time.monotonic() - begun)
            return True
        return False

    def _skip(self, hook: Row[Any], last: int) -> bool:
        """Record that no event up to a number passes the filters; False: the position changed."""
        return self._update(_unheld(hook), {"position": last})

    def _hold(self, hook: Row[Any], token: str) -> bool:
        """Take the lease of a webhook; False: another attempt has it, or the position changed."""
        seconds = 3 * self._settings.timeout + MARGIN
        return self._update(_unheld(hook), {"holder": token, "due_at": after(seconds)})

    def _record(self, hook: Row[Any], token: str, last: int) -> bool:
        """Record that the receiver has accepted all events up to a number."""
        values = {
            "position": last, "holder": None, "due_at": now(), "failed_attempts": 0,
            "failing_since": None, "last_error": None, "last_delivery_at": now(),
        }  # fmt: skip
        return self._update(_held(hook, token), values)

    def _record_failure(self, hook: Row[Any], token: str, error: str, newest: int) -> None:
        """
        Record a failed attempt, and when to repeat it.

        After `[webhooks]give_up_after` all events up to `newest` become a failure.
        """
        longest = self._settings.max_retry_interval
        pause = min(longest, FIRST_RETRY * 2 ** min(hook.failed_attempts, 30))
        gives_up = hook.failing is not None and hook.failing >= self._settings.give_up_after
        pause *= random.uniform(0.5, 1)  # noqa: S311 - jitter
        values = {
            "holder": None, "due_at": after(pause), "last_error": error,
            "failed_attempts": hook.failed_attempts + 1,
            "failing_since": func.coalesce(_HOOK.failing_since, now()),
        }  # fmt: skip
        with self._runtime.write_connection() as connection:
            change = update(Webhook).where(_held(hook, token))
            if gives_up:
                values["position"] = newest
            if not connection.execute(change.values(**values)).rowcount:
                return
            if gives_up:
                _add_failure(connection, hook, error, newest)
        WEBHOOK_DELIVERIES.add("given_up" if gives_up else "failed")
        facts = {"webhook": hook.uuid, "error": error, "after": hook.position}
        seldom.warning("webhook.given_up" if gives_up else "webhook.failed", **facts)

    def _update(self, condition: ColumnElement[bool], values: Mapping[str, Any]) -> bool:
        with self._runtime.write_connection() as connection:
            change = update(Webhook).where(condition).values(**values)
            return bool(connection.execute(change).rowcount)

    def _post(self, hook: Row[Any], since: int, found: change_events.Found) -> str | None:
        """Post events to the receiver; return the error, None if it has accepted them."""
        secrets = [hook.secret, *([hook.previous_secret] if hook.overlaps else ())]
        if any(map(has_sealed, (hook.url, *secrets))):
            return "no key of this conductor opens the secrets of the webhook"
        shown = [change_events.document(row) for row in found.rows]
        document = {"webhook": hook.uuid, "after": since, "last": found.last, "events": shown}
        body = orjson.dumps(document, option=orjson.OPT_NAIVE_UTC)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "ingot",
            SIGNATURE: signature(secrets, int(time.time()), body),
        }
        try:
            status = fetch.post(self._options, hook.url, body, headers, self._settings.timeout)
        except HardwareError as error:
            return str(error)[:255]
        return None if 200 <= status < 300 else f"the receiver answered {status}"


def signature(secrets: Sequence[str], seconds: int, body: bytes) -> str:
    """Return the value of the signature's header. seconds: time since 1970."""
    signed = b"%d." % seconds + body
    digests = [hmac.digest(each.encode(), signed, hashlib.sha256).hex() for each in secrets]
    return ",".join((f"t={seconds}", *(f"v1={each}" for each in digests)))


def _read(ident: int) -> Select[Any]:
    """Select the facts about a webhook for one attempt."""
    return select(
        *(_HOOK[name] for name in (
            "id", "uuid", "url", "owner", "types", "node_uuid", "secret", "previous_secret",
            "position", "failed_attempts", "failing_since",
        )),
        age(_HOOK.failing_since).label("failing"),
        func.coalesce(_HOOK.previous_secret_until > now(), False).label("overlaps"),
    ).where(_HOOK.id == ident, _HOOK.enabled)  # fmt: skip


def _selected(hook: Row[Any]) -> Select[Any]:
    """Select the events that pass the filters of a webhook."""
    selected = change_events.ALL.add_columns(age(_EVENT.created_at).label("waited"))
    if hook.owner is not None:
        selected = selected.where(or_(_EVENT.owner == hook.owner, _EVENT.lessee == hook.owner))
    if hook.types:
        selected = selected.where(_EVENT.type.in_(hook.types))
    if hook.node_uuid:
        selected = selected.where(_EVENT.node_uuid == hook.node_uuid)
    return selected


def _unheld(hook: Row[Any]) -> ColumnElement[bool]:
    due = _HOOK.enabled & (_HOOK.due_at <= now())
    return and_(_HOOK.id == hook.id, _HOOK.position == hook.position, due)


def _held(hook: Row[Any], token: str) -> ColumnElement[bool]:
    return and_(_HOOK.id == hook.id, _HOOK.position == hook.position, _HOOK.holder == token)


def _add_failure(connection: Connection, hook: Row[Any], error: str, last: int) -> None:
    """Add a failure, or extend the one that the webhook got since its receiver fails."""
    same = and_(_FAILURE.webhook_id == hook.id, _FAILURE.created_at >= hook.failing_since)
    change = update(WebhookFailure).where(same).values(last=last, error=error)
    if not connection.execute(change).rowcount:
        values = {"webhook_id": hook.id, "after": hook.position, "last": last, "error": error}
        connection.execute(insert(WebhookFailure).values(**values))
