"""Allocations over real processes: successful despite a lost broker and a dead conductor."""

import os
import signal

from tests.support.fleet import Fleet, until

COUNT = 12


def allocate(fleet, **fields):
    """Create an allocation; return its UUID."""
    body = {"resource_class": "large", **fields}
    answer = fleet.http.post(f"{fleet.url}/v1/allocations", json=body, timeout=30)
    assert 201 == answer.status_code, answer.text
    return answer.json()["uuid"]


def states(fleet):
    allocations = fleet.get("allocations", limit=1000)["allocations"]
    return {allocation["uuid"]: allocation["state"] for allocation in allocations}


def test_every_allocation_gets_a_node_and_releases_it(tmp_path):
    with Fleet(tmp_path, INGOT_CONDUCTOR_CHECK_ALLOCATIONS_INTERVAL="0.5") as fleet:
        nodes = fleet.create_nodes(COUNT, resource_class="large")
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        fleet.provision(nodes, "provide")
        fleet.await_state(nodes, "available")

        first_names = [allocate(fleet) for _ in range(COUNT // 2)]
        os.kill(fleet.conductor(1), signal.SIGKILL)
        fleet.redis().flushall()
        other_names = [allocate(fleet) for _ in range(COUNT // 2)]
        names = [*first_names, *other_names]
        until(lambda: set(states(fleet).values()) == {"active"}, "every allocation active")
        assert set(names) == {instance for _, instance in fleet.states("instance_uuid").values()}

        late = allocate(fleet)
        until(lambda: states(fleet)[late] == "error", "an error for want of nodes")
        assert "large" in fleet.get(f"allocations/{late}")["last_error"]

        node = fleet.get(f"allocations/{names[0]}")["node_uuid"]
        fleet.provision([node], "active")
        fleet.await_state([node], "active")
        path = f"{fleet.url}/v1/allocations/{names[0]}"
        assert 409 == fleet.http.delete(path, timeout=30).status_code
        fleet.provision([node], "deleted")
        fleet.await_state([node], "available")
        assert 404 == fleet.http.get(path, timeout=30).status_code

        again = allocate(fleet)
        until(lambda: states(fleet)[again] == "active", "the node that is free again")
        assert node == fleet.get(f"allocations/{again}")["node_uuid"]
