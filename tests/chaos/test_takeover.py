"""
A conductor dies, or is replaced: the delay of its nodes and consoles; and no request is refused.

Manual run at the settings' defaults, as it takes minutes:
TAKEOVER=defaults python -m pytest -s tests/chaos/test_takeover.py
"""

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from datetime import datetime
from functools import partial

import pytest

from app.cluster.hash_ring import Member, owner
from drivers.simulator.simulator import running
from tests.chaos.test_faults import SLOW
from tests.support.fleet import AGENTS, CALM, ROOT, Fleet, until

#: Variant -> (most seconds until work continues on an idle machine, settings).
PROMISES = {
    "tuned": (5, {
        "INGOT_CONDUCTOR_HEARTBEAT_INTERVAL": "0.3",
        "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "2",
        "INGOT_CONDUCTOR_LEASE_TTL": "1",
        "INGOT_CONDUCTOR_RECONCILE_INTERVAL": "0.5",
    }),
    "defaults": (20, {
        "INGOT_CONDUCTOR_HEARTBEAT_INTERVAL": "5",
        "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "15",
        "INGOT_CONDUCTOR_LEASE_TTL": "10",
        "INGOT_CONDUCTOR_RECONCILE_INTERVAL": "2",
        "INGOT_CONDUCTOR_RESEND_AFTER": "5",
    }),
}  # fmt: skip


#: Most seconds that a busy machine adds to them. Without the takeover, an operation waits for the
#: deadline of its step, and a request for that of its call: a minute and more.
BUSY = 20


class Callers:
    """Threads that send one kind of request each, to one node after the other; and all responses."""

    def __init__(self, fleet):
        self.fleet, self.answers, self.threads = fleet, [], []
        self.end = threading.Event()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end.set()
        for thread in self.threads:
            thread.join(70)

    def ask(self, kind, method, path, bodies, nodes, prepare=lambda _node: None):
        """Start sending requests, with the bodies in turn."""

        def work():
            turn = 0
            while not self.end.is_set():
                body = bodies[turn % len(bodies)]
                turn += 1
                for node in nodes:
                    prepare(node)
                    begun = time.monotonic()
                    answer = self.fleet.http.request(
                        method, f"{self.fleet.url}/v1/nodes/{node}{path}", json=body, timeout=70
                    )
                    took = time.monotonic() - begun
                    self.answers.append((kind, answer.status_code, begun, took, answer.text))
                self.end.wait(0.02)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.threads.append(thread)

    def refused(self):
        return [(kind, status, text) for kind, status, _, _, text in self.answers if status >= 400]

    def longest(self, since):
        """Return kind -> seconds of the longest request that ended after a time."""
        seconds = {}
        for kind, _, begun, took, _ in self.answers:
            if begun + took >= since:
                seconds[kind] = max(seconds.get(kind, 0), round(took, 1))
        return seconds


def moment(line):
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def resumed(fleet, killed):
    """Seconds from a conductor's death until the takeover of each of its operations, sorted."""
    return sorted(moment(line) - killed for line in fleet.log("operation.taken_over"))


def owned(fleet, name, nodes):
    states = fleet.states("conductor")
    return [node for node in nodes if states[node][1] == name]


def powered(fleet, node):
    """Wait for the end of a power change: a second one would be refused meanwhile."""
    until(lambda: fleet.get(f"nodes/{node}")["reservation"] is None, "the change of power", 70)


def open_consoles(fleet, nodes):
    for node in nodes:
        url = f"{fleet.url}/v1/nodes/{node}/states/console"
        assert 202 == fleet.http.put(url, json={"enabled": True}, timeout=30).status_code
    until(lambda: all(consoles(fleet, node)[-1:] == ["succeeded"] for node in nodes), "consoles")


def consoles(fleet, node):
    """Return the states of a node's operations on its console, the oldest first."""
    operations = fleet.operations(node)
    return [
        operation["state"] for operation in reversed(operations) if operation["kind"] == "console"
    ]


def console_runs_on(fleet, node):
    """Return the conductor that started a node's console last."""
    last_operation = next(
        operation for operation in fleet.operations(node) if operation["kind"] == "console"
    )
    assert fleet.get(f"nodes/{node}")["console_enabled"]
    return last_operation["steps"][-1]["conductor"]


@pytest.mark.parametrize(
    "promise",
    ["tuned", pytest.param("defaults", marks=pytest.mark.skipif(
        os.environ.get("TAKEOVER") != "defaults", reason="takes minutes: TAKEOVER=defaults"))],
)  # fmt: skip
def test_work_continues_within_the_promised_time_and_no_request_is_refused(tmp_path, promise):
    seconds, tuned = PROMISES[promise]
    fakes = {"INGOT_FAKE_DEPLOY_DELAY": "0.2,0.5", "INGOT_FAKE_BOOT_DELAY": "0.2,0.5"}
    begun = {"INGOT_KILL_POINTS": "any:claimed:provide=pause-1"}  # steps in progress at the death
    settings = {**AGENTS, **fakes, **tuned, **begun}
    with (
        running(machines=6, power_off_seconds=0.1) as simulator,
        Fleet(tmp_path, conductors=3, **settings) as fleet,
    ):
        machines = fleet.enrol(simulator)
        created = fleet.create_nodes(58)
        fakes, attended = created[:44], created[44:]  # attended: a console is open
        working, powering, resting, fresh = fakes[:20], fakes[20:28], fakes[28:36], fakes[36:]
        open_consoles(fleet, attended)
        fleet.provision(working, "manage")
        fleet.await_state(working, "manageable")
        with Callers(fleet) as callers:
            ask = callers.ask
            patch = [[{"op": "add", "path": "/extra/n", "value": n}] for n in range(9)]
            ask("PATCH", "PATCH", "", patch, resting)
            ask("boot device", "GET", "/management/boot_device", [None], machines[:3])
            ask(
                "supported devices",
                "GET",
                "/management/boot_device/supported",
                [None],
                machines[3:],
            )
            power = [{"target": "power on"}, {"target": "power off"}]
            ask("power", "PUT", "/states/power", power, powering, partial(powered, fleet))
            ask("GET", "GET", "", [None], fakes)
            until(
                lambda: (
                    {"PATCH", "power", "boot device"} <= {answer[0] for answer in callers.answers}
                )
            )
            victim = max((1, 2, 3), key=lambda n: len(owned(fleet, f"fleet-{n}", machines[:3])))
            theirs = owned(fleet, f"fleet-{victim}", resting + machines)
            assert theirs, "no request concerns a node of the victim"
            closed = owned(fleet, f"fleet-{victim}", attended)
            assert closed, "no console is on the victim"
            fleet.provision(working, "provide")
            until(lambda: Counter(fleet.states().values())["manageable"] < 14, "the first steps")
            killed, at = time.time(), time.monotonic()
            os.kill(fleet.conductor(victim), signal.SIGKILL)
            fleet.provision(fresh, "manage")
            fleet.await_state(fresh, "manageable")
            until(
                lambda: not owned(fleet, f"fleet-{victim}", resting + machines), "a new owner", 70
            )
            until(
                lambda: {answer[0] for answer in callers.answers if answer[2] > at + seconds} >= {"power"},
                "more power", 70,
            )  # fmt: skip
            fleet.await_state(working, "available", seconds + 60)
            until(
                lambda: all(["succeeded"] * 2 == consoles(fleet, node) for node in closed),
                "the consoles of the victim",
            )
            now = fleet.states("conductor")
            assert {node: now[node][1] for node in closed} == {
                node: console_runs_on(fleet, node) for node in closed
            }
        late = resumed(fleet, killed)
        assert late, "nothing was under way when it died"
        print(f"\n{promise}: {len(late)} operations were taken over, after"
              f" {statistics.median(late):.1f} s (median), {late[-1]:.1f} s (worst)")  # fmt: skip
        print(f"{len(callers.answers)} requests, the longest: {callers.longest(at)}")
        assert [] == callers.refused()
        assert seconds + BUSY >= max(callers.longest(at).values())
        assert seconds + BUSY >= late[-1]


#: Some operations of a conductor wait for a thread, even if a slow machine requests them slowly.
NARROW = {"INGOT_CONDUCTOR_WORKERS_POOL_SIZE": "4"}


def test_a_rolling_restart_disturbs_no_operation(tmp_path):
    """Three conductors are replaced one after the other, while all nodes are worked on."""
    with Fleet(tmp_path, conductors=3, restart=True, **CALM, **SLOW, **NARROW) as fleet:
        nodes = fleet.create_nodes(30)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        for number, (verb, state) in enumerate(
            (("provide", "available"), ("active", "active"), ("deleted", "available")), 1
        ):
            mine = owned(fleet, f"fleet-{number}", nodes)
            # those of the drained conductor at the end, so that it has work even on a slow machine
            fleet.provision([node for node in nodes if node not in mine] + mine, verb)
            pid = fleet.conductor(number)
            os.kill(pid, signal.SIGTERM)
            until(partial(is_replaced, fleet, number, pid), "the restart of the conductor")
            fleet.await_state(nodes, state)
        operations = [operation for node in nodes for operation in fleet.operations(node)]
        assert {"succeeded": 120} == Counter(operation["state"] for operation in operations)
        assert {0} == {step["deaths"] for operation in operations for step in operation["steps"]}
        assert [] == fleet.log("operation.taken_over")
        handed = fleet.log("operation.redispatched")
        assert handed, "no operation was redispatched"
        waits = [goes_on(fleet, line) for line in handed]
        print(f"\n{len(waits)} operations were redispatched, and continued after"
              f" {statistics.median(waits):.2f} s (median), {max(waits):.2f} s (worst)")  # fmt: skip
        # without its message, an operation would be sent again after five seconds
        assert 4 > statistics.median(waits)
        assert BUSY > max(waits)


def goes_on(fleet, handed):
    """Seconds from the redispatch of an operation until another conductor has acted."""
    begun = moment(handed)
    acted = [
        moment(line) - begun
        for line in fleet.log("step.acted")
        if line["operation"] == handed["operation"] and line["role"] != handed["role"]
    ]
    return max(0, min(delay for delay in acted if delay > -1))  # the line comes after the commit


def is_replaced(fleet, number, pid):
    """Whether a new, live process has the name."""
    mine = fleet.pids()["conductors"].get(f"fleet-{number}")
    online = [
        conductor["hostname"]
        for conductor in fleet.get("conductors")["conductors"]
        if conductor["alive"]
    ]
    return mine not in (None, pid) and f"fleet-{number}" in online


class Owners:
    """Conductors of each node, polled all the time."""

    def __init__(self, fleet):
        self.fleet, self.of = fleet, {}
        self._end = threading.Event()

    def __enter__(self):
        self._look()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join(70)

    def _watch(self):
        while not self._end.wait(0.05):
            self._look()

    def _look(self):
        for node, (_, name) in self.fleet.states("conductor").items():
            names = self.of.setdefault(node, [name])
            if name != names[-1]:
                names.append(name)

    def now(self):
        return {node: names[-1] for node, names in self.of.items()}


@contextmanager
def fourth(fleet):
    """Run one more conductor of the fleet; drain it at the end."""
    environ = fleet.environ | {
        "INGOT_DATABASE_CONNECTION": f"sqlite:///{fleet.data / 'ingot.db'}",
        "INGOT_BROKER_URL": f"redis+socket://{fleet.data / 'redis.sock'}",
    }
    command = [sys.executable, "-m", "workers.cli", "conductor", "--name", "fleet-4"]
    with (fleet.folder / "fourth.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stderr=log)
        try:
            yield
            process.terminate()
            assert 0 == process.wait(30)
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_joining_conductor_takes_its_nodes_and_returns_them_and_no_other_node_moves(tmp_path):
    with Fleet(tmp_path, conductors=3, **SLOW) as fleet:
        nodes = fleet.create_nodes(40)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        ring = [Member(f"fleet-{n}", "", "", frozenset({"fake"})) for n in (1, 2, 3, 4)]
        theirs, with_it = (
            {node: owner(node, "fake", "", members).name for node in nodes}
            for members in (ring[:3], ring)
        )
        mine = {node for node, name in with_it.items() if name == "fleet-4"}
        assert 4 < len(mine) < 17, "about a quarter of 40"
        with Owners(fleet) as owners:
            assert theirs == owners.now()
            newest_event = fleet.newest_event()
            fleet.provision(nodes, "provide")
            fleet.await_entry("clean wait", newest_event)
            with fourth(fleet):
                until(lambda: owners.now() == with_it, "its nodes")
                fleet.await_state(nodes, "available")
                newest_event = fleet.newest_event()
                fleet.provision(nodes, "active")
                fleet.await_entry("wait call-back", newest_event)
            until(lambda: owners.now() == theirs, "the owners of before")
            fleet.await_state(nodes, "active")
        for node, names in owners.of.items():
            moves = [theirs[node], "fleet-4", theirs[node]] if node in mine else [theirs[node]]
            assert moves == names
        operations = [operation for node in nodes for operation in fleet.operations(node)]
        assert {"succeeded": 120} == Counter(operation["state"] for operation in operations)
        assert {0} == {step["deaths"] for operation in operations for step in operation["steps"]}
        assert {0} == {operation["refused"] for operation in operations}
        assert "fleet-4" in {
            step["conductor"] for operation in operations for step in operation["steps"]
        }
