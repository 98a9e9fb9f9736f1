"""
The consoles of a conductor: which of them run, and how they follow changes of the node, its BMC,
the program and the conductor. The programs are shells; `tests/e2e/test_consoles.py` has a BMC.
"""

import base64
import os
import socket
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from app.db import clock
from app.engine import management, operations
from app.engine.records.driver_reports import CONSOLE_CONDUCTOR
from app.errors import Unavailable
from app.identity.caller import Caller
from app.inventory import nodes
from app.models import Node
from drivers.builtin import FakeHardware
from drivers.core.consoles import Program, ProgramConsole
from drivers.core.errors import HardwareError
from drivers.core.registry import load
from drivers.generic.noop import NoConsole
from tests.integration.harness import Harness
from tests.support.fleet import until
from tests.support.inside import Inside
from tests.support.ports import free_port
from tests.support.processes import alive
from workers.consoles import history, hub, serial
from workers.consoles.hub import Hub

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)

#: Prints its process id and a text; then it echoes lines, and ends at the line `end`.
SHELL = 'echo "[connected]"; echo "pid $$"; echo "$SAYS"; while read line; do [ "$line" = end ] && exit 3; echo "heard $line"; done'


class ShellConsole(ProgramConsole):
    name = "shell"

    def program(self, target):
        if target.driver_info.get("broken"):
            raise HardwareError("the BMC is on fire")
        script = target.driver_info.get("script", SHELL)
        environment = {**os.environ, "SAYS": target.driver_info.get("says", "hello")}
        setup = ("touch", target.driver_info["touch"]) if "touch" in target.driver_info else ()
        greeting, port = b"[connected]", target.driver_info.get("port")
        return Program(
            ("sh", "-c", script), environment, setup, greeting, ("s3cret",), port=port
        )  # fmt: skip


class Shell(FakeHardware):
    name = "shell"
    interfaces = {**FakeHardware.interfaces, "console": (ShellConsole, NoConsole)}


class Channel:
    """Keeps output; passes on no input, which tests give to the hub."""

    def __init__(self):
        self.documents = []

    def publish(self, documents):
        self.documents += documents

    def input(self):
        while True:
            time.sleep(0.05)
            yield None

    def shown(self, node):
        parts = (
            document.get("data", "") for name, document in tuple(self.documents) if name == node
        )
        return b"".join(map(base64.b64decode, parts)).decode()


class Desk:
    """A conductor with consoles."""

    def __init__(self, database, tmp_path, **settings):
        self.inside = Inside(
            database, INGOT_DATA_DIR=str(tmp_path), **settings
        )  # fmt: skip
        self.inside.runtime.drivers = load([Shell])
        self.harness = Harness.__new__(Harness)
        self.harness.inside = self.inside
        self.claimant = self.harness.conductor = self.inside.conductor("c-1")
        self.folder = tmp_path / "consoles"
        self.hubs = []
        self.hub = self.start()

    def start(self, incarnation=None):
        started = Hub(self.inside.runtime, incarnation or self.claimant.incarnation, Channel())
        started.start()
        self.hubs.append(started)
        return started

    def node(self, **driver_info):
        with self.inside.runtime.transaction() as session:
            node = Node(
                uuid=str(uuid.uuid4()), driver="shell", provision_state="active",
                driver_info=driver_info,
            )  # fmt: skip
            session.add(node)
            session.flush()
            return node.id

    def switch(self, node, enabled):
        with self.inside.runtime.transaction() as session:
            row = operations.lock(session, node)
            management.request_console(session, row, enabled, Caller())
        self.harness.run()

    def open(self, **driver_info):
        """Create a node with an enabled console; return its id and its UUID."""
        node = self.node(**driver_info)
        self.switch(node, True)
        return node, self.inside.read(node).uuid

    def change(self, node, **columns):
        self.inside.change(Node, node, updated_at=clock.now(), **columns)

    def state(self, uuid):
        try:
            return self.hub.facts(uuid)["state"]
        except Unavailable:
            return None

    def sees(self, uuid, text, other=None):
        until(lambda: text in (other or self.hub).channel.shown(uuid), f"output {text!r}")

    def pid(self, uuid):
        self.sees(uuid, "pid ")
        return int(self.hub.channel.shown(uuid).rpartition("pid ")[2].split()[0])

    def type(self, uuid, line):
        facts = self.hub.facts(uuid)
        for number, act in enumerate(("steal", "type")):
            document = {
                "session": facts["session"], "holder": line, "number": number, "act": act,
                "data": base64.b64encode(f"{line}\n".encode()).decode(),
            }  # fmt: skip
            self.hub._loop.call_soon_threadsafe(self.hub._accept, uuid, document)

    def close(self):
        for started in self.hubs:
            started.stop()
        self.inside.close()


@pytest.fixture
def desk(database, tmp_path, monkeypatch):
    monkeypatch.setattr(serial, "FIRST_PAUSE", 0.1)
    monkeypatch.setattr(hub, "START_TIME", 0.0)
    opened = Desk(database, tmp_path)
    yield opened
    opened.close()


def test_an_enabled_console_is_connected_typed_at_and_ended(desk, tmp_path):
    node, uuid = desk.open(says="Linux", touch=str(tmp_path / "freed"))
    desk.sees(uuid, "Linux")
    assert "[connected]" not in desk.hub.channel.shown(uuid), "words of the program, not output"
    desk.type(uuid, "ls")
    desk.sees(uuid, "heard ls")
    pid = desk.pid(uuid)
    (tmp_path / "freed").unlink()
    desk.switch(node, False)
    until(lambda: desk.state(uuid) is None, "the end")
    until(lambda: not alive(pid), "the end of the program")
    until((tmp_path / "freed").exists, "that the BMC is free for others")
    records, _ = history.read(desk.folder, uuid, since=None, until=None, size=1 << 20)
    assert b"heard ls" in b"".join(record.data for record in records)


def test_a_program_that_ends_or_is_killed_is_started_again(desk):
    _, uuid = desk.open()
    first_pid = desk.pid(uuid)
    desk.type(uuid, "end")
    until(lambda: desk.pid(uuid) != first_pid, "another program")
    second_pid = desk.pid(uuid)
    os.kill(second_pid, 9)
    until(lambda: desk.pid(uuid) != second_pid, "another program")
    reasons = [
        document["reason"] for _, document in desk.hub.channel.documents if document.get("reason")
    ]
    assert {"sh has ended with status 3", "sh has ended with status -9"} <= set(reasons)


def test_a_dead_bmc_costs_its_own_console_only_and_is_tried_again(desk):
    _, dead = desk.open(script="echo 'Error: no route, password s3cret'; exit 1")
    broken, burning = desk.open()
    desk.sees(burning, "hello")
    desk.change(broken, driver_info={"broken": True})
    _, uuid = desk.open()
    desk.sees(uuid, "hello")
    until(lambda: "waiting" == desk.state(dead), "its state")
    assert "Error: no route, password ******" == desk.hub.facts(dead)["reason"]
    until(lambda: "the BMC is on fire" == desk.hub.facts(burning)["reason"], "the reason")
    desk.change(broken, driver_info={"says": "healed"})
    desk.sees(burning, "healed")


@pytest.mark.parametrize(
    ("columns", "goes_on"),
    [
        ({"driver_info": {"says": "another BMC"}}, True),
        ({"extra": {"rack": 1}}, None),
        ({"console_interface": "no-console"}, False),
        ({"driver_internal_info": {CONSOLE_CONDUCTOR: "another incarnation"}}, False),
    ],
    ids=["bmc", "nothing", "interface", "owner"],
)
def test_a_console_follows_the_settings_of_its_node(desk, columns, goes_on):
    node, uuid = desk.open()
    pid = desk.pid(uuid)
    desk.change(node, **columns)
    if goes_on:
        desk.sees(uuid, "another BMC")
    elif goes_on is None:
        assert "connected" == desk.state(uuid)
        assert alive(pid)
        return
    else:
        until(lambda: desk.state(uuid) is None, "the end")
    until(lambda: not alive(pid), "the end of the first program")


def test_the_console_of_a_deleted_node_ends(desk):
    node, uuid = desk.open()
    pid = desk.pid(uuid)
    desk.change(node, provision_state="available")
    with desk.inside.runtime.transaction() as session:
        nodes.remove(session, operations.lock(session, node))
    until(lambda: not alive(pid), "its end")
    assert desk.state(uuid) is None


def test_a_session_that_has_lost_its_node_does_not_fight_for_the_bmc(
    database, tmp_path, monkeypatch
):
    """The new owner ends the session of the old one at the BMC, before that compares the rows."""
    monkeypatch.setattr(serial, "FIRST_PAUSE", 0.1)
    monkeypatch.setattr(hub, "PERIOD", 3600)
    with closing(Desk(database, tmp_path)) as desk:
        node, uuid = desk.open()
        desk.hub.facts(uuid)
        pid = desk.pid(uuid)
        running = desk.hub._sessions[uuid]
        desk.change(node, driver_internal_info={CONSOLE_CONDUCTOR: "next"})
        os.kill(pid, 9)
        until(
            lambda: running.task.done() or desk.hub.channel.shown(uuid).count("pid ") > 1,
            "the end of the session",
        )
        assert 1 == desk.hub.channel.shown(uuid).count("pid ")
        following = desk.start("next")
        following.facts(uuid)
        desk.sees(uuid, "pid ", following)


def connection(desk, uuid):
    desk.sees(uuid, "hello")
    host, _, port = desk.hub.address(uuid)["url"].removeprefix("tcp://").rpartition(":")
    return closing(socket.create_connection((host, int(port)), timeout=60))


def test_a_program_at_the_port_reads_and_types(desk):
    _, uuid = desk.open()
    desk.sees(uuid, "hello")
    with connection(desk, uuid) as plug:
        plug.sendall(b"by tcp\n")
        output = b""
        while b"heard by tcp" not in output:
            output += plug.recv(4096)


def test_ports_are_of_the_range_and_a_console_without_one_still_works(database, tmp_path):
    port = free_port()
    settings = {"INGOT_CONSOLE_PORT_RANGE": f"{port}:{port}"}
    desk = Desk(database, tmp_path, **settings)
    with closing(desk):
        _, uuid = desk.open()
        until(lambda: port == desk.hub.facts(uuid)["port"], "its port")
        _, other = desk.open(says="portless")
        desk.sees(other, "portless")
        with pytest.raises(Unavailable, match=f"the ports {port} to {port} are in use"):
            desk.hub.address(other)
        _, fixed_uuid = desk.open(port=port)
        until(lambda: desk.hub.facts(fixed_uuid)["no_port"], "the refusal")
        assert f"port {port} is in use at 127.0.0.1" == desk.hub.facts(fixed_uuid)["no_port"]


def test_a_port_refuses_hosts_of_other_networks(database, tmp_path):
    settings = {"INGOT_CONSOLE_TCP_ALLOWED_NETWORKS": "192.0.2.0/24"}
    desk = Desk(database, tmp_path, **settings)
    with closing(desk):
        _, uuid = desk.open()
        desk.sees(uuid, "hello")
        with connection(desk, uuid) as plug:
            try:
                plug.sendall(b"x\n")
                assert b"" == plug.recv(100)
            except ConnectionResetError:
                pass
        assert "heard x" not in desk.hub.channel.shown(uuid)


def test_a_machine_that_prints_without_end_is_slowed_down_and_starves_no_other(desk):
    _, flood = desk.open(script="echo '[connected]'; yes 0123456789")
    _, uuid = desk.open()
    desk.sees(uuid, "hello")
    desk.type(uuid, "ls")
    desk.sees(uuid, "heard ls")
    limit = desk.inside.settings.console.history_size << 20
    assert sum(path.stat().st_size for path in (desk.folder / flood).iterdir()) < 1.2 * limit


def test_a_full_disk_ends_no_console(desk, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(history.History, "_write", full)
    _, uuid = desk.open()
    desk.sees(uuid, "hello")
    assert "connected" == desk.state(uuid)


def test_the_end_of_the_conductor_ends_the_programs(desk):
    _, uuid = desk.open()
    pid = desk.pid(uuid)
    desk.hub.stop()
    until(lambda: not alive(pid) or b"Z" in Path(f"/proc/{pid}/stat").read_bytes(), "its end")
