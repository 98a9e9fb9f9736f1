"""A process dies or stops at every point of a step, in every flow: nodes arrive without help."""

import os
import signal
from contextlib import suppress
from functools import partial

import pytest
import requests

from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, Fleet, until

#: Fake hardware whose steps are polled, so that there are waits.
PACE = {"INGOT_FAKE_DEPLOY_DELAY": "0.1", "INGOT_FAKE_RESCUE_DELAY": "0.1"}
POLISH = {"interface": "vendor", "step": "log_passthrough"}
#: (verb, arguments, target state), in an order in which a node can go through all of them; each verb
#: is also the kind of its operation.
LIFE = [
    ("manage", {}, "manageable"),
    ("inspect", {}, "manageable"),
    ("clean", {"clean_steps": [POLISH]}, "manageable"),
    ("adopt", {}, "active"),
    ("deleted", {}, "available"),
    ("active", {}, "active"),
    ("service", {"service_steps": [POLISH]}, "active"),
    ("rescue", {"rescue_password": "x"}, "rescue"),
    ("unrescue", {}, "active"),
    ("rebuild", {}, "active"),
    ("power", {}, "active"),
    ("deleted", {}, "available"),
    ("manage", {}, "manageable"),
    ("provide", {}, "available"),
]
#: verb -> points that strike once each. A death before `decided` leaves a decision to the
#: reconciler.
DEATHS = {
    "manage": ["claimed"], "inspect": ["acted"], "clean": ["leased"], "adopt": ["freed"],
    "deleted": ["recorded"], "active": ["waking"], "service": ["claimed", "decided"],
    "rescue": ["sent"], "unrescue": ["received"], "rebuild": ["handed_out"],
    "power": ["committed"], "provide": ["reconciling", "followed"],
}  # fmt: skip
STOPS = {
    "manage": ["received"], "clean": ["leased"], "active": ["claimed"], "service": ["freed"],
    "rescue": ["acted"], "provide": ["recorded"],
}  # fmt: skip
#: Points that do not know the kind of the operation.
OF_ANY = ("waking", "decided", "reconciling", "received", "leased")


class Strikes:
    """Kill points that strike once each, after they are allowed to."""

    def __init__(self, folder, points, action):
        self._folder, self._points = folder, points
        folder.mkdir()
        entries = [
            f"any:{point}:{'any' if point in OF_ANY else kind}={action}-{self._mark(kind, point)}"
            for kind, kind_points in points.items()
            for point in kind_points
        ]
        self.environ = {"INGOT_KILL_POINTS": ",".join(entries)}

    def _mark(self, kind, point):
        return self._folder / kind / point

    def allow(self, kind):
        """Create the folder of the marks: a point without it does not strike."""
        (self._folder / kind).mkdir(exist_ok=True)

    def done(self, kind):
        return all(self._mark(kind, point).exists() for point in self._points.get(kind, ()))


def ask(fleet, node, verb, arguments):
    """Request a verb until it is in the database: the API may die before its response."""

    def taken():
        with suppress(requests.ConnectionError):
            url = f"{fleet.url}/v1/nodes/{node}/states"
            body = {"target": "rebooting"} if verb == "power" else {"target": verb, **arguments}
            target = "power" if verb == "power" else "provision"
            fleet.http.put(f"{url}/{target}", json=body, timeout=30)
        with suppress(requests.ConnectionError):
            return len(fleet.operations(node)) > first_count

    def known():
        with suppress(requests.ConnectionError):
            return [len(fleet.operations(node))]

    (first_count,) = until(known, "an answer")
    until(taken, f"the request to {verb}")


def go_through(fleet, nodes, verb, arguments, state, *, struck):
    """Take all nodes through a verb, while the kill points strike."""
    if verb == "manage" and "available" in fleet.states().values():  # a move without an operation
        fleet.provision(nodes, verb)
        return
    for node in nodes:
        ask(fleet, node, verb, arguments)
    until(struck, f"the strike in {verb}")
    fleet.await_state(nodes, state)

    def ended():
        return all(fleet.operations(node)[0]["finished_at"] for node in nodes)

    until(ended, f"the end of {verb}")


def check(fleet, nodes):
    """No operation failed, no lease is left, and steps were repeated only after a crash."""
    operations = [operation for node in nodes for operation in fleet.operations(node)]
    assert {"succeeded"} == {operation["state"] for operation in operations}
    steps = [step for operation in operations for step in operation["steps"]]
    assert {"done"} == {step["state"] for step in steps}
    assert 2 >= max(step["deaths"] for step in steps)
    assert {None} == {fleet.get(f"nodes/{node}")["reservation"] for node in nodes}
    with fleet.redis() as client:
        until(lambda: not client.keys("ingot:lease:*"), "the end of the last lease")
    return operations


def test_nodes_arrive_although_processes_die_at_each_point_of_each_flow(tmp_path):
    deaths = Strikes(tmp_path / "struck", DEATHS, "die")
    with Fleet(tmp_path, conductors=3, restart=True, **PACE, **deaths.environ) as fleet:
        nodes = fleet.create_nodes(6)
        for verb, arguments, state in LIFE:
            deaths.allow(verb)
            struck = partial(deaths.done, verb)
            go_through(fleet, nodes, verb, arguments, state, struck=struck)
        operations = check(fleet, nodes)
        assert {verb for verb, _, _ in LIFE} == {operation["kind"] for operation in operations}
        assert sum(step["deaths"] for operation in operations for step in operation["steps"])


def test_nodes_arrive_although_a_conductor_is_stopped_and_continued_at_each_point(tmp_path):
    stops = Strikes(tmp_path / "struck", STOPS, "stop")
    with Fleet(tmp_path, conductors=2, **PACE, **stops.environ) as fleet:
        nodes = fleet.create_nodes(6)
        for verb, arguments, state in LIFE:
            stops.allow(verb)
            go_through(fleet, nodes, verb, arguments, state, struck=partial(stops.done, verb))
            stopped = [pid for pid in fleet.pids()["conductors"].values() if fleet.stopped(pid)]
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        until(lambda: any(operation["refused"] for operation in check(fleet, nodes)), "a refusal")
        assert fleet.log("step.refused")


def one_is(fleet, state_and_conductor):
    return state_and_conductor in fleet.states("conductor").values()


@pytest.mark.parametrize("signalled", [signal.SIGKILL, signal.SIGTERM])
def test_nodes_that_wait_for_their_agent_get_another_conductor(tmp_path, signalled):
    """One conductor dies while agents clean, one while they deploy; a third is left."""
    pace = {"boot_seconds": 1, "step_seconds": 0.1, "heartbeat_gap": 0.5, "retry_factor": 0.05}
    with (
        running(machines=9, **pace) as simulator,
        Fleet(tmp_path, conductors=3, **AGENTS) as fleet,
    ):
        nodes = fleet.enrol(simulator)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        for number, (verb, waiting, state) in enumerate(
            [("provide", "clean wait", "available"), ("active", "wait call-back", "active")], 1
        ):
            fleet.provision(nodes, verb)
            until(partial(one_is, fleet, (waiting, f"fleet-{number}")), waiting)
            os.kill(fleet.conductor(number), signalled)
            fleet.await_state(nodes, state)
        assert ["fleet-3"] == list(fleet.pids()["conductors"])
        assert {"succeeded"} == {
            operation["state"] for node in nodes for operation in fleet.operations(node)
        }
