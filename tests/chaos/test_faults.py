"""Whatever dies, stops or forgets, and however many ask at once: every node arrives."""

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
from tests.support.fleet import AGENTS, Fleet, until

#: Fake hardware that takes its time, so that something can happen meanwhile.
SLOW = {
    "INGOT_FAKE_VENDOR_DELAY": "0.2,1",
    "INGOT_FAKE_DEPLOY_DELAY": "0.2,1",
    "INGOT_FAKE_BOOT_DELAY": "0.2,1",
}
#: The defaults: under load, who is slow is not to be taken for dead.
CALM = {
    "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "15",
    "INGOT_CONDUCTOR_LEASE_TTL": "10",
    "INGOT_CONDUCTOR_RECONCILE_INTERVAL": "2",
    "INGOT_CONDUCTOR_RESEND_AFTER": "5",
}


def at_once(ask, items):
    """What `ask` returns for each item, as many as possible asked at the same time."""
    with ThreadPoolExecutor(min(100, len(items))) as pool:
        return list(pool.map(ask, items))


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A fleet whose dead come back, and its 20 nodes, manageable."""
    with Fleet(tmp_path_factory.mktemp("busy"), restart=True, **SLOW) as fleet:
        fleet.nodes = fleet.create_nodes(20)
        fleet.provision(fleet.nodes, "manage")
        fleet.await_state(fleet.nodes, "manageable")
        yield fleet


def clean_and_go_back(fleet, meanwhile):
    """Clean all nodes; something happens while they are at it."""
    fleet.provision(fleet.nodes, "provide")
    until(lambda: "clean wait" in fleet.states().values(), "the first wait")
    meanwhile()
    fleet.await_state(fleet.nodes, "available")
    assert {"succeeded"} == {fleet.operation(node, "provide")["state"] for node in fleet.nodes}
    fleet.provision(fleet.nodes, "manage")
    fleet.await_state(fleet.nodes, "manageable")


def test_redis_that_forgets_everything_is_made_up_for(busy):
    with busy.redis() as client:
        clean_and_go_back(busy, client.flushall)
        until(lambda: client.exists("ingot:epoch"), "the notice that it was empty")
    assert busy.log("broker.was_empty")


def test_redis_that_dies_with_its_data_is_made_up_for(busy):
    def kill():
        (pid,) = busy.pids()["redis"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: pid not in busy.pids()["redis"], "the death of Redis")
        shutil.rmtree(busy.data / "redis", ignore_errors=True)
        (busy.data / "redis").mkdir(exist_ok=True)

    clean_and_go_back(busy, kill)


def test_beat_that_dies_is_replaced_and_messages_lost_meanwhile_are_sent_again(busy):
    def kill():
        (pid,) = busy.pids()["beat"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: pid not in busy.pids()["beat"], "the death of beat")
        with busy.redis() as client:
            client.flushall()

    clean_and_go_back(busy, kill)


def test_a_request_is_carried_out_though_the_api_dies_before_it_sends(tmp_path):
    # restarted: granian gives up when its processes die one after the other
    with Fleet(tmp_path, restart=True, INGOT_KILL_POINTS="api:committed:manage=die") as fleet:
        nodes = fleet.create_nodes(4)

        def taken(node):
            """Whether the request is in the database; its answer is lost in any case."""
            with suppress(requests.ConnectionError):
                fleet.request(node, "manage")
            with suppress(requests.ConnectionError):
                return fleet.operations(node)

        for node in nodes:
            until(partial(taken, node), "the request")
        fleet.await_state(nodes, "manageable")
        assert [1] * 4 == [len(fleet.operations(node)) for node in nodes]
        assert {True} == {fleet.operation(node, "manage")["sends"] > 1 for node in nodes}


def test_a_conductor_that_was_given_up_for_dead_writes_nothing(tmp_path):
    with Fleet(tmp_path, INGOT_KILL_POINTS="fleet-1:acted:provide=stop") as fleet:
        nodes = fleet.create_nodes(8)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")

        def stopped():
            return fleet.stopped(fleet.conductor(1))

        def stopped_or_done(node):
            return stopped() or fleet.states()[node] == "available"

        # one at a time, as SQLite has one writer: who is stopped while it writes stops all others
        for its in nodes:
            fleet.provision([its], "provide")
            until(partial(stopped_or_done, its), "the stop")
            if stopped():
                break
        fleet.await_state([its], "available")
        before = fleet.get(f"nodes/{its}")
        os.kill(fleet.conductor(1), signal.SIGCONT)
        until(lambda: fleet.operation(its, "provide")["refused"], "the refusal")
        assert fleet.log("step.refused")
        assert [1, 0, 0] == [step["deaths"] for step in fleet.operation(its, "provide")["steps"]]
        assert before == fleet.get(f"nodes/{its}") | {"conductor": before["conductor"]}


def any_deaths(operation):
    return sum(step["deaths"] for step in operation["steps"])


def test_a_conductor_that_is_told_to_stop_leaves_nothing_undone(tmp_path):
    with Fleet(tmp_path, **SLOW) as fleet:
        nodes = fleet.create_nodes(20)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        fleet.provision(nodes, "provide")
        os.kill(fleet.conductor(1), signal.SIGTERM)
        until(lambda: "fleet-1" not in fleet.pids()["conductors"], "its end")
        fleet.await_state(nodes, "available")
        assert 0 == sum(any_deaths(fleet.operation(node, "provide")) for node in nodes)


def test_one_of_a_hundred_requests_for_one_node_is_accepted(tmp_path):
    with Fleet(tmp_path, conductors=1) as fleet:
        (node,) = fleet.create_nodes(1)
        answers = Counter(
            each.status_code
            for each in at_once(lambda _: fleet.request(node, "manage"), range(100))
        )
        assert 1 == answers.pop(202)
        assert {400, 409} >= set(answers)
        assert 99 == answers.total()
        fleet.await_state([node], "manageable")
        assert 1 == len(fleet.operations(node))


def test_two_hundred_nodes_are_accepted_at_once_and_all_arrive(tmp_path):
    with Fleet(tmp_path, **CALM) as fleet:
        nodes = fleet.create_nodes(200)
        with sqlite3.connect(fleet.data / "ingot.db") as database:  # as if they were verified
            database.execute("UPDATE nodes SET provision_state = 'manageable'")
        answers = at_once(lambda node: fleet.request(node, "provide").status_code, nodes)
        assert {202: 200} == Counter(answers)
        fleet.await_state(nodes, "available")


def test_nothing_is_left_when_the_supervisor_is_killed_and_a_second_one_is_refused(tmp_path):
    with Fleet(tmp_path) as fleet:
        before = fleet.running()
        with Fleet(tmp_path, ready=False) as second:
            assert 1 == second.process.wait(30)
            assert "in use by another ingot up" in second.text()
        assert before == fleet.running()
        fleet.process.kill()
        until(lambda: not fleet.running(), "the end of all")


def test_a_node_that_waits_for_its_agent_survives_a_restart_of_everything(tmp_path):
    pace = {"boot_seconds": 1, "step_seconds": 0.1, "heartbeat_gap": 0.5, "retry_factor": 0.05}
    with running(machines=3, **pace) as simulator:
        with Fleet(tmp_path, conductors=1, **AGENTS) as fleet:
            nodes = fleet.enrol(simulator)
            fleet.provision(nodes, "manage")
            fleet.await_state(nodes, "manageable")
            fleet.provision(nodes, "provide")
            until(lambda: "clean wait" in fleet.states().values(), "a wait")
        port = fleet.url.rpartition(":")[2]
        with Fleet(tmp_path, "--port", port, conductors=1, **AGENTS) as again:
            again.await_state(nodes, "available")
            assert {"succeeded"} == {
                operation["state"] for node in nodes for operation in again.operations(node)
            }
