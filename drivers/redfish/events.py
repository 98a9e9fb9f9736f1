"""
Redfish: subscriptions of this service to the events of a BMC, by the EventService of DSP0266.

Subscriptions of others are read, since a list has no other key, and are never changed. Each call
has one turn of the BMC, after waiting orders.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from drivers.core.bmc import Bmcs, Urgency
from drivers.core.errors import Busy, NotSupported, Refused, Unconfirmed
from drivers.core.kinds.events import EventSource, Subscription
from drivers.core.target import Target
from drivers.redfish.changes.order_answers import Answer, Result, answer_of
from drivers.redfish.transport import client
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import elements, entry, link_path, text
from drivers.redfish.transport.documents import Document, Documents

#: Types of events to subscribe to, of those that a BMC offers. Metric reports are left out: sensors
#: are read by the sweep.
TYPES = ("Alert", "StatusChange", "ResourceUpdated", "ResourceAdded", "ResourceRemoved")
#: Most subscriptions of a BMC that are read; they have some 20 places.
_MOST = 64
_LONGEST_PATH, _LONGEST_URL = 255, 2000  # characters
_TEST_ACTION = "#EventService.SubmitTestEvent"
#: States of a subscription that receives events; a missing state is one, too.
_ENABLED = (None, "Enabled")


class BmcEvents(EventSource):
    """Event source of RedfishManagement."""

    bmcs: Bmcs
    sends_events = True

    def event_subscriptions(
        self, target: Target, mark: str, path: str | None = None
    ) -> list[Subscription]:
        with client.turn(target, self.bmcs, Urgency.SYNC) as bmc:
            documents = Documents(bmc)
            if path is not None:
                subscription = _subscription(documents.at(path), mark)
                if subscription is not None:
                    return [subscription]
            service = _service(documents, bmc)
            documents.omitted.clear()
            listed = [_subscription(document, mark) for document in _members(documents, service)]
            if documents.omitted:  # one of them may be ours: another one would double it
                unread_paths = ", ".join(documents.omitted[:3])
                raise Refused(f"BMC {bmc.access.address} lists what it cannot show: {unread_paths}")
        return [subscription for subscription in listed if subscription is not None]

    def subscribe(self, target: Target, destination: str, mark: str, context: str) -> str | None:
        with client.turn(target, self.bmcs, Urgency.SYNC) as bmc:
            name = f"BMC {bmc.access.address}"
            service = _service(Documents(bmc), bmc)
            path = text(link_path(service, "Subscriptions"), _LONGEST_PATH)
            if path is None:
                raise NotSupported(f"{name} has no subscriptions to events")
            body = {"Destination": destination, "Protocol": "Redfish", "Context": context}
            bodies = [{**body, **types} for types in _types(service)]
            answer, location = _ordered(bmc, path, bodies)
        words = re.sub(rf"{re.escape(mark)}[^\s'\",]*", f"{mark}******", answer.words)
        if answer.result in (Result.DONE, Result.TASK):
            return location
        if answer.result is Result.BUSY:
            raise Busy(f"{name} refused a subscription to events for now: {words}")
        if answer.result is Result.REFUSED:
            raise Refused(f"{name} refused a subscription to events: {words}")
        raise Unconfirmed(f"{name} did not confirm a subscription to events: {words}")

    def unsubscribe(self, target: Target, path: str) -> None:
        with client.turn(target, self.bmcs, Urgency.SYNC) as bmc:
            answer = answer_of(bmc.order("DELETE", path, None), path)
            if answer.result not in (Result.DONE, Result.TASK) and answer.status not in (404, 410):
                name = f"BMC {bmc.access.address}"
                raise Refused(f"{name} did not delete the subscription {path}: {answer.words}")

    def submit_test_event(self, target: Target) -> bool:
        with client.turn(target, self.bmcs, Urgency.SYNC) as bmc:
            service = _service(Documents(bmc), bmc)
            action = entry(service, "Actions", _TEST_ACTION)
            path = text(entry(action, "target"), _LONGEST_PATH)
            if path is None:
                return False
            answer, _ = _ordered(bmc, path, _TEST_EVENTS)
            if answer.result is Result.REFUSED:
                raise Refused(f"BMC {bmc.access.address} sends no test event: {answer.words}")
        return True


#: Test events, the next one for BMCs that refuse the one before: parameters differ by version.
_TEST_EVENTS: Sequence[Mapping[str, object]] = (
    {
        "EventId": "1", "EventType": "Alert", "MessageId": "Base.1.0.Success",
        "Message": "A test of the subscription.", "MessageArgs": [], "Severity": "OK",
        "OriginOfCondition": "/redfish/v1/EventService",
    },
    {"MessageId": "Base.1.0.Success"},
    {"EventType": "Alert"},
)  # fmt: skip


def _service(documents: Documents, bmc: Connection) -> Document:
    """
    Read the event service.

    Raises NotSupported: there is none. Raises Refused: it is disabled.
    """
    service = documents.part(bmc.open().json, "EventService")
    if service is None:
        raise NotSupported(f"BMC {bmc.access.address} has no event service")
    if service.get("ServiceEnabled") is False:
        raise Refused(f"BMC {bmc.access.address} has a disabled event service (ServiceEnabled)")
    return service


def _members(documents: Documents, service: Document) -> Iterator[Document]:
    for count, document in enumerate(documents.members(service, "Subscriptions"), 1):
        yield document
        if count == _MOST:
            return


def _subscription(document: object, mark: str) -> Subscription | None:
    """Return a subscription whose destination has the mark; None for those of others."""
    destination = text(entry(document, "Destination"), _LONGEST_URL)
    path = text(entry(document, "@odata.id"), _LONGEST_PATH)
    if destination is None or path is None or mark not in destination:
        return None
    state = entry(document, "Status", "State")
    return Subscription(path, destination, state in _ENABLED)


def _types(service: Document) -> Iterator[Mapping[str, object]]:
    """
    Yield the properties that select events, the next ones for BMCs that refuse the ones before.

    EventTypes is deprecated, demanded by older BMCs, and unknown to some; without it a BMC sends
    all events. Some BMCs take one type alone.
    """
    offered = elements(service, "EventTypesForSubscription")
    types = [name for name in TYPES if name in offered]
    if types:
        yield {"EventTypes": types}
    if len(types) > 1 and "Alert" in types:
        yield {"EventTypes": ["Alert"]}
    yield {}


def _ordered(
    bmc: Connection, path: str, bodies: Sequence[Mapping[str, Any]]
) -> tuple[Answer, str | None]:
    """
    Send an order in the first form that the BMC does not refuse as malformed (400, 422).

    Return the last answer, and the path of the resource that it names. A 403 is an answer: the
    login is valid, and some BMCs refuse with it a subscription too many, or a user without rights.
    """
    for position, body in enumerate(bodies, 1):
        reply = client.reply(bmc.answer("post", path, data=body))
        answer = answer_of(reply, path)
        is_malformed = answer.result is Result.REFUSED and answer.status in (400, 422)
        if not is_malformed or position == len(bodies):
            break
    location = reply.location or entry(reply.document, "@odata.id")
    return answer, text(urlsplit(location).path, _LONGEST_PATH) if location else None
