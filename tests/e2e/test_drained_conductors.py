"""A drained conductor is killed at work, starts again, and still gets no work until its end."""

import os
import signal
from contextlib import suppress

from tests.support.fleet import Fleet, until

#: Seconds long enough for a look at the work on a busy machine.
SLOW = {"INGOT_FAKE_VENDOR_DELAY": "6"}


def conductors(fleet):
    return {item["hostname"]: item for item in fleet.get("service")["conductors"]}


def steps_of(fleet, nodes, kind):
    return [step for node in nodes for step in fleet.operation(node, kind)["steps"]]


def test_a_drain_outlives_a_kill_and_ends_when_an_operator_says_so(tmp_path):
    with Fleet(tmp_path, conductors=2, restart=True, **SLOW) as fleet:
        nodes = fleet.create_nodes(10)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        drained_nodes = [
            node for node, (_, name) in fleet.states("conductor").items() if name == "fleet-1"
        ]
        assert drained_nodes
        fleet.provision(nodes, "provide")
        until(
            lambda: (
                "waiting" in {fleet.operation(node, "provide")["state"] for node in drained_nodes}
            ),
            "work of fleet-1",
        )
        pid = fleet.conductor(1)
        fleet.http.put(f"{fleet.url}/v1/conductors/fleet-1/drain", json={"reason": "a new fan"})
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        fleet.await_state(nodes, "available")
        until(lambda: fleet.pids()["conductors"].get("fleet-1", pid) != pid, "the restart")
        until(lambda: conductors(fleet)["fleet-1"]["state"] == "drained", "its heartbeat")

        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        fleet.provision(nodes, "provide")
        fleet.await_state(nodes, "available")
        assert {"fleet-2"} == {step["conductor"] for step in steps_of(fleet, nodes, "provide")}
        assert 0 == conductors(fleet)["fleet-1"]["nodes"]

        fleet.http.delete(f"{fleet.url}/v1/conductors/fleet-1/drain")
        until(lambda: conductors(fleet)["fleet-1"]["state"] == "alive", "the end of the drain")
        fleet.provision(drained_nodes, "manage")
        fleet.await_state(drained_nodes, "manageable")
        fleet.provision(drained_nodes, "provide")
        fleet.await_state(drained_nodes, "available")
        conductor_names = {step["conductor"] for step in steps_of(fleet, drained_nodes, "provide")}
        assert {"fleet-1"} == conductor_names
