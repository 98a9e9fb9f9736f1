"""Celery's monitors on the broker of a running service: each step is a task."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import requests
from celery import Celery
from celery.events.state import heartbeat_expires

from tests.support.fleet import CALM, PATIENCE, Fleet, until
from tests.support.ports import free_port

BIN = Path(sys.executable).parent
#: As the page of operations recommends.
COLUMNS = "name,args,state,result,received,started,runtime,worker"
VERBS = {
    "manage": "manageable",
    "provide": "available",
    "active": "active",
    "deleted": "available",
}


def broker(fleet):
    return f"redis+socket://{fleet.data / 'redis.sock'}"


@contextmanager
def flower_on(fleet, folder):
    """Run Flower; yield the address of its API."""
    port = free_port()
    environ = {
        **os.environ,
        "CELERY_BROKER_URL": broker(fleet),
        "FLOWER_UNAUTHENTICATED_API": "true",
    }
    with (folder / "flower.log").open("w") as log:
        flower = subprocess.Popen(
            [
                BIN / "celery", "flower", "--address=127.0.0.1", f"--port={port}",
                f"--tasks_columns={COLUMNS}",
            ],
            env=environ, cwd=folder, stdout=subprocess.DEVNULL, stderr=log,
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{port}/api"
        finally:
            flower.terminate()
            flower.wait(PATIENCE)


@contextmanager
def events_on(fleet):
    """Collect the task events of the service, as `celery events` does."""
    events = []
    with (
        Celery("monitor", broker=broker(fleet)) as application,
        application.connection() as connection,
    ):
        receiver = application.events.Receiver(connection, handlers={"*": events.append})

        def capture():
            while not receiver.should_stop:
                with suppress(TimeoutError):
                    receiver.capture(limit=None, timeout=0.5, wakeup=False)

        thread = threading.Thread(target=capture, daemon=True)
        thread.start()
        try:
            yield events
        finally:
            receiver.should_stop = True
            thread.join(PATIENCE)


def planned(fleet, node):
    """Steps of a node's operations by kind, as the API shows them."""
    return {
        operation["kind"]: [f"{step['interface']}.{step['step']}" for step in operation["steps"]]
        for operation in fleet.operations(node)
    }


def chains(events):
    """Tasks of each chain that has ended, in order: [(name, event that ended it)]."""
    received = {event["uuid"]: event for event in events if event["type"] == "task-received"}
    ended = {
        event["uuid"]: event["type"]
        for event in events
        if event["type"] in ("task-succeeded", "task-failed")
    }
    tasks_by_root = {}
    for task, event in received.items():
        if event["name"].startswith("ingot."):
            continue
        tasks_by_root.setdefault(event["root_id"], []).append((event["name"], ended.get(task)))
    return [tasks for tasks in tasks_by_root.values() if all(end for _, end in tasks)]


def test_monitors_show_each_step_as_a_task_with_its_name(tmp_path):
    with (
        Fleet(
            tmp_path, conductors=1, INGOT_BROKER_EVENTS="true", INGOT_BROKER_REMOTE_CONTROL="true"
        ) as fleet,
        events_on(fleet) as events,
        flower_on(fleet, tmp_path) as flower,
    ):
        until(lambda: answers(f"{flower}/workers?refresh=1"), "a worker in Flower")
        until(lambda: events, "an event")
        # Flower shows no task that runs before its own subscription: by its first event it has one
        until(lambda: answers(f"{flower}/workers?status=1"), "an event in Flower")
        (node,) = fleet.create_nodes(1)
        for verb, state in VERBS.items():
            fleet.provision([node], verb)
            fleet.await_state([node], state)
        steps = planned(fleet, node)
        for kind, labels in steps.items():
            expected = [(label, "task-succeeded") for label in labels]
            until(lambda expected=expected: expected in chains(events), f"the chain of {kind}")

        def tasks():
            return answers(f"{flower}/tasks") or {}

        names = {label for labels in steps.values() for label in labels}
        # links that a wait has cut off do not stay behind as waiting ones
        ends = {"SUCCESS", "REVOKED"}
        until(
            lambda: {task["state"] for task in tasks().values() if node in task["args"]} <= ends,
            "the end of all links in Flower",
        )

        def ended():
            named_tasks = {key: task for key, task in tasks().items() if task["name"] in names}
            states = {task["name"]: task["state"] for task in named_tasks.values()}
            return named_tasks if dict.fromkeys(names, "SUCCESS") == states else None

        shown_tasks = until(ended, "the end of all steps in Flower")
        assert "'done'" in {task["result"] for task in shown_tasks.values()}
        for task in shown_tasks.values():
            assert node in task["args"]
            if task["parent_id"]:
                assert shown_tasks[task["parent_id"]]["root_id"] == task["root_id"]
        assert "conductor@fleet-1" in answers(f"{flower}/workers")


def states_on(page):
    """Worker -> its status, as the page of workers shows them."""
    page.reload()
    # the table is drawn by a script, after its request
    page.locator("#workers-table tbody .badge").first.wait_for(timeout=PATIENCE * 1000)
    cells = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))"
    rows = page.locator("#workers-table tbody tr").evaluate_all(cells)
    return {name: status for name, status, *_ in rows}


def silence(address):
    """Worker -> seconds without a heartbeat after which Flower takes it for dead."""
    workers = answers(f"{address}/workers?json=1")["data"]
    return {worker["hostname"]: heartbeat_expires(0, worker["freq"]) for worker in workers}


def pending_on(page, address, node):
    """Names of the node's tasks that Flower's page shows as waiting ones."""
    page.goto(f"{address}/tasks?state=PENDING")  # the table does not refresh itself
    page.locator("#tasks-table tbody tr").first.wait_for(timeout=PATIENCE * 1000)
    rows = page.locator("#tasks-table tbody tr", has_text=node)
    return {row.locator("td").first.inner_text() for row in rows.all()}


def test_flower_tells_idle_live_conductors_from_a_dead_one(tmp_path, chromium):
    """It knows workers by their heartbeats, and shows one as offline 20 s after the last."""
    workers = [f"{kind}@fleet-{number}" for kind in ("conductor", "now") for number in (1, 2)]
    with (
        Fleet(tmp_path, conductors=2, INGOT_BROKER_EVENTS="true", **CALM) as fleet,
        flower_on(fleet, tmp_path) as flower,
    ):
        until(lambda: answers(f"{flower}/workers") is not None, "Flower")
        address = flower.removesuffix("/api")
        page = chromium.new_page()
        try:
            page.goto(f"{address}/workers")
            until(
                lambda: states_on(page) == dict.fromkeys(workers, "Online"), "two live conductors"
            )
            # until its first heartbeat, Flower waits longer for a worker
            bounds = dict.fromkeys(workers, 20.0)
            until(lambda: silence(address) == bounds, "a heartbeat of each worker")
            os.kill(fleet.conductor(2), signal.SIGKILL)
            alive = {name: "Online" if name.endswith("1") else "Offline" for name in workers}
            until(lambda: states_on(page) == alive, "the dead one")
            fleet._create("nodes", {"driver": "fake-hardware", "name": "rack1-u01"})
            fleet.provision(["rack1-u01"], "manage")
            row = page.locator("#tasks-table tbody tr", has_text="rack1-u01: node")

            def is_shown():
                page.goto(f"{address}/tasks")  # the table does not refresh itself
                page.locator("#tasks-table tbody tr").first.wait_for(timeout=PATIENCE * 1000)
                return row.count()

            until(is_shown, "the node in the table of tasks")
        finally:
            page.close()


def test_the_links_of_a_chain_that_waits_are_shown(tmp_path, chromium):
    with (
        Fleet(
            tmp_path, conductors=1, INGOT_BROKER_EVENTS="true",
            INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT="600", INGOT_CONDUCTOR_RESEND_AFTER="600",
        ) as fleet,
        flower_on(fleet, tmp_path) as flower,
    ):  # fmt: skip
        until(lambda: answers(f"{flower}/workers") is not None, "Flower")
        until(lambda: answers(f"{flower}/tasks"), "an event in Flower")
        # a pending read of the queue may get the first message
        first_node, node = fleet.create_nodes(2)
        fleet.provision([first_node, node], "manage")
        fleet.await_state([first_node, node], "manageable")
        conductor = fleet.conductor(1)

        def tasks(labels):
            tasks = (answers(f"{flower}/tasks?limit=1000") or {}).values()
            node_tasks = [task for task in tasks if node in (task["args"] or "")]
            return {(task["name"], task["state"]) for task in node_tasks if task["name"] in labels}

        page = chromium.new_page()
        os.kill(conductor, signal.SIGSTOP)
        try:
            for uuid in (first_node, node):
                fleet.provision([uuid], "provide")
            labels = planned(fleet, node)["provide"]
            assert len(set(labels)) > 1
            until(lambda: tasks(labels) == {(label, "PENDING") for label in labels}, "the chain")
            address = flower.removesuffix("/api")
            # a message that was sent again shows its links twice
            until(lambda: set(labels) <= pending_on(page, address, node), "the chain on the page")
        finally:
            os.kill(conductor, signal.SIGCONT)
            page.close()
        until(lambda: tasks(labels) == {(label, "SUCCESS") for label in labels}, "its end")


def test_a_failed_step_is_a_failed_task_with_its_error(tmp_path):
    with (
        Fleet(tmp_path, conductors=1, INGOT_BROKER_EVENTS="true") as fleet,
        events_on(fleet) as events,
    ):
        until(lambda: events, "an event")
        (node,) = fleet.create_nodes(1, driver="redfish", driver_info={
            "redfish_address": f"http://127.0.0.1:{free_port()}",
        })  # fmt: skip
        fleet.provision([node], "manage")
        until(
            lambda: [event for event in events if event["type"] == "task-failed"], "a failed task"
        )
        (failed,) = (event for event in events if event["type"] == "task-failed")
        operation = until(lambda: fleet.operations(node)[0]["error"] and fleet.operations(node)[0])
        assert operation["error"]["message"] in failed["exception"]
        assert "raised unexpected" not in fleet.text()


def answers(url):
    """Flower's response; None while there is none."""
    try:
        answer = requests.get(url, timeout=PATIENCE)
    except requests.ConnectionError:
        return None
    return answer.json() if answer.ok else None


def message_of(redis, node):
    """The queued message of a node's operation, its arguments and its embedded chain; None if there is none."""
    for raw in redis.lrange("conductor.fleet-1", 0, -1):
        message = json.loads(raw)
        args, _, embedded = json.loads(base64.b64decode(message["body"]))
        if args[0] == node:
            return message, args, embedded
    return None


def test_the_queue_of_a_stopped_conductor_has_the_chain_of_the_remaining_steps(tmp_path):
    with Fleet(
        tmp_path, conductors=1, INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT="60", INGOT_CONDUCTOR_RESEND_AFTER="60"
    ) as fleet:  # fmt: skip
        # a pending read of the queue may get the first message
        first_node, node = fleet.create_nodes(2)
        conductor = fleet.conductor(1)
        os.kill(conductor, signal.SIGSTOP)
        try:
            for uuid in (first_node, node):
                fleet.provision([uuid], "manage")
            with fleet.redis() as redis:
                message, args, embedded = until(lambda: message_of(redis, node), "a message")
        finally:
            os.kill(conductor, signal.SIGCONT)
        other_labels = [link["options"]["shadow"] for link in reversed(embedded["chain"] or [])]
        operation = fleet.operations(node)[0]
        assert [f"{step['interface']}.{step['step']}" for step in operation["steps"]] == [
            message["headers"]["shadow"],
            *other_labels,
        ]
        assert [node, operation["uuid"]] == args[:2]
        assert {"conductor.fleet-1"} >= {
            link["options"]["queue"] for link in embedded["chain"] or []
        }
        fleet.await_state([node], "manageable")
