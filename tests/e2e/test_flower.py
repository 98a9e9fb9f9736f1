"""Flower, on the same broker: what an operator sees of conductors and steps."""

import os
import subprocess
import sys
from pathlib import Path

import requests

from tests.fleet import Fleet, until
from tests.ports import free_port

BIN = Path(sys.executable).parent


def test_flower_shows_conductors_and_steps_by_name(tmp_path):
    port = free_port()
    with Fleet(tmp_path, conductors=1, INGOT_BROKER_EVENTS="true") as fleet:
        environ = {
            **os.environ,
            "CELERY_BROKER_URL": f"redis+socket://{fleet.data / 'redis.sock'}",
            "FLOWER_UNAUTHENTICATED_API": "true",
        }
        flower = subprocess.Popen(
            [BIN / "celery", "flower", "--address=127.0.0.1", f"--port={port}"],
            env=environ,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=(tmp_path / "flower.log").open("w"),
        )
        nodes = iter(fleet.create_nodes(40))
        try:

            def get(path):
                try:
                    answer = requests.get(f"http://127.0.0.1:{port}/api/{path}", timeout=5)
                except requests.ConnectionError:
                    return {}
                return answer.json() if answer.ok else {}

            def tasks():
                node = [next(nodes)]
                fleet.provision(node, "manage")
                fleet.await_state(node, "manageable")
                return get("tasks").values()

            def shown(name):
                """A task of this name that has ended well."""
                ended = [task for task in tasks() if task.get("state") == "SUCCESS"]
                return next((task for task in ended if task.get("name") == name), None)

            until(lambda: get("workers?refresh=1") or get("workers"), "a worker in Flower")
            step = until(lambda: shown("power.read"), "the step power.read in Flower", between=1)
            assert "Done" in step["result"]
            assert "manage" == get(f"task/info/{step['root_id']}")["name"]

            assert "conductor@fleet-1" in get("workers")
        finally:
            flower.terminate()
            flower.wait(10)
