"""
The serial console of a machine behind a real BMC: by TCP, WebSocket, browser and command, and over
the death of its conductor.
"""

import base64
import json
import os
import signal
import subprocess
import uuid

import pytest
from playwright.sync_api import expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.browser import desk, grave_findings
from tests.support.fleet import PATIENCE, Fleet, until
from tests.support.sol_bmc import SECRET, SolBmc, program

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def bmc(tmp_path_factory):
    with SolBmc(tmp_path_factory.mktemp("bmc")) as started:
        yield started


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, bmc):
    """A fleet with a node whose console is enabled, `fleet.node`."""
    with Fleet(tmp_path_factory.mktemp("consoles"), conductors=2) as started:
        started.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        started.node = str(uuid.uuid4())
        body = {"uuid": started.node, "driver": "ipmi", "driver_info": bmc.driver_info}
        body |= {"console_interface": "ipmitool-socat"}
        answer = started.http.post(f"{started.url}/v1/nodes", json=body, timeout=30)
        assert 201 == answer.status_code, answer.text
        enable(started)
        yield started


def enable(fleet):
    url = f"{fleet.url}/v1/nodes/{fleet.node}"
    answer = fleet.http.put(f"{url}/states/console", json={"enabled": True}, timeout=30)
    assert 202 == answer.status_code, answer.text
    until(lambda: is_connected(fleet), "the connection to the BMC")


def is_connected(fleet):
    answer = fleet.http.get(f"{fleet.url}/v1/nodes/{fleet.node}/console", timeout=30)
    return answer.ok and "connected" == answer.json()["state"]


def address(fleet):
    """Return (host, port) of the console for other programs."""
    info = fleet.get(f"nodes/{fleet.node}/states/console")["console_info"]
    assert "socat" == info["type"]
    host, _, port = info["url"].removeprefix("tcp://").rpartition(":")
    return host, int(port)


class Watcher:
    """A client of the WebSocket."""

    def __init__(self, fleet, **ticket):
        url = f"{fleet.url}/v1/nodes/{fleet.node}/console/tickets"
        answer = fleet.http.post(url, json=ticket, timeout=30)
        assert 201 == answer.status_code, answer.text
        self.ticket = answer.json()
        self._opened = opened(self.ticket)
        self.output = b""

    def __enter__(self):
        self.socket = self._opened.__enter__()
        return self

    def __exit__(self, *error):
        self._opened.__exit__(*error)

    def type(self, data):
        self.socket.send(json.dumps({"act": "claim"}))
        self.socket.send(data)

    def until(self, condition):
        """Receive until `condition` accepts a document; return that."""
        while not condition(document := json.loads(self.socket.recv(timeout=PATIENCE))):
            self._note(document)
        self._note(document)
        return document

    def sees(self, data):
        self.until(lambda document: data in self.output + self._data(document))

    def _note(self, document):
        self.output += self._data(document)

    @staticmethod
    def _data(document):
        return base64.b64decode(document.get("data", ""))


def opened(ticket, **options):
    return connect(ticket["url"], subprotocols=ticket["protocols"], proxy=None, **options)


def history(fleet):
    document = fleet.get(f"nodes/{fleet.node}/console/history")
    assert [] == document["missing"]
    output = (entry for entry in document["console_history"] if entry["kind"] == "output")
    return b"".join(base64.b64decode(entry["data"]) for entry in output)


def test_a_program_at_the_port_and_watchers_see_the_same_and_one_types(fleet, bmc):
    host, port = address(fleet)
    command = [program("socat", "socat"), "-", f"TCP:{host}:{port}"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as socat,
        Watcher(fleet, write=True) as writer,
        Watcher(fleet, write=True) as other,
        Watcher(fleet) as reader,
    ):
        try:
            socat.stdin.write(b"by socat\r")
            socat.stdin.flush()
            first_bytes = bmc.typed(9)
            assert b"by socat\r" == first_bytes
            socat.stdin.close()  # it leaves, and so lets others type
            for watcher in (writer, other, reader):
                watcher.until(lambda document: "" == document.get("holder"))
            writer.type(b"root\r")
            assert b"root\r" == bmc.typed(14)[9:]
            other.type(b"not me")
            reader.socket.send(json.dumps({"act": "steal"}))
            reader.type(b"nor me")
            writer.type(b"~.who\r")  # would end ipmitool, with its usual escape character
            assert b"root\r~.who\r" == bmc.typed(20)[9:], "another one has typed, too"
            bmc.prints(b"\x1b[31mLinux 6.1\x1b[0m\r\n")
            for watcher in (writer, other, reader):
                watcher.sees(b"\x1b[31mLinux 6.1\x1b[0m\r\n")
        finally:
            socat.kill()
    until(lambda: b"Linux 6.1" in history(fleet), "its history")
    with Watcher(fleet) as later:
        later.sees(b"Linux 6.1")
    records = fleet.get("audit", target=fleet.node)["audit"]
    assert {"create/node/console/ticket", "update/node/console", "delete/node/console"} <= {
        record["action"] for record in records
    }


def test_a_ticket_opens_one_console_once_and_for_no_page_of_another_site(fleet):
    with Watcher(fleet) as watcher:
        used = watcher.ticket
    for ticket in (used, {**used, "protocols": ["ingot.console", "ingot.ticket.guess"]}):
        with pytest.raises(InvalidStatus) as refused:
            opened(ticket).__enter__()
        assert 403 == refused.value.response.status_code
        assert b"returns another one" in refused.value.response.body
    url = f"{fleet.url}/v1/nodes/{fleet.node}/console/tickets"
    ticket = fleet.http.post(url, json={}, timeout=30).json()
    with pytest.raises(InvalidStatus) as refused:
        opened(ticket, origin="http://evil.example").__enter__()
    assert 403 == refused.value.response.status_code
    plain = fleet.http.get(f"{fleet.url}/v1/nodes/{fleet.node}/console/stream", timeout=30)
    assert 426 == plain.status_code


def test_no_secret_is_in_a_command_line(fleet):
    lines = [line.decode(errors="replace") for line in command_lines(fleet)]
    assert [line for line in lines if "sol activate" in line]
    assert not [line for line in lines if SECRET in line]


def command_lines(fleet):
    for pid in fleet.running():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                yield file.read().replace(b"\0", b" ")
        except OSError:
            continue


def test_the_command_types_and_shows_what_was_kept(fleet, bmc, ingot):
    length = len(bmc.typed(0))
    bmc.prints(b"\x1b]0;title\x07Kernel panic\r\n")
    until(lambda: b"Kernel panic" in history(fleet), "its history")
    ingot("node", "console", "open", fleet.node, "--for", "2", stdin="\rreboot\r\x1d")
    until(lambda: bmc.typed(length + 8).endswith(b"reboot\r"), "the input")
    output = "\n".join(ingot("node", "console", "history", fleet.node).lines)
    assert "Kernel panic" in output
    assert "\x1b" not in output


def test_the_page_shows_the_console_and_types(chromium, fleet, bmc):
    length = len(bmc.typed(0))
    with desk(chromium, fleet.url, at=f"/nodes/{fleet.node}", new=True) as page:
        page.get_by_role("tab", name="Console").click()
        screen = page.locator(".screen")
        expect(page.get_by_text("connected")).to_be_visible()
        bmc.prints(b"\x1b[31mred \x1b[38;2;40;40;40mfirmware\x1b[0m <b>login</b>: ")
        expect(screen).to_contain_text("firmware <b>login</b>:")
        page.get_by_role("button", name="Type").click()
        expect(page.get_by_text("You type.")).to_be_visible()
        page.keyboard.type("operator\n")
        until(lambda: bmc.typed(length + 9).endswith(b"operator\r"), "the input")
        page.get_by_role("button", name="Show what is kept").click()
        expect(page.get_by_text("Kept output")).to_be_visible()
        assert {} == grave_findings(page)


def test_the_console_outlives_its_conductor_and_what_it_has_shown(fleet, bmc):
    bmc.prints(b"the minute before\r\n")
    until(lambda: b"the minute before" in history(fleet), "its history")
    conductor = fleet.get(f"nodes/{fleet.node}")["conductor"]
    with Watcher(fleet, write=True) as watcher:
        watcher.sees(b"the minute before")
        watcher.type(b"\r")
        pids = json.loads(fleet.pidfile.read_text())["conductors"]
        os.kill(pids[conductor], signal.SIGKILL)
        watcher.until(lambda document: "connected" == document.get("state"))
        bmc.prints(b"the minute after\r\n")
        watcher.sees(b"the minute after")
        length = len(bmc.typed(0))
        # the simulator drops the first bytes of a session: it takes them for a repetition
        watcher.type(b"another conductor types this\r")
        until(lambda: bmc.typed(0)[length:].endswith(b"types this\r"), "the input")
    assert conductor != fleet.get(f"nodes/{fleet.node}")["conductor"]
    until(lambda: b"the minute after" in history(fleet), "its history")
    assert b"the minute before" in history(fleet)
    alive = [line for line in command_lines(fleet) if b"sol activate" in line]
    assert 1 == len(alive), "the program of the dead conductor is left"
