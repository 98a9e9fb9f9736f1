"""
The disk is really full: requests are refused with that reason, nothing is half-written, and once
there is space all work continues by itself.
"""

import pwd
import shutil

import psycopg
import pytest
import redis

from tests.chaos.disks import disk
from tests.chaos.outage import SETTINGS, Outage, answers, ask, assert_please_retry, put, ready
from tests.chaos.servers import PostgreSQL, Redis, a_folder, running
from tests.support import postgresql
from tests.support.fleet import Fleet, until

#: Nodes whose creation fills the free space of the database's own files on a full disk.
MANY = 3000


def create(fleet):
    return ask(fleet, "POST", "nodes", json={"driver": "fake-hardware", "description": "x" * 4000})


def create_until_full(fleet):
    """Enrol nodes until there is no space; return the UUIDs of those that were accepted."""
    nodes = []
    for _ in range(MANY):
        answer, seconds = create(fleet)
        assert 10 > seconds
        if answer.status_code != 201:
            assert_please_retry(answer)
            assert "The database is full" in answer.text
            return nodes
        nodes.append(answer.json()["uuid"])
    raise AssertionError(f"{MANY} nodes have found space")


def survives(fleet, full):
    """A fleet on a disk that becomes full while half of its nodes are cleaned."""
    outage = Outage(fleet)
    first_nodes, then = outage.nodes[:3], outage.nodes[3:]
    with outage.watched():
        fleet.provision(first_nodes, "provide")
        full.fill()
        created_nodes = create_until_full(fleet)
        full.fill()
        accepted = [node for node in then if put(fleet, node, "provide")[0].status_code == 202]
        assert {*outage.nodes, *created_nodes} == set(fleet.states()), (
            "a node is half-written, or lost"
        )
        full.empty()
        for node in set(then) - set(accepted):
            until(lambda node=node: put(fleet, node, "provide")[0].status_code == 202, "yes")
        until(lambda: answers(fleet), "an answer of every process")
        fleet.await_state(outage.nodes, "available")
        assert 201 == create(fleet)[0].status_code
    operations = [operation for node in outage.nodes for operation in fleet.operations(node)]
    assert {"succeeded"} == {operation["state"] for operation in operations}
    assert 2 * len(outage.nodes) == len(operations), "a request was lost or repeated"


def test_sqlite_and_redis_survive_a_full_disk_that_they_share(tmp_path):
    with disk(tmp_path / "data", 48) as full, Fleet(tmp_path, **SETTINGS) as fleet:
        ready(fleet)
        survives(fleet, full)


@pytest.fixture
def folder():
    with a_folder() as path:
        yield path


def account():
    entry = pwd.getpwnam(postgresql.ACCOUNT)
    return entry.pw_uid, entry.pw_gid


def test_postgresql_survives_full_tables(folder, tmp_path):
    with running(PostgreSQL(folder)) as server, disk(folder / "small", 48, account()) as small:
        server.server.execute(f"CREATE TABLESPACE small LOCATION '{small.path}'")
        server.server.execute("CREATE DATABASE small TABLESPACE small")
        url = f"postgresql:///small?host={folder}&user={postgresql.ACCOUNT}"
        with Fleet(tmp_path, "--database", url, **SETTINGS) as fleet:
            ready(fleet)
            survives(fleet, small)


class FullLog(PostgreSQL):
    """A server whose write-ahead log has its own disk. It ends when that is full."""

    def __init__(self, folder, wal):
        super().__init__(folder)
        self.wal = wal
        log = folder / "data" / "pg_wal"
        shutil.copytree(log, wal.path / "log")
        shutil.rmtree(log)
        log.symlink_to(wal.path / "log")
        for path in (wal.path / "log").rglob("*"):
            shutil.chown(path, *account())
        shutil.chown(wal.path / "log", *account())

    def fill(self):
        def ended():
            self.wal.fill()
            try:
                self.server.execute("CREATE TABLE IF NOT EXISTS more (x text)")
                self.server.execute("INSERT INTO more SELECT repeat('x', 1000)")
                self.server.execute("SELECT pg_switch_wal()")
            except psycopg.OperationalError:
                return self.process.poll() is not None
            return False

        until(ended, "the end of the server")

    def empty(self):
        """Make space, and start the server, as an operator does."""
        self.wal.empty()
        self.start()


@pytest.mark.slow
def test_postgresql_survives_a_full_log(folder, tmp_path):
    with (
        disk(folder / "wal", 100, account()) as wal,
        running(FullLog(folder, wal)) as server,
        Fleet(tmp_path, "--database", server.url, **SETTINGS) as fleet,
    ):
        outage = Outage(ready(fleet))
        message = "The database is out of reach"
        outage.clean(server.fill, server.empty, lambda nodes: outage.refused(nodes, message))


class LoggingRedis(Redis):
    """A Redis with an append-only log, on its own disk."""

    def __init__(self, folder, full):
        super().__init__(folder)
        self.full = full

    def start(self):
        super().start()
        self.ask("CONFIG", "SET", "appendonly", "yes")

    def fill(self):
        def refused():
            self.full.fill()
            try:
                self.ask("SET", "more", "x" * 10_000)
            except redis.RedisError as error:
                return "No space left on device" in str(error)
            return False

        until(refused, "a refusal")

    def empty(self):
        self.full.empty()


@pytest.mark.slow
def test_redis_survives_a_full_log(tmp_path):
    with (
        disk(tmp_path / "redis", 8) as full,
        running(LoggingRedis(tmp_path, full)) as server,
        Fleet(tmp_path, "--broker", server.url, **SETTINGS) as fleet,
    ):
        outage = Outage(ready(fleet))
        outage.clean(server.fill, server.empty, outage.accepted)
