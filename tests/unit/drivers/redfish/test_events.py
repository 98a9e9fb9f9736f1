"""Subscriptions to the events of a simulated BMC, over HTTP."""

import json
import queue

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core.bmc import Bmcs
from drivers.core.driver import interfaces_of
from drivers.core.errors import Busy, NotSupported, Refused, Unconfirmed
from drivers.core.registry import load
from drivers.simulator.redfish_bmc.documents import SUBSCRIPTIONS
from drivers.simulator.simulator import running
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import target

MARK = "/v1/redfish_events/n1/"
DESTINATION = f"https://ingot.example{MARK}the-secret"


@pytest.fixture
def fleet():
    with running(machines=1) as simulator:
        yield simulator


@pytest.fixture
def machine(fleet):
    return fleet.machines[0]


@pytest.fixture
def node(machine):
    registry = load(HARDWARE_TYPES, ["redfish"], bmcs=Bmcs(trip_after=100))
    return target("redfish", registry=registry, driver_info=machine.driver_info())


@pytest.fixture
def source(node):
    return interfaces_of(node).management


def orders(machine, order="create subscription"):
    return [entry["detail"] for entry in machine.log if entry["what"] == order]


def test_a_subscription_is_found_by_its_mark_among_those_of_others(machine, node, source):
    for destination in ("https://other.example/", "https://ingot.example/v1/redfish_events/n2/x"):
        assert source.subscribe(node, destination, MARK, "")
    path = source.subscribe(node, DESTINATION, MARK, "ingot n1")
    (subscription,) = source.event_subscriptions(node, MARK)
    assert (path, DESTINATION, True) == (
        subscription.path, subscription.destination, subscription.is_enabled,
    )  # fmt: skip
    assert "ingot n1" == machine.subscriptions[path]["Context"]
    source.unsubscribe(node, path)
    source.unsubscribe(node, path)  # it is gone
    assert [] == source.event_subscriptions(node, MARK)
    assert 2 == len(machine.subscriptions)


def test_a_known_subscription_costs_one_read(machine, node, source):
    for number in range(3):
        source.subscribe(node, f"https://other.example/{number}", MARK, "")
    path = source.subscribe(node, DESTINATION, MARK, "")
    reads = machine.reads
    assert 1 == len(source.event_subscriptions(node, MARK, path))
    assert reads + 1 == machine.reads


def test_a_path_that_has_become_the_subscription_of_another_is_not_taken_for_ours(
    machine, node, source
):
    path = source.subscribe(node, "https://other.example/", MARK, "")
    assert [] == source.event_subscriptions(node, MARK, path)


def test_a_subscription_that_the_bmc_has_suspended_is_shown_as_such(machine, node, source):
    path = source.subscribe(node, DESTINATION, MARK, "")
    machine.subscriptions[path]["Status"] = {"State": "Disabled"}
    (subscription,) = source.event_subscriptions(node, MARK)
    assert not subscription.is_enabled


@pytest.mark.parametrize(
    ("faults", "types"),
    [
        ({}, ["Alert", "StatusChange", "ResourceUpdated", "ResourceAdded", "ResourceRemoved"]),
        ({"event_types_unknown": True}, None),
        ({"property_missing": {"property": "EventTypesForSubscription"}}, None),
    ],
)
def test_types_are_ordered_as_the_bmc_takes_them(fleet, machine, node, source, faults, types):
    fleet.set_faults(0, **faults)
    source.subscribe(node, DESTINATION, MARK, "")
    (order,) = orders(machine)
    assert types == order.get("EventTypes")


@pytest.mark.parametrize(
    ("faults", "destination", "error", "words"),
    [
        ({"events_need_tls": True}, f"http://ingot{MARK}the-secret", Refused, "wrong format"),
        ({"most_subscriptions": 0}, DESTINATION, Busy, "number of simultaneous"),
        (
            {"order_fails": {"status": 403, "orders": ["other"], "message": "Too many of them."}},
            DESTINATION,
            Refused,
            "403: Too many of them",
        ),
        (
            {"property_missing": {"property": "EventService"}},
            DESTINATION,
            NotSupported,
            "has no event service",
        ),
        (
            {"property_odd": {"property": "ServiceEnabled", "value": "false"}},
            DESTINATION,
            Refused,
            "disabled event service",
        ),
        ({"answer_lost": {"orders": ["other"]}}, DESTINATION, Unconfirmed, ""),
    ],
)
def test_a_refusal_is_an_error_in_the_bmcs_words_without_the_secret(
    fleet, node, source, faults, destination, error, words
):
    fleet.set_faults(0, **faults)
    with pytest.raises(error) as refusal:
        source.subscribe(node, destination, MARK, "")
    assert words in str(refusal.value)
    assert "the-secret" not in str(refusal.value)


def test_a_list_that_the_bmc_cannot_show_whole_is_no_reason_to_subscribe(
    fleet, machine, node, source
):
    source.subscribe(node, DESTINATION, MARK, "")
    fleet.set_faults(0, error_rate=0)
    machine.subscriptions[f"{SUBSCRIPTIONS}/other"] = "no document"
    with pytest.raises(Refused, match="lists what it cannot show"):
        source.event_subscriptions(node, MARK)


class _Posted(Handler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(204, b"")
        self.server.bodies.put(json.loads(body))


def test_a_test_event_arrives_at_the_destination(machine, node, source):
    bodies = queue.Queue()
    with serving(_Posted, bodies=bodies) as server:
        source.subscribe(node, f"{server.url}{MARK}s", MARK, "ingot n1")
        assert source.submit_test_event(node)
        body = bodies.get(timeout=60)
        assert ("ingot n1", "Alert") == (body["Context"], body["Events"][0]["EventType"])
    assert 1 == len(orders(machine, "test event"))


def test_a_bmc_that_offers_no_test_event_is_not_ordered_one(fleet, machine, node, source):
    fleet.set_faults(0, property_missing={"property": "#EventService.SubmitTestEvent"})
    assert not source.submit_test_event(node)
    assert [] == orders(machine, "test event")
