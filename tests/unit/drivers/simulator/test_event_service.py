"""The event service of a simulated BMC, and its faults."""

import asyncio
import queue

import pytest
import requests

from drivers.simulator.redfish_bmc import events
from drivers.simulator.redfish_bmc.documents import MANAGER, SUBSCRIPTIONS
from drivers.simulator.redfish_bmc.events import TEST
from drivers.simulator.simulator import running
from tests.support.fleet import until
from tests.support.web import Handler, serving

LOGIN = ("admin", "admin")


@pytest.fixture
def fleet():
    with running(machines=1) as simulator:
        yield simulator


@pytest.fixture
def machine(fleet):
    return fleet.machines[0]


class _Posted(Handler):
    def do_POST(self):
        body = self.body()
        self.answer(204)
        self.server.bodies.put(body)


@pytest.fixture
def receiver():
    with serving(_Posted, bodies=queue.Queue()) as server:
        yield server


def order(machine, path, body):
    return requests.post(machine.redfish_address + path, json=body, auth=LOGIN, timeout=60)


def subscribe(machine, url):
    return order(machine, SUBSCRIPTIONS, {"Destination": url, "Context": "c"})


def posts(machine):
    """Status of each delivery."""
    return [entry["detail"]["status"] for entry in machine.log if entry["what"] == "event"]


def test_changes_of_power_and_given_events_are_posted(fleet, machine, receiver):
    subscribe(machine, receiver.url)
    fleet.press(0, on=True)
    body = receiver.bodies.get(timeout=60)
    (event,) = body["Events"]
    assert ("c", "ResourceEvent.1.3.ResourcePoweredOn") == (body["Context"], event["MessageId"])
    fleet.send_event(0, {"MessageId": "Env.1.0.FanFailed", "Severity": "Critical"})
    (event,) = receiver.bodies.get(timeout=60)["Events"]
    assert "Critical" == event["Severity"]


def test_lost_events_are_not_posted(fleet, machine, receiver):
    subscribe(machine, receiver.url)
    fleet.set_faults(0, events_lost=True)
    assert 204 == order(machine, TEST, {}).status_code
    fleet.set_faults(0, events_lost=None)
    order(machine, TEST, {"Message": "the second"})
    (event,) = receiver.bodies.get(timeout=60)["Events"]
    assert "the second" == event["Message"]


def test_a_failed_delivery_suspends_a_subscription_with_that_fault_alone(fleet, machine):
    (path,) = [subscribe(machine, "http://127.0.0.1:1").headers["Location"]]
    order(machine, TEST, {})
    until(lambda: [0] == posts(machine), "the failed delivery")
    assert "Enabled" == machine.subscriptions[path]["Status"]["State"]
    fleet.set_faults(0, events_suspended_by_failure=True)
    order(machine, TEST, {})
    until(lambda: machine.subscriptions[path]["Status"]["State"] == "Disabled", "the suspension")


def test_a_suspended_subscription_gets_no_events(machine, monkeypatch):
    suspended, enabled = (
        subscribe(machine, f"https://ingot.example/{number}").headers["Location"]
        for number in range(2)
    )
    machine.subscriptions[suspended]["Status"] = {"State": "Disabled"}
    paths = []

    def post(_source, path, _event):
        paths.append(path)
        return asyncio.sleep(0)

    monkeypatch.setattr(events, "_post", post)
    order(machine, TEST, {})
    assert [enabled] == paths


@pytest.mark.parametrize(("fault", "count"), [(False, 1), (True, 0)])
def test_a_reset_of_the_bmc_drops_subscriptions_with_that_fault_alone(fleet, machine, fault, count):
    subscribe(machine, "https://ingot.example")
    fleet.set_faults(0, subscriptions_volatile=fault)
    order(machine, f"{MANAGER}/Actions/Manager.Reset", {"ResetType": "GracefulRestart"})
    assert count == len(machine.subscriptions)
