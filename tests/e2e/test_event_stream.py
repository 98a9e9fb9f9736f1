"""A reader of the event stream that comes and goes, while processes of the service are killed."""

import os
import signal
import time
from collections import defaultdict
from contextlib import suppress
from itertools import pairwise

import pytest

from tests.support.fleet import PATIENCE, Fleet, until
from tests.support.stream_reader import Reader

NODES = 6
#: Steps take a moment, so that the kills strike operations.
SLOW = {"INGOT_FAKE_DEPLOY_DELAY": "0.3", "INGOT_FAKE_POWER_DELAY": "0.2"}
LIFE = {"manage": "manageable", "provide": "available", "active": "active", "deleted": "available"}


@pytest.fixture(params=["sqlite", "postgresql"])
def fleet(request, tmp_path):
    options = []
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql_server")
        options = ["--database", server.database()]
    with Fleet(tmp_path, *options, restart=True, **SLOW) as running:
        yield running


def kill(fleet, role, number):
    """Kill a process of a role, which the supervisor starts again."""
    pids = fleet.pids()
    # a process that is being started again is not there
    pids["conductor"] = [pids["conductors"].get(f"fleet-{number % 2 + 1}")]
    for pid in filter(None, pids[role][:1]):  # of the API, the parent: its processes end with it
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_each_event_arrives_once_and_in_order_over_kills(fleet):
    readers = [Reader(fleet.url, seed) for seed in range(3)]
    for reader in readers:
        reader.start()
    nodes = fleet.create_nodes(NODES)
    for number, (verb, state) in enumerate(LIFE.items()):
        fleet.provision(nodes, verb)
        for role in ("conductor", "beat", "redis", "api"):
            kill(fleet, role, number)
            time.sleep(0.3)  # not waited for: the kills strike at any moment
        settled(fleet, nodes, state)
    rows = fleet.change_events()
    assert len(rows) > 20 * NODES
    for reader in readers:
        until(lambda reader=reader: reader.position >= rows[-1]["sequence"], "the newest event")
        reader.ended.set()
    for reader in readers:
        assert rows == [event for _, event in reader.events][: len(rows)], reader.other_answers
        assert reader.visits > 1
        histories = defaultdict(list)
        for name, event in reader.events:
            assert name == event["type"]
            histories[event["node_uuid"]].append(event)
        for history in histories.values():
            moves = [
                (e["before"], e["after"]) for e in history if e["type"] == "node.provision_state"
            ]
            assert all(a[1] == b[0] for a, b in pairwise(moves)), moves


def settled(fleet, nodes, state):
    """Wait until all nodes are in a state; the API may be away."""

    def there():
        with suppress(OSError, AssertionError, ValueError):
            return set(fleet.states().values()) == {state}

    until(there, state, seconds=2 * PATIENCE, between=0.2)
