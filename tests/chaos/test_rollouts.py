"""A rollout goes on, and starts each node once, although conductors, beat and API are killed."""

import os
import signal
import uuid
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import cycle

import pytest
import requests

from tests.chaos.test_faults import CALM
from tests.support.fleet import Fleet, until

PACE = {
    **CALM,
    "INGOT_FAKE_VENDOR_DELAY": "0.2",
}
#: Every seventeenth node is bad, until there are 5 %.
GAP, SHARE = 17, 0.05
NO_MACHINE = {
    "driver": "redfish",
    "driver_info": {
        "redfish_address": "http://127.0.0.1:9", "redfish_username": "u", "redfish_password": "p",
        "redfish_system_id": "/redfish/v1/Systems/1",
    },
}  # fmt: skip


def enrol(fleet, count):
    """Enrol nodes of which 5 % have no machine; return the UUIDs of those."""
    bad = set()
    for number in range(count):
        node = str(uuid.uuid5(uuid.NAMESPACE_OID, f"node {number}"))
        is_bad = number % GAP == 0 and len(bad) < count * SHARE
        fields = NO_MACHINE if is_bad else {"driver": "fake-hardware"}
        fleet._create("nodes", {"uuid": node, **fields})
        bad |= {node} if is_bad else set()
    return bad


def answered(ask):
    """Repeat a request until the API answers: it may be dead at the moment."""

    def once():
        with suppress(requests.RequestException):
            return [ask()]

    return until(once, "an answer")[0]


def create(fleet, count):
    """Create the rollout, with a UUID, so that a request whose answer is lost can be repeated."""
    name = str(uuid.uuid4())
    body = {
        "uuid": name, "target": "manage", "nodes": {},
        "strategy": {"max_unavailable": "15%", "error_budget": "5%"},
    }  # fmt: skip
    answer = answered(lambda: fleet.http.post(f"{fleet.url}/v1/rollouts", json=body, timeout=60))
    assert answer.status_code in (201, 409), answer.text
    return name


def show(fleet, name):
    return answered(lambda: fleet.get(f"rollouts/{name}"))


def victims(fleet):
    """Pids of the processes to kill next: a conductor, beat and the API in turn."""
    for name in cycle(("conductor", "beat", "api")):
        pids = fleet.pids()
        victim_pids = {**pids, "conductor": [*pids["conductors"].values()][:1]}[name]
        yield victim_pids


def kill_until(fleet, name, state, limit):
    """Kill a process after each progress of the rollout, at most `limit`, until it is in a state."""
    killed = 0
    for pids in victims(fleet):
        rollout = show(fleet, name)
        if rollout["state"] == state:
            break
        if killed < limit:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed += 1
        until(partial(progressed, fleet, name, rollout), "progress", 120)
    return killed


def progressed(fleet, name, earlier_rollout):
    now = show(fleet, name)
    return any(
        now[field] != earlier_rollout[field]
        for field in ("state", "running", "succeeded", "failed")
    )


@pytest.mark.parametrize("count", [40, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
def test_a_rollout_survives_kills_and_starts_each_node_once(tmp_path, count):
    with Fleet(tmp_path, restart=True, **PACE) as fleet:
        bad = enrol(fleet, count)
        name = create(fleet, count)
        assert 1 <= kill_until(fleet, name, "paused", 6)
        paused = show(fleet, name)
        assert ("error budget", len(bad)) == (paused["pause_cause"], paused["failed"])
        assert f"error budget 5% ({len(bad)} nodes) reached" in paused["summary"]
        assert 0 < paused["pending"]
        path = f"{fleet.url}/v1/rollouts/{name}/states"
        answered(lambda: fleet.http.put(path, json={"target": "resume"}, timeout=60))
        kill_until(fleet, name, "completed", 6)
        ended = show(fleet, name)
        assert (count - len(bad), len(bad), 0) == (
            ended["succeeded"], ended["failed"], ended["running"]
        )  # fmt: skip
        failed = answered(lambda: fleet.get(f"rollouts/{name}/nodes", state="failed"))["nodes"]
        assert bad == {entry["node_uuid"] for entry in failed}
        assert {"unreachable": len(bad)} == ended["failures"]
        operations = answered(lambda: fleet.get("operations", kind="manage", limit=1000))[
            "operations"
        ]
        once = Counter(operation["node_uuid"] for operation in operations)
        assert count == len(once)
        assert {1} == set(once.values()), "each node has one operation"
        states = Counter(operation["state"] for operation in operations)
        assert {"succeeded": count - len(bad), "failed": len(bad)} == states
