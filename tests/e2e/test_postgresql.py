"""The whole service on PostgreSQL: two conductors, the life of a fleet, and a death."""

import os
import signal

from tests.support.fleet import Fleet


def test_a_fleet_on_postgresql_survives_the_death_of_a_conductor(tmp_path, postgresql_server):
    url = postgresql_server.database()
    delays = {"INGOT_FAKE_VENDOR_DELAY": "0.5", "INGOT_FAKE_DEPLOY_DELAY": "0.3"}
    with Fleet(tmp_path, "--database", url, conductors=2, **delays) as fleet:
        nodes = fleet.create_nodes(20)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        fleet.provision(nodes, "provide")
        os.kill(fleet.conductor(1), signal.SIGKILL)
        fleet.await_state(nodes, "available")
        fleet.provision(nodes, "active")
        fleet.await_state(nodes, "active")
        fleet.provision(nodes, "deleted")
        fleet.await_state(nodes, "available")

        operations = [operation for node in nodes for operation in fleet.operations(node)]
        assert {"succeeded"} == {operation["state"] for operation in operations}
        assert {"fleet-2"} >= {
            step["conductor"]
            for operation in operations
            if operation["kind"] in ("active", "deleted")
            for step in operation["steps"]
        }
