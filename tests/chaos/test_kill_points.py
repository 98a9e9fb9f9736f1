"""A conductor dies at every point of a step, in every verb: its nodes arrive without help."""

import os
import signal
from functools import partial

import pytest

from drivers.simulator.simulator import running
from tests.fleet import AGENTS, Fleet, until

#: Verb -> where it leads; each is also the kind of its operation.
LIFE = {"manage": "manageable", "provide": "available", "active": "active", "deleted": "available"}


def gone(fleet, name):
    return name not in fleet.pids()["conductors"]


def one_is(fleet, state_and_conductor):
    return state_and_conductor in fleet.states("conductor").values()


@pytest.mark.parametrize("point", ["claimed", "acted", "recorded"])
def test_nodes_arrive_when_a_conductor_dies_in_each_verb(tmp_path, point):
    """Of five conductors one dies in each of the four verbs; the fifth is left."""
    points = [f"fleet-{number}:{point}:{verb}=die" for number, verb in enumerate(LIFE, 1)]
    with Fleet(tmp_path, conductors=5, INGOT_KILL_POINTS=",".join(points)) as fleet:
        nodes = fleet.create_nodes(16)
        for number, (verb, state) in enumerate(LIFE.items(), 1):
            fleet.provision(nodes, verb)
            until(partial(gone, fleet, f"fleet-{number}"), "the death")
            fleet.await_state(nodes, state)
        assert ["fleet-5"] == list(fleet.pids()["conductors"])
        found = [operation for node in nodes for operation in fleet.operations(node)]
        assert {"succeeded"} == {each["state"] for each in found}
        steps = [(each["kind"], step) for each in found for step in each["steps"]]
        assert [] == [step for _, step in steps if step["attempts"] != 1 + step["deaths"]]
        assert 1 >= max(step["deaths"] for _, step in steps)
        interrupted = {kind for kind, step in steps if step["deaths"]}
        assert (set() if point == "recorded" else set(LIFE)) == interrupted


def test_nodes_that_wait_for_their_agent_get_another_conductor(tmp_path):
    """One conductor is killed while agents clean, one while they deploy; a third is left."""
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
            os.kill(fleet.conductor(number), signal.SIGKILL)
            fleet.await_state(nodes, state)
        assert ["fleet-3"] == list(fleet.pids()["conductors"])
        assert {"succeeded"} == {
            operation["state"] for node in nodes for operation in fleet.operations(node)
        }
