"""Two services on one database of Redis, and a service behind Sentinel."""

import json
import re
import signal
from collections import Counter
from contextlib import ExitStack

import pytest

from app.db import sqlite
from tests.e2e.roles_alone import LIFE, Site
from tests.support import processes
from tests.support import redis as own_redis
from tests.support.fleet import CALM, Fleet, until
from tests.support.ports import free_port

#: No message is sent again for being late, and no conductor counts as dead: for a minute, on a slow
#: machine, too.
ONCE = {"INGOT_CONDUCTOR_RESEND_AFTER": "60", "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "60"}


def test_services_with_different_prefixes_take_no_message_of_each_other(tmp_path):
    with ExitStack() as stack:
        port = stack.enter_context(own_redis.serving(tmp_path))
        client = stack.enter_context(own_redis.client(port))
        fleets = []
        for prefix in ("site-a", "site-b", "ingot"):
            folder = tmp_path / prefix
            folder.mkdir()
            # the conductors have the same names
            settings = {
                "INGOT_BROKER_URL": f"redis://127.0.0.1:{port}/0",
                "INGOT_BROKER_PREFIX": prefix,
            }
            settings |= CALM | ONCE
            fleets.append(stack.enter_context(Fleet(folder, conductors=1, **settings)))
            # a service whose broker is not marked yet sends again what waits there
            until(lambda prefix=prefix: client.exists(f"{prefix}:epoch"), "the broker's mark")
        nodes = {fleet: fleet.create_nodes(8) for fleet in fleets}
        for verb in ("manage", "provide"):
            for fleet in fleets:
                fleet.provision(nodes[fleet], verb)
            for fleet in fleets:
                fleet.await_state(nodes[fleet], LIFE[verb])
        for fleet in fleets:
            operations = [
                operation for node in nodes[fleet] for operation in fleet.operations(node)
            ]
            assert 16 == len(operations)
            # a message that went to another service would have been sent again
            assert {1} == {operation["sends"] for operation in operations}
            attempts = {step["attempts"] for operation in operations for step in operation["steps"]}
            assert attempts <= {0, 1}
        check_prefixes({key.decode() for key in client.scan_iter()})


def check_prefixes(keys):
    """Check that each key belongs to one service; queues of the service `ingot` have no prefix."""
    names = {re.sub(r"^_kombu\.binding\w*\.?", "", key) for key in keys}
    prefixes = ("site-a", "site-b", "ingot:", "conductor.", "celery")
    assert not {name for name in names if name and not name.startswith(prefixes)}


@pytest.fixture
def sentinel(tmp_path):
    """URL of a primary with a replica, by Sentinel; kills the primary; port of the replica."""
    with ExitStack() as stack:
        folders = [tmp_path / name for name in ("primary", "replica", "sentinel")]
        for folder in folders:
            folder.mkdir()
        primaries = ExitStack()
        primary = primaries.enter_context(own_redis.serving(folders[0]))
        stack.callback(primaries.close)
        replica = stack.enter_context(
            own_redis.serving(folders[1], replicaof=f"127.0.0.1 {primary}")
        )
        port = free_port()
        (folders[2] / "sentinel.conf").write_text(
            f"port {port}\nbind 127.0.0.1\ndir {folders[2]}\n"
            f"sentinel monitor main 127.0.0.1 {primary} 1\n"
            "sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n"
        )
        stack.enter_context(own_redis.sentinel(folders[2]))
        with own_redis.client(replica) as client:
            until(lambda: client.info("replication")["master_link_status"] == "up", "the replica")
        with own_redis.client(port) as client:
            until(lambda: client.sentinel_slaves("main"), "the Sentinel's view of the replica")
        yield f"sentinel://127.0.0.1:{port}/main/2", primaries.close, replica


def test_work_goes_on_after_a_failover_by_sentinel(tmp_path, sentinel):
    url, kill_primary, _ = sentinel
    site = Site(tmp_path, lambda _role: url)
    site.environ |= {"INGOT_BROKER_CONNECT_TIMEOUT": "2"}
    try:
        site.start()
        first_node, second_node = (
            site.request("POST", "nodes", driver="fake-hardware").json()["uuid"] for _ in range(2)
        )
        for verb, state in LIFE.items():
            site.provision(first_node, verb, state)
        kill_primary()
        for verb, state in LIFE.items():
            site.provision(second_node, verb, state)
        site.request("PUT", f"nodes/{second_node}/management/boot_device", boot_device="pxe")
    finally:
        site.kill()


def test_a_failover_that_loses_the_last_writes_neither_loses_nor_doubles_work(tmp_path, sentinel):
    """Lost are messages of steps that have not begun, and the leases of those that have."""
    url, kill_primary, replica = sentinel
    site = Site(tmp_path, lambda _role: url)
    site.environ |= {"INGOT_BROKER_CONNECT_TIMEOUT": "2", "INGOT_FAKE_POWER_DELAY": "2"}
    try:
        site.start()
        conductor = site.processes[1]
        nodes = [
            site.request("POST", "nodes", driver="fake-hardware").json()["uuid"] for _ in range(8)
        ]
        with own_redis.client(replica) as client:
            client.replicaof("127.0.0.1", free_port())
            until(lambda: client.info("replication")["master_link_status"] == "down", "the loss")
        manage(site, nodes[:4])
        until(lambda: "queued" not in states(site, nodes[:4]), "steps that have begun")
        conductor.send_signal(signal.SIGSTOP)
        until(lambda: processes.state(conductor.pid) == "T", "the stop of the conductor")
        sqlite.release_stopped_writer(site.database("conductor"))  # as its supervisor does
        manage(site, nodes[4:])
        kill_primary()
        conductor.send_signal(signal.SIGCONT)
        until(lambda: {"succeeded"} == states(site, nodes), f"the end; {site.text()[-3000:]}")
        for node in nodes:
            (operation,) = site.request("GET", f"nodes/{node}/operations").json()["operations"]
            steps = site.request("GET", f"operations/{operation['uuid']}").json()["steps"]
            assert {1} == {step["attempts"] for step in steps}, steps
        lines = [json.loads(line) for line in site.text().splitlines() if '"step.acted"' in line]
        completions = Counter(
            (line["operation"], line["step"]) for line in lines if line["outcome"] == "done"
        )
        assert set(completions.values()) == {1}, completions
        assert 8 == len({operation for operation, _ in completions})
    finally:
        site.kill()


def manage(site, nodes):
    for node in nodes:
        site.request("PUT", f"nodes/{node}/states/provision", target="manage")


def states(site, nodes):
    """States of the last operations of nodes."""
    listed = [
        site.request("GET", f"nodes/{node}/operations").json()["operations"] for node in nodes
    ]
    return {operations[0]["state"] for operations in listed}
