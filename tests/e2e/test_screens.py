"""
The screen of a machine: on the page, by the address that Ironic's clients get, and over the death
of its conductor.
"""

import json
import os
import signal
import socket
import uuid
from collections import Counter
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from drivers.simulator.screen import BARS, HEIGHT, KEYS_AT, NAME, SET, SQUARE, UNSET, WIDTH
from tests.support.browser import desk, grave_findings
from tests.support.fleet import PATIENCE, Fleet, until

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A fleet with a node whose graphical console is enabled, `fleet.node`."""
    with Fleet(tmp_path_factory.mktemp("screens"), conductors=2) as started:
        started.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        started.node = str(uuid.uuid4())
        body = {"uuid": started.node, "driver": "fake-hardware"}
        body |= {"console_interface": "fake-graphical"}
        answer = started.http.post(f"{started.url}/v1/nodes", json=body, timeout=30)
        assert 201 == answer.status_code, answer.text
        url = f"{started.url}/v1/nodes/{started.node}"
        answer = started.http.put(f"{url}/states/console", json={"enabled": True}, timeout=30)
        assert 202 == answer.status_code, answer.text
        until(lambda: started.get(f"nodes/{started.node}")["console_enabled"], "the console")
        yield started


def link(fleet):
    """Return the address of the console, as Ironic's clients get it."""
    info = fleet.get(f"nodes/{fleet.node}/states/console")["console_info"]
    assert {"type", "url"} == info.keys()
    assert "vnc" == info["type"]
    return info["url"]


def pixel(page, column, row):
    """Return the colour of a square of the screen; None: it is not drawn."""
    script = """([x, y]) => {
        const canvas = document.querySelector(".picture canvas");
        if (!canvas || canvas.width < 600) return null;
        return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
    }"""
    middle = [column * SQUARE + SQUARE // 2, row * SQUARE + SQUARE // 2]
    colour = page.evaluate(script, middle)
    return colour and tuple(colour)


def bits(page, column):
    """Return the key that a column of the screen shows."""
    colours = [pixel(page, column, KEYS_AT // SQUARE + bit) for bit in range(8)]
    assert {*colours} <= {SET, UNSET}, colours
    return sum((colour == SET) << bit for bit, colour in enumerate(colours))


def sees_bars(page):
    step = WIDTH // len(BARS) // SQUARE
    bars = range(len(BARS))
    until(lambda: [*BARS] == [pixel(page, number * step, 0) for number in bars], "the picture")


def test_the_page_shows_the_screen_and_types(chromium, fleet):
    with desk(chromium, fleet.url, at=f"/nodes/{fleet.node}", new=True) as page:
        page.get_by_role("tab", name="Console").click()
        sees_bars(page)
        page.locator(".picture canvas").click()
        page.keyboard.type("x")  # only watches yet
        page.get_by_role("button", name="Type").click()
        expect(page.get_by_text("You type.")).to_be_visible()
        page.keyboard.type("aZ")
        until(lambda: pixel(page, 1, KEYS_AT // SQUARE) in (SET, UNSET), "the keys")
        assert [ord("a"), ord("Z")] == [bits(page, column) for column in (0, 1)]
        assert {} == grave_findings(page)


class Plain:
    """A viewer that knows RFB alone, such as the one of tempest; `path` of an address is its URL."""

    def __init__(self, fleet, address):
        (path,) = parse_qs(urlsplit(address).query)["path"]
        self._opening = connect(
            f"{fleet.url.replace('http', 'ws')}/{path}", subprotocols=["binary"], proxy=None
        )

    def __enter__(self):
        self.socket = self._opening.__enter__()
        return self

    def __exit__(self, *error):
        self._opening.__exit__(*error)

    def get(self):
        return self.socket.recv(timeout=PATIENCE)

    def negotiate(self):
        """Do the handshake; return the description of the screen."""
        assert b"RFB 003.008\n" == self.get()
        self.socket.send(b"RFB 003.008\n")
        assert b"\1\1" == self.get(), "one security type, that without authentication"
        self.socket.send(b"\1")
        assert bytes(4) == self.get()
        self.socket.send(b"\1")
        return self.get()

    def press(self, key):
        self.socket.send(b"\4\1\0\0" + key.to_bytes(4))

    def picture(self, *, incremental=False):
        """Return the pixels of the next picture, 4 bytes each."""
        area = bytes(4) + WIDTH.to_bytes(2) + HEIGHT.to_bytes(2)
        self.socket.send(bytes((3, incremental)) + area)
        data = b""
        while len(data) < 16 + 4 * WIDTH * HEIGHT:
            data += self.get()
        assert (b"\0\0\0\1", area) == (data[:4], data[4:12])
        return data[16:]


class Direct(Plain):
    """A viewer at the TCP port of the console, as nova-novncproxy; `place`: its host and port."""

    def __init__(self, place):
        self._place = place

    def __enter__(self):
        self._connection = socket.create_connection(self._place, PATIENCE)
        self.socket = self
        return self

    def __exit__(self, *_):
        self._connection.close()

    def recv(self, timeout):
        self._connection.settimeout(timeout)
        return self._connection.recv(1 << 16)

    def send(self, data):
        self._connection.sendall(data)


def place(fleet):
    """Return host and port of the console, as Nova reads them; None: it has none."""
    internal = fleet.get(f"nodes/{fleet.node}")["driver_internal_info"]
    return (internal["vnc_host"], internal["vnc_port"]) if "vnc_port" in internal else None


def shown_keys(picture):
    """Return the keys that a picture shows."""
    keys = []
    for column in range(WIDTH // SQUARE):
        bits = []
        for bit in range(8):
            place = 4 * ((KEYS_AT + bit * SQUARE) * WIDTH + column * SQUARE)
            bits.append(tuple(reversed(picture[place : place + 3])))
        if not {*bits} <= {SET, UNSET}:
            break
        keys.append(sum((colour == SET) << bit for bit, colour in enumerate(bits)))
    return keys


def await_no_writer(fleet):
    """Wait until the viewers of earlier tests have left: one of them may still be the writer."""

    def is_over():
        actions = Counter(
            record["action"] for record in fleet.get("audit", target=fleet.node)["audit"]
        )
        tickets = actions["create/node/console/ticket"] + actions["read/node/state/console"]
        return tickets == actions["delete/node/console"]

    until(is_over, "the end of earlier viewers")


def test_the_address_of_ironics_clients_opens_a_page_and_a_screen_once(fleet):
    await_no_writer(fleet)
    address = link(fleet)
    page = fleet.http.get(address, timeout=30)
    assert 200 == page.status_code
    for text in ("<html", "</html>", "noVNC", "<script"):
        assert text in page.text
    with Plain(fleet, address) as viewer:
        description = viewer.negotiate()
        assert WIDTH.to_bytes(2) + HEIGHT.to_bytes(2) == description[:4]
        assert (len(NAME).to_bytes(4), NAME) == (description[20:24], description[24:])
        keys = shown_keys(viewer.picture())
        viewer.press(ord("k"))
        assert [*keys, ord("k")] == shown_keys(viewer.picture(incremental=True))
    with pytest.raises(InvalidStatus) as refused:
        Plain(fleet, address).__enter__()
    assert 403 == refused.value.response.status_code
    actions = {record["action"] for record in fleet.get("audit", target=fleet.node)["audit"]}
    assert {"read/node/state/console", "update/node/console", "delete/node/console"} <= actions


def test_one_viewer_types_and_the_others_see_it(fleet):
    await_no_writer(fleet)
    with Plain(fleet, link(fleet)) as writer, Plain(fleet, link(fleet)) as other:
        writer.negotiate()
        other.negotiate()
        keys = shown_keys(other.picture())
        writer.press(ord("w"))
        assert [*keys, ord("w")] == shown_keys(other.picture(incremental=True))
        other.press(ord("o"))
        writer.press(ord("r"))
        assert [*keys, ord("w"), ord("r")] == shown_keys(other.picture(incremental=True))
        until(lambda: "connected" == fleet.get(f"nodes/{fleet.node}/console")["state"])


def test_the_page_of_an_address_shows_the_screen_and_forgets_its_ticket(chromium, fleet):
    with desk(chromium, fleet.url, new=True) as page:
        page.goto(link(fleet))
        sees_bars(page)
        assert f"{fleet.url}/ui/vnc.html" == page.url
        assert {} == grave_findings(page)
        page.goto(
            f"{fleet.url}/ui/vnc.html?path=evil%2Fv1%2Fnodes%2Fx%2Fconsole%2Fstream%3Ftoken%3Dx"
        )
        expect(page.get_by_text("This address shows the screen once.")).to_be_visible()


def test_the_port_that_nova_reads_shows_the_screen(fleet):
    fleet.get(f"nodes/{fleet.node}/states/console")  # from then on it is known
    with Direct(place(fleet)) as viewer:
        viewer.negotiate()
        keys = shown_keys(viewer.picture())
        viewer.press(ord("n"))
        assert [*keys, ord("n")] == shown_keys(viewer.picture(incremental=True))
    assert "127.0.0.1" == place(fleet)[0], "the default"


def test_the_death_of_its_conductor_ends_a_viewer_and_the_page_comes_back(chromium, fleet):
    with desk(chromium, fleet.url, at=f"/nodes/{fleet.node}", new=True) as page:
        page.get_by_role("tab", name="Console").click()
        sees_bars(page)
        with Plain(fleet, link(fleet)) as viewer:
            viewer.negotiate()
            conductor = fleet.get(f"nodes/{fleet.node}")["conductor"]
            pids = json.loads(fleet.pidfile.read_text())["conductors"]
            os.kill(pids[conductor], signal.SIGKILL)
            with pytest.raises(ConnectionClosed) as closed:
                viewer.picture(incremental=True)
            assert 4001 == closed.value.rcvd.code
            assert "conductor" in closed.value.rcvd.reason
        until(lambda: pixel(page, 0, 0) is None or "not connected" in page.content(), "its end")
        sees_bars(page)
        expect(page.get_by_text("connected", exact=True)).to_be_visible()
    fleet.get(f"nodes/{fleet.node}/states/console")
    with Direct(place(fleet)) as viewer:
        viewer.negotiate()


def test_a_console_that_is_disabled_has_no_port(fleet):
    address = place(fleet)
    url = f"{fleet.url}/v1/nodes/{fleet.node}/states/console"
    answer = fleet.http.put(url, json={"enabled": False}, timeout=30)
    assert 202 == answer.status_code, answer.text
    until(lambda: place(fleet) is None, "its end")

    def is_closed():
        try:
            socket.create_connection(address, PATIENCE).close()
        except ConnectionRefusedError:
            return True
        return False

    until(is_closed, "the end of its port")
