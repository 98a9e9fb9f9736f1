"""
An older backup of the database is restored under a running or a stopped fleet.

By the machines' own logs, they get no order until an operator allows it.
"""

import json
import sqlite3
import subprocess
import sys
import time

import pytest

from drivers.simulator.simulator import running
from tests.chaos.outage import answers
from tests.chaos.servers import Replica, a_folder, a_postgresql, ask
from tests.chaos.servers import running as serving
from tests.support import postgresql
from tests.support.fleet import AGENTS, ROOT, Fleet, until
from workers.restoration.restore_guard import MARGIN

PACE = {"boot_seconds": 0.5, "step_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05}
#: Power states are compared often, and enforced.
SETTINGS = {**AGENTS, "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "1"}


def copy(source, target):
    """Copy a whole database into another, as a backup and a restore do."""
    with sqlite3.connect(source, timeout=30) as old, sqlite3.connect(target, timeout=30) as new:
        old.backup(new)
    old.close()
    new.close()


def orders(simulator):
    """Orders in the machines' own logs."""
    return [
        (machine.name, entry["kind"], entry["what"])
        for machine in simulator.machines
        for entry in machine.log
        if entry["kind"] != "machine"
    ]


@pytest.mark.parametrize(
    "stopped", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["running", "stopped"]
)
def test_machines_get_no_order_after_a_restore_until_an_operator_allows_it(tmp_path, stopped):
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
            fleet.provision(nodes, "active")  # machines in use from now on
            fleet.await_state(nodes, "active")
            if not stopped:
                first_orders = orders(simulator)
                copy(backup, database)
                look(fleet, simulator, nodes, first_orders)
        if stopped:
            first_orders = orders(simulator)
            copy(backup, database)
            with Fleet(tmp_path, conductors=2, restart=True, **SETTINGS) as fleet:
                look(fleet, simulator, nodes, first_orders)


def look(fleet, simulator, nodes, first_orders):
    """The restore is detected; machines get no order; an operator's command releases a node."""
    assert first_orders
    until(
        lambda: {"restored"} == {state[1] for state in fleet.states("fault").values()},
        "the detection of the restore",
    )
    assert fleet.log("database.restored")
    assert {"clean failed"} <= set(fleet.states().values()) <= {"clean failed", "manageable"}
    end = time.monotonic() + 3  # time for power sync, reconciler, agents, deadlines
    while time.monotonic() < end:
        assert first_orders == orders(simulator)
        time.sleep(0.2)
    assert 400 == fleet.request(nodes[0], "provide").status_code

    node = nodes[0]  # the machine is in use: the operator adopts it again
    fleet.provision([node], "manage")
    fleet.await_state([node], "manageable")
    fleet.provision([node], "adopt")
    fleet.await_state([node], "active")
    assert 202 == fleet.http.delete(f"{fleet.url}/v1/nodes/{node}/maintenance").status_code
    assert [False, None] == [fleet.get(f"nodes/{node}")[name] for name in ("maintenance", "fault")]
    assert first_orders == orders(simulator)


# PostgreSQL, with its own tools


@pytest.fixture
def postgres():
    with a_postgresql() as server:
        yield server


def tool(program, *words):
    """Run a program of PostgreSQL; return its error messages, empty on success."""
    command = [postgresql.find() / program, *words]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return (process.stderr or str(process)) if process.returncode else ""


def ingot(fleet, url, *words):
    """Run an operator's command; return its exit status and output."""
    command = [sys.executable, "-m", "workers.cli", *words, "--database", url]
    process = subprocess.run(
        command,
        cwd=ROOT,
        env=fleet.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return process.returncode, process.stdout


def looks(fleet):
    with fleet.redis() as client:
        return client.llen("ingot:looks")


def unconcerned(fleet):
    """Wait until the work before the backup is older than the guard's margin."""
    first_count = looks(fleet)
    until(lambda: looks(fleet) > first_count + MARGIN + 5, "checks without work")


class Night:
    """Machines are cleaned while the database is dumped, and put into use after it."""

    def __init__(self, fleet, simulator, url, dump):
        (self.idle,) = fleet.create_nodes(1)
        fleet.provision([self.idle], "manage")
        fleet.await_state([self.idle], "manageable")
        self.nodes = fleet.enrol(simulator)
        fleet.provision(self.nodes, "manage")
        fleet.await_state(self.nodes, "manageable")
        unconcerned(fleet)
        fleet.provision(self.nodes, "provide")
        until(lambda: "clean wait" in fleet.states().values(), "cleaning")
        assert not tool("pg_dump", "--format=custom", f"--file={dump}", url)
        fleet.await_state(self.nodes, "available")
        fleet.provision(self.nodes, "active")
        fleet.await_state(self.nodes, "active")


def restore(url, dump):
    """Restore as the operations guide says: under a running service it may end in a deadlock."""
    options = ["--clean", "--if-exists", "--single-transaction", f"--dbname={url}"]
    for _ in range(5):
        complaint = tool("pg_restore", *options, dump)
        if "deadlock" not in complaint:
            break
    assert not complaint, complaint


def in_doubt(fleet):
    return {node for node, (_, fault) in fleet.states("fault").items() if fault == "restored"}


def test_a_dump_restored_under_a_running_service_puts_nodes_worked_on_since_into_maintenance(
    postgres, tmp_path
):
    url, dump = postgres.url, str(tmp_path / "dump")
    with (
        running(machines=2, **PACE) as simulator,
        Fleet(tmp_path, "--database", url, conductors=2, restart=True, **SETTINGS) as fleet,
    ):
        night = Night(fleet, simulator, url, dump)
        first_orders = orders(simulator)
        restore(url, dump)
        until(lambda: in_doubt(fleet) == set(night.nodes), "the detection of the restore")
        status, output = ingot(fleet, url, "doctor", "-o", "json", "--data-dir", str(fleet.data))
        findings = {(finding["check"], finding["subject"]) for finding in json.loads(output)}
        expected = {("unchecked nodes", f"node {node}") for node in night.nodes}
        assert (1, expected | {("encryption", "secrets")}) == (status, findings)  # it has no key
        fleet.provision([night.idle], "provide")  # other nodes are not affected
        fleet.await_state([night.idle], "available")
        assert first_orders == orders(simulator)


@pytest.mark.slow
def test_an_operator_declares_a_restore_that_an_emptied_redis_cannot_detect(postgres, tmp_path):
    url, dump = postgres.url, str(tmp_path / "dump")
    with running(machines=2, **PACE) as simulator:
        with Fleet(tmp_path, "--database", url, conductors=2, **SETTINGS) as fleet:
            night = Night(fleet, simulator, url, dump)
            with fleet.redis() as client:
                client.flushall()
        first_orders = orders(simulator)
        restore(url, dump)
        status, output = ingot(fleet, url, "db", "restored")
        assert (0, True) == (status, output.endswith("3 nodes are in maintenance\n")), output
        with Fleet(tmp_path, "--database", url, conductors=2, **SETTINGS) as fleet:
            assert {night.idle, *night.nodes} == in_doubt(fleet)
            end = time.monotonic() + 3
            while time.monotonic() < end:
                assert first_orders == orders(simulator)
                time.sleep(0.2)


@pytest.fixture
def replica(postgres):
    with a_folder() as folder, serving(Replica(folder, postgres)) as server:
        until(server.receives, "replication")
        yield server


def test_a_replica_that_has_lost_seconds_puts_the_nodes_of_these_seconds_into_maintenance(
    postgres, replica, tmp_path
):
    database = postgresql.name_of(postgres.url)
    url = (
        f"postgresql:///{database}?user={postgresql.ACCOUNT}"
        f"&host={postgres.folder},{replica.folder}&target_session_attrs=read-write"
    )
    with Fleet(tmp_path, "--database", url, conductors=2, **SETTINGS) as fleet:
        nodes = fleet.create_nodes(12)
        touched, other_nodes = nodes[:4], nodes[4:]
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        unconcerned(fleet)
        replica.cut_off()
        fleet.provision(touched, "provide")
        fleet.await_state(touched, "available")
        until(lambda: mark(postgres, database) > mark(replica, database) + 2, "heartbeats")
        postgres.crash()
        replica.promote()
        until(lambda: answers(fleet), "the new primary")
        until(lambda: in_doubt(fleet) == set(touched), "the notice")
        assert {"manageable"} == set(fleet.states().values()), "nothing was lost"
        for node in other_nodes:
            until(lambda node=node: fleet.request(node, "provide").status_code == 202, "yes")
        fleet.await_state(other_nodes, "available")
        assert in_doubt(fleet) == set(touched)


def mark(server, database):
    return ask(server, database, "SELECT level FROM watermark")
