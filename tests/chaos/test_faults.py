"""Processes die, stop or lose data, under concurrent requests: every node reaches its state."""

import os
import shutil
import signal
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
import requests

from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, CALM, Fleet, until

#: Fake hardware with delays, so that faults can happen meanwhile.
SLOW = {
    "INGOT_FAKE_VENDOR_DELAY": "0.2,1",
    "INGOT_FAKE_DEPLOY_DELAY": "0.2,1",
    "INGOT_FAKE_BOOT_DELAY": "0.2,1",
}


def at_once(ask, items):
    """Return `ask` of each item, called concurrently."""
    with ThreadPoolExecutor(min(100, len(items))) as pool:
        return list(pool.map(ask, items))


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A fleet that restarts dead processes, with 20 manageable nodes."""
    with Fleet(tmp_path_factory.mktemp("busy"), restart=True, **SLOW) as fleet:
        fleet.nodes = fleet.create_nodes(20)
        fleet.provision(fleet.nodes, "manage")
        fleet.await_state(fleet.nodes, "manageable")
        yield fleet


def clean_and_go_back(fleet, meanwhile):
    """Clean all nodes; call `meanwhile` while they are being cleaned."""
    newest_event = fleet.newest_event()
    fleet.provision(fleet.nodes, "provide")
    fleet.await_entry("clean wait", newest_event)
    meanwhile()
    fleet.await_state(fleet.nodes, "available")
    assert {"succeeded"} == {fleet.operation(node, "provide")["state"] for node in fleet.nodes}
    fleet.provision(fleet.nodes, "manage")
    fleet.await_state(fleet.nodes, "manageable")


def test_nodes_are_cleaned_although_redis_is_emptied(busy):
    with busy.redis() as client:
        clean_and_go_back(busy, client.flushall)
        until(lambda: client.exists("ingot:epoch"), "the notice that it was empty")
    assert busy.log("broker.was_empty")


def test_nodes_are_cleaned_although_redis_dies_with_its_data(busy):
    def kill():
        (pid,) = busy.pids()["redis"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: pid not in busy.pids()["redis"], "the death of Redis")
        shutil.rmtree(busy.data / "redis", ignore_errors=True)
        (busy.data / "redis").mkdir(exist_ok=True)

    clean_and_go_back(busy, kill)


def test_a_dead_beat_is_replaced_and_messages_lost_meanwhile_are_sent_again(busy):
    def kill():
        (pid,) = busy.pids()["beat"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: pid not in busy.pids()["beat"], "the death of beat")
        with busy.redis() as client:
            client.flushall()

    clean_and_go_back(busy, kill)


def test_a_request_is_executed_although_the_api_dies_before_it_sends(tmp_path):
    with Fleet(tmp_path, INGOT_KILL_POINTS="api:committed:manage=die") as fleet:
        nodes = fleet.create_nodes(4)

        def taken(node):
            """Request it; return whether it is in the database. Its response is lost in any case."""
            with suppress(requests.ConnectionError):
                fleet.request(node, "manage")
            with suppress(requests.ConnectionError):
                return fleet.operations(node)

        for node in nodes:
            until(partial(taken, node), "the request")
        fleet.await_state(nodes, "manageable")
        assert [1] * 4 == [len(fleet.operations(node)) for node in nodes]
        assert {True} == {fleet.operation(node, "manage")["sends"] > 1 for node in nodes}


def test_a_conductor_that_was_declared_dead_writes_nothing(tmp_path):
    with Fleet(tmp_path, INGOT_KILL_POINTS="fleet-1:acted:provide=stop") as fleet:
        nodes = fleet.create_nodes(8)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")

        def stopped():
            return fleet.stopped(fleet.conductor(1))

        def stopped_or_done(node):
            return stopped() or fleet.states()[node] == "available"

        # one at a time, as SQLite has one writer: a process stopped in a write blocks all others
        for its in nodes:
            fleet.provision([its], "provide")
            until(partial(stopped_or_done, its), "the stop")
            if stopped():
                break
        fleet.await_state([its], "available")
        earlier_node = fleet.get(f"nodes/{its}")
        os.kill(fleet.conductor(1), signal.SIGCONT)
        until(lambda: fleet.operation(its, "provide")["refused"], "the refusal")
        assert fleet.log("step.refused")
        assert [1, 0, 0] == [step["deaths"] for step in fleet.operation(its, "provide")["steps"]]
        assert earlier_node == fleet.get(f"nodes/{its}") | {"conductor": earlier_node["conductor"]}


def any_deaths(operation):
    return sum(step["deaths"] for step in operation["steps"])


def test_a_drained_conductor_leaves_nothing_undone(tmp_path):
    with Fleet(tmp_path, **SLOW) as fleet:
        nodes = fleet.create_nodes(20)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        fleet.provision(nodes, "provide")
        os.kill(fleet.conductor(1), signal.SIGTERM)
        until(lambda: "fleet-1" not in fleet.pids()["conductors"], "its end")
        fleet.await_state(nodes, "available")
        assert 0 == sum(any_deaths(fleet.operation(node, "provide")) for node in nodes)


def test_one_of_a_hundred_concurrent_requests_for_a_node_is_accepted(tmp_path):
    with Fleet(tmp_path, conductors=1) as fleet:
        (node,) = fleet.create_nodes(1)
        answers = Counter(
            answer.status_code
            for answer in at_once(lambda _: fleet.request(node, "manage"), range(100))
        )
        assert 1 == answers.pop(202)
        assert {400, 409} >= set(answers)
        assert 99 == answers.total()
        fleet.await_state([node], "manageable")
        assert 1 == len(fleet.operations(node))


def test_requests_for_two_hundred_nodes_are_accepted_at_once_and_executed(tmp_path):
    with Fleet(tmp_path, **CALM) as fleet:
        nodes = fleet.create_nodes(200)
        with sqlite3.connect(fleet.data / "ingot.db") as database:  # as if they were verified
            database.execute("UPDATE nodes SET provision_state = 'manageable'")
        answers = at_once(lambda node: fleet.request(node, "provide").status_code, nodes)
        assert {202: 200} == Counter(answers)
        fleet.await_state(nodes, "available")


def test_no_process_survives_the_supervisor_and_a_second_supervisor_is_refused(tmp_path):
    with Fleet(tmp_path) as fleet:
        pids = fleet.running()
        with Fleet(tmp_path, ready=False) as second:
            assert 1 == second.process.wait(30)
            assert "in use by another ingot up" in second.text()
        assert pids == fleet.running()
        fleet.process.kill()
        until(lambda: not fleet.running(), "the end of all")


def test_a_node_that_waits_for_its_agent_survives_a_restart_of_all_processes(tmp_path):
    pace = {"boot_seconds": 1, "step_seconds": 0.1, "heartbeat_gap": 0.5, "retry_factor": 0.05}
    with running(machines=3, **pace) as simulator:
        with Fleet(tmp_path, conductors=1, **AGENTS) as fleet:
            nodes = fleet.enrol(simulator)
            fleet.provision(nodes, "manage")
            fleet.await_state(nodes, "manageable")
            newest_event = fleet.newest_event()
            fleet.provision(nodes, "provide")
            fleet.await_entry("clean wait", newest_event)
        port = fleet.url.rpartition(":")[2]
        with Fleet(tmp_path, "--port", port, conductors=1, **AGENTS) as again:
            again.await_state(nodes, "available")
            assert {"succeeded"} == {
                operation["state"] for node in nodes for operation in again.operations(node)
            }
