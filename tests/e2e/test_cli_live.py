"""`ingot top` and `ingot node watch`, while processes of the service are killed."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import uuid
from contextlib import contextmanager, suppress

import pytest
import requests

from tests.e2e.command_line import INGOT, environment, piped
from tests.support.fleet import PATIENCE, Fleet, until
from tests.support.ports import free_port

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
SLOW = {"INGOT_FAKE_DEPLOY_DELAY": "3"}


@pytest.fixture
def fleet(tmp_path):
    with Fleet(tmp_path, conductors=2, restart=True, **SLOW) as fleet:
        yield fleet


class Screen:
    """A command on a terminal; `text()` has all that it has written, without control sequences."""

    def __init__(self, url, *words, width=120, height=40):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.process = subprocess.Popen(
            [INGOT, *words], env=environment(url), stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )  # fmt: skip
        os.close(slave)
        self._output = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with suppress(OSError):
            while piece := os.read(self._master, 65536):
                self._output += piece

    def text(self):
        return ESCAPE.sub("", self._output.decode(errors="replace"))

    def mark(self):
        """Length of the text so far, for `since`."""
        return len(self.text())

    def press(self, key):
        os.write(self._master, key)

    def end(self):
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        os.close(self._master)


@contextmanager
def screen(url, *words, **size):
    display = Screen(url, *words, **size)
    try:
        yield display
    finally:
        display.end()


def shows(display, words, start=0):
    until(
        lambda: words in display.text()[start:],
        f"{words!r} on the screen: {display.text()[-2000:]}",
    )


def to(fleet, nodes, *verbs):
    states = {"manage": "manageable", "provide": "available", "active": "active"}
    for verb in verbs:
        fleet.provision(nodes, verb)
        fleet.await_state(nodes, states[verb])


def test_top_shows_the_fleet_and_survives_the_death_of_the_api(fleet):
    nodes = fleet.create_nodes(3)
    to(fleet, nodes, "manage", "provide")
    with screen(fleet.url, "top", "--interval", "0.2") as display:
        shows(display, "available 3")
        shows(display, "fleet-2")
        kill_api(fleet)
        fleet.provision(nodes, "active")
        shows(display, "deploy.")
        shows(display, "active 3")
        assert display.process.poll() is None
        display.press(b"\x03")
        assert 0 == display.process.wait(PATIENCE)
        assert "Traceback" not in display.text()


def test_top_says_that_the_service_does_not_answer(fleet):
    with screen(fleet.url, "top", "--interval", "0.2") as display:
        shows(display, "0 nodes")
        os.kill(fleet.process.pid, signal.SIGSTOP)  # it restarts nothing
        try:
            for pid in fleet.pids()["api"][:1]:
                os.kill(pid, signal.SIGKILL)
            shows(display, "no answer from")
        finally:
            os.kill(fleet.process.pid, signal.SIGCONT)
        mark = display.mark()
        shows(display, "0 nodes", mark)


def test_one_picture_for_scripts(fleet):
    nodes = fleet.create_nodes(2)
    to(fleet, nodes[:1], "manage")
    lines = piped(fleet.url, "top", "--once").lines
    assert "2 nodes  enroll 1  manageable 1" in lines
    assert any(line.startswith("fleet-1") and "alive" in line for line in lines)
    picture = piped(fleet.url, "top", "-o", "json").read()
    assert 2 == picture["nodes"]["nodes"]
    assert {"nodes", "operations", "queues", "service"} == set(picture)


def test_top_without_a_service_fails():
    answer = piped(f"http://127.0.0.1:{free_port()}", "top", "--once")
    assert 1 == answer.status
    assert "no answer from" in answer.errors[-1]


def kill_api(fleet):
    """Kill the API, and wait until another one answers."""
    (api, *_) = fleet.pids()["api"]
    os.kill(api, signal.SIGKILL)

    def answers():
        with suppress(requests.RequestException):
            return fleet.pids()["api"][0] != api and fleet.http.get(fleet.url, timeout=5).ok

    until(answers, "another API")


def watching(fleet, *words):
    return subprocess.Popen(
        [INGOT, "node", "watch", *words], env=environment(fleet.url), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def change(fleet, node):
    """Change a field of a node, for an event that tells whether a watch has begun."""
    patch = [{"op": "add", "path": "/extra/x", "value": uuid.uuid4().hex}]
    return fleet.http.patch(f"{fleet.url}/v1/nodes/{node}", json=patch, timeout=PATIENCE).ok


def test_watch_follows_a_deployment_over_kills_to_its_end(fleet):
    (node,) = fleet.create_nodes(1)
    to(fleet, [node], "manage", "provide")
    process = watching(fleet, node, "--until", "active", "-o", "json")
    events = []
    reader = threading.Thread(target=lambda: events.extend(map(json.loads, process.stdout)))
    reader.start()
    try:
        until(lambda: change(fleet, node) and events, "an event")
        fleet.provision([node], "active")
        until(lambda: "operation.state" in {event["type"] for event in events}, "the operation")
        by_operation = watching(fleet, node)
        kill_api(fleet)
        for name, pid in fleet.pids()["conductors"].items():
            if name == fleet.operation(node, "active")["steps"][0]["conductor"]:
                os.kill(pid, signal.SIGKILL)
        assert 0 == process.wait(PATIENCE), process.stderr.read()
        output, errors = by_operation.communicate(timeout=PATIENCE)
        assert 0 == by_operation.returncode, errors
        assert f"{node}: active" == output.splitlines()[-1]
    finally:
        process.kill()
        reader.join(10)
    numbers = [event["sequence"] for event in events]
    assert sorted(set(numbers)) == numbers
    assert {node} == {event["node_uuid"] for event in events}
    states = {kind: [] for kind in ("operation.state", "node.provision_state")}
    for event in events:
        states.get(event["type"], []).append(event["after"])
    assert "succeeded" in states["operation.state"]
    assert "active" == states["node.provision_state"][-1]


def test_watch_fails_with_the_operation(fleet):
    (node,) = fleet.create_nodes(
        1, driver="redfish", driver_info={"redfish_address": f"http://127.0.0.1:{free_port()}"}
    )
    process = watching(fleet, node, "--until", "manageable")

    until(
        lambda: change(fleet, node) and select.select([process.stdout], [], [], 0.2)[0], "an event"
    )
    fleet.provision([node], "manage")
    output, errors = process.communicate(timeout=PATIENCE)
    assert 1 == process.returncode
    assert "did not answer" in errors.splitlines()[-1]
    assert "operation.state  manage" in output
    assert "-> failed" in output
    late = piped(fleet.url, "node", "watch", node)  # the operation has ended before
    assert (1, errors.splitlines()[-1]) == (late.status, late.errors[-1])


def test_watch_ends_in_the_awaited_state_or_says_that_it_has_not_come(fleet):
    (node,) = fleet.create_nodes(1)
    process = watching(fleet, node, "--until", "manageable")
    fleet.provision([node], "manage")
    output, errors = process.communicate(timeout=PATIENCE)
    assert 0 == process.returncode, errors
    assert f"{node}: manageable" == output.splitlines()[-1]
    late = piped(fleet.url, "node", "watch", node, "--until", "active", "--timeout", "0.2")
    assert (3, f"ingot: {node} is not active yet; it goes on") == (late.status, late.errors[-1])
    idle = piped(fleet.url, "node", "watch", node)
    assert (0, [f"{node}: manageable"]) == (idle.status, idle.lines)


def test_watch_refuses_an_unknown_state_and_an_unknown_node(fleet):
    wrong = piped(fleet.url, "node", "watch", "n", "--until", "acitve")
    assert 2 == wrong.status
    assert "--until: 'acitve' is no provision state; there are" in wrong.errors[-1]
    missing = piped(fleet.url, "node", "watch", "nothing")
    assert 1 == missing.status
    assert "nothing" in missing.errors[-1]
