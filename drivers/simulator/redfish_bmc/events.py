"""
Event service of a simulated BMC: its documents, subscriptions, and the delivery of events.

An event is posted once to each subscription that is enabled. Loss by a reset of the BMC, limits and
suspended subscriptions are faults (`drivers.simulator.faults`).
"""

import asyncio
from collections.abc import Mapping
from time import time
from typing import Any, Protocol

import aiohttp

from drivers.simulator.machine import Machine
from drivers.simulator.redfish_bmc.documents import (
    EVENTS,
    OK,
    SUBSCRIPTIONS,
    Document,
    collection,
    link,
    redfish_time,
    resource,
)
from drivers.simulator.refusal import Refusal
from drivers.simulator.server import Response, json

TYPES = ["StatusChange", "ResourceUpdated", "ResourceAdded", "ResourceRemoved", "Alert"]
TEST = f"{EVENTS}/Actions/EventService.SubmitTestEvent"
#: Seconds for a destination to answer.
_TIMEOUT = 5.0
#: Properties of an event in the request for a test event, and their values without one.
_TEST_EVENT: Mapping[str, object] = {
    "EventType": "Alert", "MessageId": "Base.1.12.Success", "Message": "This is a test.",
    "Severity": "OK",
}  # fmt: skip


class Source(Protocol):
    """A machine, and the client by which its BMC sends."""

    machine: Machine
    client: aiohttp.ClientSession


#: Posts that have not ended; without a reference, asyncio may drop a task.
_posts: set["asyncio.Task[None]"] = set()


def service(_machine: Machine) -> Document:
    return resource(
        EVENTS,
        "EventService.v1_7_0.EventService",
        "Event Service",
        ServiceEnabled=True,
        EventTypesForSubscription=TYPES,
        Subscriptions=link(SUBSCRIPTIONS),
        Actions={"#EventService.SubmitTestEvent": {"target": TEST}},
    )


def subscriptions(machine: Machine) -> Document:
    return collection(SUBSCRIPTIONS, "EventDestination", machine.subscriptions)


def subscribe(source: Source, body: dict[str, Any]) -> Response:
    """Carry out the order of a new subscription. Raises Refusal."""
    machine, faults = source.machine, source.machine.faults
    events, destination = body.get("EventTypes", []), body.get("Destination")
    if not destination:
        raise Refusal(400, "PropertyMissing", "Destination is missing.")
    if faults.event_types_unknown and "EventTypes" in body:
        raise Refusal(400, "PropertyUnknown", "The property EventTypes is not in the list.")
    if not set(events) <= set(TYPES):
        raise Refusal(400, "PropertyValueNotInList", f"EventTypes cannot be {events!r}.")
    if faults.events_need_tls and not str(destination).startswith("https://"):
        words = f"The value {destination} for the property Destination has the wrong format."
        raise Refusal(400, "PropertyValueFormatError", words)
    if len(machine.subscriptions) >= faults.most_subscriptions:
        words = "The event subscription failed due to the number of simultaneous subscriptions."
        raise Refusal(503, "EventSubscriptionLimitExceeded", words)
    number = f"{machine.random.getrandbits(32):08x}"
    path = f"{SUBSCRIPTIONS}/{number}"
    properties = {name: value for name, value in body.items() if name != "HttpHeaders"}
    kind = "EventDestination.v1_9_0.EventDestination"
    machine.subscriptions[path] = resource(path, kind, "Subscription", Status=OK, **properties)
    machine.record("redfish", "create subscription", body)
    return json(machine.subscriptions[path], 201, {"Location": path})


def submit_test(source: Source, body: dict[str, Any]) -> Response:
    """Carry out the order of a test event."""
    source.machine.record("redfish", "test event", body)
    event = {name: body.get(name, value) for name, value in _TEST_EVENT.items()}
    send(source, event)
    return Response(204)


def power_changed(source: Source) -> None:
    """Send the event of a new power state."""
    machine = source.machine
    state = machine.power
    send(source, {
        "EventType": "StatusChange", "MessageId": f"ResourceEvent.1.3.ResourcePowered{state}",
        "Message": f"The resource has been powered {state.lower()}.", "Severity": "OK",
        "OriginOfCondition": link(machine.system_id),
    })  # fmt: skip


def send(source: Source, event: Mapping[str, object]) -> None:
    """Post an event to all subscriptions that are enabled. Call it in the event loop."""
    machine = source.machine
    if machine.faults.events_lost or machine.faults.bmc_dead:
        return
    for path, subscription in machine.subscriptions.items():
        if subscription["Status"] == OK:
            task = asyncio.create_task(_post(source, path, event))
            _posts.add(task)
            task.add_done_callback(_posts.discard)


async def _post(source: Source, path: str, event: Mapping[str, object]) -> None:
    machine = source.machine
    subscription = machine.subscriptions[path]
    occurrence = {"EventTimestamp": redfish_time(time()), "EventId": "1", "MessageArgs": []}
    body = {
        "@odata.type": "#Event.v1_7_0.Event",
        "Id": "1",
        "Name": "Event",
        "Context": subscription.get("Context", ""),
        "Events": [{**occurrence, **event}],
    }
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    try:
        url = str(subscription["Destination"])
        async with source.client.post(url, json=body, ssl=False, timeout=timeout) as answer:
            status = answer.status
    except (aiohttp.ClientError, RuntimeError, OSError, ValueError):  # or the client is closed
        status = 0
    machine.record("machine", "event", {"status": status, "event": event})
    if not 200 <= status < 300 and machine.faults.events_suspended_by_failure:
        subscription["Status"] = {"State": "Disabled", "Health": "OK"}
