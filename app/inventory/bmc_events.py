"""
Receipt of events of BMCs: the check of their secret, hints of facts to read, alerts in the history.

The sender knows the secret of a node: it is its BMC, or a reader of the BMC's subscriptions. Its
flood costs a process one query a second, the BMC one read in `PAUSE`, and the history `MOST_ALERTS`
entries in `WINDOW`.
"""

import hmac
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from app.db.clock import age, fixed, moment, now
from app.db.prepared import Prepared
from app.errors import NotFound
from app.inventory import event_documents, event_subscriptions, history
from app.inventory.event_documents import Event
from app.metrics.table import BMC_EVENTS
from app.models import EventSubscription, Node, NodeHistory
from app.requests.rate_limit import RateLimit
from app.rows.uuid_or_name import is_uuid
from app.runtime import Runtime, runtime_of
from app.text.sentences import enumerated

#: Requests of a destination that a process looks at in a minute; further ones are accepted unread,
#: since a BMC suspends subscriptions whose events are refused.
PER_MINUTE = 60
#: Seconds from an event to the read: a machine that restarts is off for a moment. Least seconds
#: between two reads of a BMC because of events.
SETTLE, PAUSE = 3.0, 15.0
#: Seconds without another entry for an alert, and most entries of a node in that time.
WINDOW, MOST_ALERTS = 3600.0, 20
ALERT = "bmc_alert"
#: Most alerts that a sentence names.
_NAMED = 3
#: Least seconds between two records of arrivals that change nothing else.
_ARRIVALS = 60.0
#: Seconds after which a read is left to the sweep.
OLDEST_HINT = 60.0

_SUBSCRIPTION = EventSubscription.__table__.c
_DIGEST = Prepared(
    select(_SUBSCRIPTION.digest)
    .join(Node.__table__, Node.__table__.c.id == _SUBSCRIPTION.node_id)
    .where(Node.__table__.c.uuid == bindparam("uuid"))
)
#: Selects a row while facts are due to be read.
HINT_ONE = Prepared(
    select(_SUBSCRIPTION.id).where(_SUBSCRIPTION.hint_due_at <= fixed(now())).limit(1)
)


class Receiver:
    """Receiver of events in one process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._rate = RateLimit(PER_MINUTE)

    def receive(self, uuid: str, secret: str, body: bytes) -> None:
        """
        Take the events of a node's BMC.

        Raises NotFound: the service has no subscription with this node and secret.
        """
        digest = event_subscriptions.digest(secret)
        is_on = self._runtime.settings.redfish.event_receiver_url is not None
        if not is_on or not is_uuid(uuid):
            raise _unknown()
        if self._rate.take(f"{uuid} {digest}"):
            BMC_EVENTS.add("dropped")
            return
        with self._runtime.read_connection() as connection:
            row = _DIGEST.first(connection, {"uuid": uuid})
        if row is None or row[0] is None or not hmac.compare_digest(digest, row[0]):
            raise _unknown()
        events = event_documents.events_in(body)
        if events is None:
            BMC_EVENTS.add("malformed")
        for event in events or ():
            for kind in event.hints or {"other"}:
                BMC_EVENTS.add(kind)
        self._record(uuid, digest, events or ())

    def _record(self, uuid: str, digest: str, events: Sequence[Event]) -> None:
        with self._runtime.reading() as session:
            rows = _rows(session, uuid)
            if rows is None or not _is_news(session, rows[1], events):
                return
        with self._runtime.transaction() as session:
            rows = _rows(session, uuid, lock=True)
            if rows is not None and rows[1].digest == digest:
                _apply(session, *rows, events)


def _unknown() -> NotFound:
    BMC_EVENTS.add("refused")
    return NotFound("subscription", "", "There is no such subscription.")


def _rows(
    session: Session, uuid: str, *, lock: bool = False
) -> tuple[Node, EventSubscription] | None:
    query = (
        select(Node, EventSubscription)
        .join(EventSubscription, EventSubscription.node_id == Node.id)
        .where(Node.uuid == uuid)
    )
    row = session.execute(query.with_for_update(of=EventSubscription) if lock else query).first()
    return None if row is None else (row[0], row[1])


def _is_news(session: Session, row: EventSubscription, events: Sequence[Event]) -> bool:
    """Whether events change anything."""
    if row.received_at is None or (row.subscribed_at or row.received_at) > row.received_at:
        return True
    if (moment(session) - row.received_at).total_seconds() > _ARRIVALS:
        return True
    hints = set().union(*(event.hints for event in events))
    has_hints = bool(hints - set(row.hints.split()))
    return has_hints or bool(row.node_id and _new_alerts(session, row.node_id, events))


def _apply(session: Session, node: Node, row: EventSubscription, events: Sequence[Event]) -> None:
    time = moment(session)
    row.received_at = time
    hints = set(row.hints.split()).union(*(event.hints for event in events))
    if hints:
        row.hints = " ".join(sorted(hints))
        row.hint_due_at = row.hint_due_at or _due(time, row.hint_read_at)
    for event in _new_alerts(session, node.id, events):
        severity = "ERROR" if event.severity == "Critical" else "WARNING"
        history.add(session, node, ALERT, event.text, severity)


def _due(time: datetime, read_at: datetime | None) -> datetime:
    """Return the time of the next read after an event."""
    due_at = time + timedelta(seconds=SETTLE)
    return due_at if read_at is None else max(due_at, read_at + timedelta(seconds=PAUSE))


def _new_alerts(session: Session, node_id: int, events: Iterable[Event]) -> list[Event]:
    """Return the alerts that the history has not, as far as there is room for them."""
    alerts = {event.key: event for event in events if event.is_alert}
    if not alerts or not runtime_of(session).settings.conductor.node_history:
        return []
    recorded_alerts = recent_alerts(session, node_id)
    new_alerts = [
        event
        for event in alerts.values()
        if not any(text.endswith(event.key) for text in recorded_alerts)
    ]
    return new_alerts[: max(MOST_ALERTS - len(recorded_alerts), 0)]


def described(session: Session, node_id: int) -> str | None:
    """Describe the alerts of a node within `WINDOW`; None if there are none."""
    alerts = recent_alerts(session, node_id)
    return enumerated(alerts, _NAMED, separator="; ") or None


def recent_alerts(session: Session, node_id: int) -> Sequence[str]:
    """Return the entries for alerts of a node within `WINDOW`, the newest first."""
    query = select(NodeHistory.event).where(
        NodeHistory.node_id == node_id,
        NodeHistory.event_type == ALERT,
        age(NodeHistory.created_at) < WINDOW,
    )
    return session.scalars(query.order_by(NodeHistory.id.desc()).limit(MOST_ALERTS)).all()
