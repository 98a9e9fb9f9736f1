"""Webhooks of a real service: processes are killed, the receiver comes and goes, no event is lost."""

import os
import signal
from collections import defaultdict
from contextlib import suppress

import pytest

from tests.support import processes
from tests.support.fleet import Fleet, until
from tests.support.receiver import SECRET, receiving

SETTINGS = {
    "INGOT_WEBHOOKS_TIMEOUT": "4",
    "INGOT_WEBHOOKS_MAX_RETRY_INTERVAL": "1",
}


@pytest.fixture
def receiver():
    with receiving() as server:
        yield server


def create(fleet, receiver, name, **fields):
    fleet._create("webhooks", {"name": name, "url": receiver.url, "secret": SECRET, **fields})


def kill(pids):
    """Kill processes; the supervisor starts their conductors again."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def deliverers(fleet):
    """Pids of the control processes of all conductors."""
    return [pid for number in (1, 2) for pid in processes.children(fleet.conductor(number))]


def test_each_event_arrives_in_order_through_kills_and_absences(tmp_path, receiver):
    mark = tmp_path / "died"
    strike = {"INGOT_KILL_POINTS": f"any:posted=die-{mark}"}
    with receiving() as silent, Fleet(tmp_path, restart=True, **SETTINGS, **strike) as fleet:
        create(fleet, receiver, "all")
        nodes = fleet.create_nodes(5)
        until(mark.exists, "the death between the receiver's answer and its record")
        silent.gate.clear()
        create(fleet, silent, "silent")
        start = fleet.get("webhooks/silent")["position"]

        receiver.gate.clear()
        receiver.arrived.clear()
        fleet.provision(nodes, "manage")
        until(receiver.arrived.is_set, "a delivery that waits for its answer")
        kill(deliverers(fleet))
        receiver.gate.set()
        fleet.await_state(nodes, "manageable")

        receiver.status = 500
        fleet.provision(nodes, "provide")
        until(lambda: fleet.get("webhooks/all")["failed_attempts"], "a failed attempt")
        fleet.await_state(nodes, "available")
        receiver.status = 200
        fleet.provision(nodes, "active")
        kill([fleet.conductor(1)])
        fleet.await_state(nodes, "active")

        expected = until(
            lambda: (events := fleet.change_events()) and events[-1]["sequence"] in receiver.numbers
            and events,
            "the last event",
        )  # fmt: skip
        assert [*range(1, len(expected) + 1)] == [event["sequence"] for event in expected]
        assert expected == receiver.events[: len(expected)], "in order, none missing"
        assert 5 == len({event["node_uuid"] for event in receiver.events})
        repeats = sum(len(document["events"]) for document in receiver.documents) - len(
            receiver.events
        )
        assert repeats, "the attempt that died before its record was repeated"
        until(lambda: fleet.get("webhooks/silent")["last_error"], "the end of a silent attempt")
        assert start == fleet.get("webhooks/silent")["position"]
        silent.gate.set()


def test_a_project_sees_its_nodes_only_and_failures_are_replayed(tmp_path, receiver):
    impatient = {"INGOT_WEBHOOKS_GIVE_UP_AFTER": "0"}
    with Fleet(tmp_path, conductors=1, **SETTINGS, **impatient) as fleet:
        fleet.create_nodes(1)
        create(fleet, receiver, "theirs", owner="p-1", types=["node.provision_state"])
        theirs = "6b4d6a0c-9a5c-4d1e-8a57-2f2d3c1b0a99"
        fleet._create("nodes", {"uuid": theirs, "driver": "fake-hardware", "owner": "p-1"})
        receiver.status = 503
        fleet.provision(fleet.states(), "manage")
        fleet.await_state(fleet.states(), "manageable")
        (failure,) = until(
            lambda: fleet.get("webhooks/theirs/failures")["failures"], "the failure"
        )  # fmt: skip
        assert "the receiver answered 503" == failure["error"]
        receiver.status = 200
        answer = fleet.http.post(f"{fleet.url}/v1/webhooks/theirs/replay", json={})
        assert (200, failure["after"]) == (answer.status_code, answer.json()["position"])
        until(lambda: len(receiver.events) >= 2, "the replayed events")
        moves = [("enroll", "verifying"), ("verifying", "manageable")]
        moves_by_node = defaultdict(list)
        for event in receiver.events:
            moves_by_node[event["node_uuid"]].append((event["before"], event["after"]))
        assert {theirs: moves} == moves_by_node
        until(lambda: not fleet.get("webhooks/theirs")["failed_attempts"], "the record")
