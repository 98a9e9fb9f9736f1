"""
An older backup of the database is put in place, under a fleet that runs and one that is stopped: by
the machine's own log, nobody gives it an order until an operator says so.
"""

import sqlite3
import time

import pytest

from drivers.simulator.simulator import running
from tests.fleet import AGENTS, Fleet, until

PACE = {"boot_seconds": 0.5, "step_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05}
#: Power states are compared often, and enforced.
SETTINGS = {**AGENTS, "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "1"}


def copy(source, target):
    """All of one database into another, as a backup does, and a restore."""
    with sqlite3.connect(source, timeout=30) as old, sqlite3.connect(target, timeout=30) as new:
        old.backup(new)
    old.close()
    new.close()


def orders(simulator):
    """What the machines were told to do, by their own log."""
    return [
        (machine.name, entry["kind"], entry["what"])
        for machine in simulator.machines
        for entry in machine.log
        if entry["kind"] != "machine"
    ]


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_machines_are_left_alone_after_a_restore_until_an_operator_has_looked(tmp_path, stopped):
    with running(machines=2, **PACE) as simulator:
        with Fleet(tmp_path, conductors=2, restart=True, **SETTINGS) as fleet:
            database, backup = fleet.data / "ingot.db", tmp_path / "backup.db"
            nodes = fleet.enrol(simulator)
            fleet.provision(nodes, "manage")
            fleet.await_state(nodes, "manageable")
            fleet.provision(nodes, "provide")
            until(lambda: "clean wait" in fleet.states().values(), "cleaning")
            copy(database, backup)
            fleet.await_state(nodes, "available")
            fleet.provision(nodes, "active")  # somebody's machines, from now on
            fleet.await_state(nodes, "active")
            if not stopped:
                before = orders(simulator)
                copy(backup, database)
                look(fleet, simulator, nodes, before)
        if stopped:
            before = orders(simulator)
            copy(backup, database)
            with Fleet(tmp_path, conductors=2, restart=True, **SETTINGS) as fleet:
                look(fleet, simulator, nodes, before)


def look(fleet, simulator, nodes, before):
    """It is noticed; nothing is done to machines; an operator's word is enough to go on."""
    assert before
    until(
        lambda: {"restored"} == {each[1] for each in fleet.states("fault").values()}, "the notice"
    )
    assert fleet.log("database.restored")
    assert {"clean failed"} <= set(fleet.states().values()) <= {"clean failed", "manageable"}
    end = time.monotonic() + 3  # of power sync, reconciler, agents, deadlines
    while time.monotonic() < end:
        assert before == orders(simulator)
        time.sleep(0.2)
    assert 400 == fleet.request(nodes[0], "provide").status_code

    node = nodes[0]  # the machine is in use: the operator says so, and it is again
    fleet.provision([node], "manage")
    fleet.await_state([node], "manageable")
    fleet.provision([node], "adopt")
    fleet.await_state([node], "active")
    assert 202 == fleet.http.delete(f"{fleet.url}/v1/nodes/{node}/maintenance").status_code
    assert [False, None] == [fleet.get(f"nodes/{node}")[name] for name in ("maintenance", "fault")]
    assert before == orders(simulator)
