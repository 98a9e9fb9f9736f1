"""
Subscriptions to the events of BMCs: their destinations, states, and departures.

A destination has a secret of its own, of which the row keeps the digest. It is recorded before the
order: a subscription whose conductor has died is recognized by it, and not ordered again.
"""

import hashlib
import secrets
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.config.settings import Settings
from app.db.clock import moment
from app.models import EventSubscription, Node
from app.rows.uuid_or_name import identified

#: Path of the receiver below the URL of the service; node and secret follow.
PATH = "/v1/redfish_events/"
#: Fields of a node that reach its BMC.
_ACCESS = ("uuid", "driver", "conductor_group", "management_interface", "driver_info")
#: Ends of the keys of driver_info that tell which BMC it is.
_PLACES = ("_address", "_system_id", "_port")


class SubscriptionState(StrEnum):
    """State of a node's subscription."""

    OFF = "off"  # there is none, and none is wanted
    UNCHECKED = "unchecked"  # none was ordered yet
    REFUSED = "refused"  # there is none: the error has the reason
    SUBSCRIBED = "subscribed"  # the BMC lists it; no event has arrived
    PROVEN = "proven"  # an event has arrived since the subscription


class Shown(NamedTuple):
    """A node's subscription for callers."""

    state: SubscriptionState
    subscribed_at: datetime | None = None
    tested_at: datetime | None = None
    received_at: datetime | None = None
    error: str | None = None


def mark(uuid: str) -> str:
    """Return the part of a destination that names its node."""
    return f"{PATH}{uuid}/"


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def destination(url: str, uuid: str, secret: str) -> str:
    """Return the URL that a BMC posts its events to. url: of the service."""
    return f"{url.rstrip('/')}{mark(uuid)}{secret}"


def digest(secret: str) -> str:
    """Return the digest of a secret: 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def leads_here(listed_url: str, url: str, uuid: str, recorded_digest: str | None) -> bool:
    """Whether a destination that a BMC lists is the recorded one of a node, at this service."""
    return listed_url.startswith(destination(url, uuid, "")) and is_recorded(
        listed_url, recorded_digest
    )


def is_recorded(listed_url: str, recorded_digest: str | None) -> bool:
    """Whether a destination has the secret of a digest."""
    return digest(listed_url.rpartition("/")[2]) == recorded_digest


def of_node(session: Session, ident: str, settings: Settings) -> Shown:
    """
    Return the subscription of a node by its UUID or name.

    Raises NotFound: the identifier is malformed.
    """
    query = select(EventSubscription).join(Node, Node.id == EventSubscription.node_id)
    row = session.scalar(query.where(identified(ident)))
    is_on = settings.redfish.event_receiver_url is not None
    if row is None:
        return Shown(SubscriptionState.UNCHECKED if is_on else SubscriptionState.OFF)
    return Shown(_state(row), row.subscribed_at, row.tested_at, row.received_at, row.error)


def _state(row: EventSubscription) -> SubscriptionState:
    if row.subscribed_at is None:
        return SubscriptionState.REFUSED if row.error else SubscriptionState.UNCHECKED
    is_proven = row.received_at is not None and row.received_at >= row.subscribed_at
    return SubscriptionState.PROVEN if is_proven else SubscriptionState.SUBSCRIBED


def access_of(node: Node) -> dict[str, Any]:
    """Return what reaches the BMC of a node."""
    return {name: getattr(node, name) for name in _ACCESS}


def follow(session: Session, node: Node, former_access: Mapping[str, Any]) -> None:
    """Leave the former BMC of a changed node, if it has another. former_access: by `access_of`."""
    if _place(former_access) != _place(access_of(node)):
        depart(session, node, former_access)


def depart(session: Session, node: Node, access: Mapping[str, Any]) -> None:
    """Have a subscription deleted at the BMC that its node leaves. access: by `access_of`."""
    row = session.scalar(select(EventSubscription).where(EventSubscription.node_id == node.id))
    if row is None or row.digest is None:
        return
    row.node_id, row.departed = None, dict(access)
    row.departed_at = row.due_at = moment(session)
    row.hints, row.hint_due_at = "", None
    session.flush()


def _place(access: Mapping[str, Any]) -> object:
    """Return what differs if two results of `access_of` lead to different BMCs or drivers."""
    places = {key: value for key, value in access["driver_info"].items() if key.endswith(_PLACES)}
    return access["driver"], access["management_interface"], places
