"""Celery's monitors on the broker of a running service: each step is a task of its own."""

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

from tests.support.fleet import Fleet, until
from tests.support.ports import free_port

BIN = Path(sys.executable).parent
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
    """The address of Flower's API."""
    port = free_port()
    environ = {
        **os.environ,
        "CELERY_BROKER_URL": broker(fleet),
        "FLOWER_UNAUTHENTICATED_API": "true",
    }
    with (folder / "flower.log").open("w") as log:
        flower = subprocess.Popen(
            [BIN / "celery", "flower", "--address=127.0.0.1", f"--port={port}"],
            env=environ,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        try:
            yield f"http://127.0.0.1:{port}/api"
        finally:
            flower.terminate()
            flower.wait(10)


@contextmanager
def events_on(fleet):
    """The task events of the service, as `celery events` sees them, while they come."""
    seen = []
    with (
        Celery("monitor", broker=broker(fleet)) as application,
        application.connection() as connection,
    ):
        receiver = application.events.Receiver(connection, handlers={"*": seen.append})

        def capture():
            while not receiver.should_stop:
                with suppress(TimeoutError):
                    receiver.capture(limit=None, timeout=0.5, wakeup=False)

        thread = threading.Thread(target=capture, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            receiver.should_stop = True
            thread.join(10)


def planned(fleet, node):
    """The steps of a node's operations by kind, as the API shows them."""
    return {
        each["kind"]: [f"{step['interface']}.{step['step']}" for step in each["steps"]]
        for each in fleet.operations(node)
    }


def chains(seen):
    """The tasks of each chain that has ended, in order: [(name, event that ended it)]."""
    received = {each["uuid"]: each for each in seen if each["type"] == "task-received"}
    ended = {
        each["uuid"]: each["type"]
        for each in seen
        if each["type"] in ("task-succeeded", "task-failed")
    }
    found = {}
    for task, event in received.items():
        if event["name"].startswith("ingot."):
            continue
        found.setdefault(event["root_id"], []).append((event["name"], ended.get(task)))
    return [tasks for tasks in found.values() if all(end for _, end in tasks)]


def test_monitors_show_each_step_as_a_task_by_its_name(tmp_path):
    with (
        Fleet(tmp_path, conductors=1, INGOT_BROKER_EVENTS="true") as fleet,
        events_on(fleet) as seen,
        flower_on(fleet, tmp_path) as flower,
    ):
        until(lambda: answers(f"{flower}/workers?refresh=1"), "a worker in Flower")
        until(lambda: seen, "an event")
        (node,) = fleet.create_nodes(1)
        for verb, state in VERBS.items():
            fleet.provision([node], verb)
            fleet.await_state([node], state)
        steps = planned(fleet, node)
        for kind, labels in steps.items():
            expected = [(label, "task-succeeded") for label in labels]
            until(lambda expected=expected: expected in chains(seen), f"the chain of {kind}")

        def tasks():
            return answers(f"{flower}/tasks") or {}

        names = {label for labels in steps.values() for label in labels}
        until(lambda: names <= {each["name"] for each in tasks().values()}, "all steps in Flower")
        shown = {key: each for key, each in tasks().items() if each["name"] in names}
        assert {"SUCCESS"} == {each["state"] for each in shown.values()}
        assert "'done'" in {each["result"] for each in shown.values()}
        for each in shown.values():
            assert node in each["args"]
            if each["parent_id"]:
                assert shown[each["parent_id"]]["root_id"] == each["root_id"]
        assert "conductor@fleet-1" in answers(f"{flower}/workers")


def test_a_step_that_fails_is_a_task_that_failed_for_its_reason(tmp_path):
    with (
        Fleet(tmp_path, conductors=1, INGOT_BROKER_EVENTS="true") as fleet,
        events_on(fleet) as seen,
    ):
        until(lambda: seen, "an event")
        (node,) = fleet.create_nodes(1, driver="redfish", driver_info={
            "redfish_address": f"http://127.0.0.1:{free_port()}",
        })  # fmt: skip
        fleet.provision([node], "manage")
        until(lambda: [each for each in seen if each["type"] == "task-failed"], "a failed task")
        (failed,) = (each for each in seen if each["type"] == "task-failed")
        operation = until(lambda: fleet.operations(node)[0]["error"] and fleet.operations(node)[0])
        assert operation["error"]["message"] in failed["exception"]
        assert "raised unexpected" not in fleet.text()


def answers(url):
    """What Flower answers, None while it does not."""
    try:
        answer = requests.get(url, timeout=5)
    except requests.ConnectionError:
        return None
    return answer.json() if answer.ok else None


def test_the_queue_of_a_stopped_conductor_holds_the_chain_of_what_is_to_be_done(tmp_path):
    with Fleet(
        tmp_path, conductors=1, INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT="60", INGOT_CONDUCTOR_RESEND_AFTER="60"
    ) as fleet:  # fmt: skip
        taken, node = fleet.create_nodes(2)  # Redis gives the first to the read that is under way
        conductor = fleet.conductor(1)
        os.kill(conductor, signal.SIGSTOP)
        try:
            for each in (taken, node):
                fleet.provision([each], "manage")
            with fleet.redis() as redis:
                (raw,) = until(lambda: redis.lrange("conductor.fleet-1", 0, -1), "a message")
        finally:
            os.kill(conductor, signal.SIGCONT)
        message = json.loads(raw)
        args, _, embedded = json.loads(base64.b64decode(message["body"]))
        rest = [each["options"]["shadow"] for each in reversed(embedded["chain"] or [])]
        operation = fleet.operations(node)[0]
        assert [f"{step['interface']}.{step['step']}" for step in operation["steps"]] == [
            message["headers"]["shadow"],
            *rest,
        ]
        assert [node, operation["uuid"]] == args[:2]
        assert {"conductor.fleet-1"} >= {
            each["options"]["queue"] for each in embedded["chain"] or []
        }
        fleet.await_state([node], "manageable")
