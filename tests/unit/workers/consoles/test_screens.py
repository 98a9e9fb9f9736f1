"""Viewers of a screen: their connections to its VNC server, what is lost, and who types."""

import asyncio
import base64
from contextlib import asynccontextmanager

import pytest
from sqlalchemy.exc import OperationalError

from app.config.console_settings import Console
from drivers.core.consoles import LOOPBACK, Program, Screen
from drivers.core.errors import InvalidDriverInfo, LoginRefused
from drivers.net import rfb_login
from drivers.net.rfb_login import Connection
from workers.consoles import screens
from workers.consoles.screens import PIECE, WINDOW, ScreenSession
from workers.consoles.session import Surroundings

INIT = b"description of the screen"


class Server:
    """A VNC server in this process: each connection has queues of both directions."""

    def __init__(self):
        self.connections, self.screen, self.refusal = [], Screen("bmc", 5900, "s3cret"), None

    async def connect(self, screen):
        if self.refusal:
            raise self.refusal
        stream = Stream()
        self.connections.append(stream)
        return Connection(stream, INIT)

    async def screen_of(self, node):
        return self.screen


class Stream:
    def __init__(self):
        self.output, self.input, self.is_closed = asyncio.Queue(), [], False

    async def read(self, size):
        assert PIECE == size
        return await self.output.get()

    async def write(self, data):
        self.input.append(data)

    def close(self):
        self.is_closed = True


class Desk:
    """A session of a screen, and the documents that it has published."""

    def __init__(self, server, *, read_only=False, **settings):
        self.server, self.published, self.numbers = server, [], {}
        self.recorded, self.failures = [], []  # ports; errors that the next attempts get
        settings = Console(**{"socat_address": "", **settings})
        self.session = ScreenSession("node", Surroundings(
            settings, read_only, None,
            lambda node, document: self.published.append(document), None,
            server.screen_of, self.record_port, asyncio.Semaphore(1),
        ))  # fmt: skip

    async def record_port(self, node, port):
        if self.failures:
            raise self.failures.pop(0)
        self.recorded.append((node, port))

    def send(self, holder, act, data=b"", **fields):
        number = self.numbers[holder] = fields.pop("number", self.numbers.get(holder, -1) + 1)
        document = {"session": self.session.id, "holder": holder, "number": number, "act": act}
        self.session.accept({**document, "name": holder, **fields}, data)

    async def until(self, condition):
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - of another task
                await asyncio.sleep(0.001)

    async def open(self, holder):
        """Open a viewer's connection; return its stream at the server."""
        number = len(self.server.connections)
        self.send(holder, "open")
        await self.until(lambda: self.data(holder))
        return self.server.connections[number]

    def data(self, holder):
        documents = (document for document in self.published if document.get("screen") == holder)
        return [base64.b64decode(document["data"]) for document in documents if "data" in document]

    def end(self, holder):
        ends = [
            document["end"]
            for document in self.published
            if document.get("screen") == holder and "end" in document
        ]
        return ends[-1] if ends else None


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setattr(rfb_login, "connect", server.connect)
    return server


@asynccontextmanager
async def running(server, **settings):
    desk = Desk(server, **settings)
    task = asyncio.create_task(desk.session.run())
    await desk.until(lambda: desk.session.phase != "connecting")
    server.connections.clear()  # that of the first look
    try:
        yield desk
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_screen_is_connected_while_somebody_watches(server):
    async def work():
        async with running(server) as desk:
            assert "idle" == desk.session.facts["state"]
            stream = await desk.open("ann")
            assert [INIT] == desk.data("ann")
            assert "connected" == desk.session.facts["state"]
            stream.output.put_nowait(b"pixels")
            await desk.until(lambda: [INIT, b"pixels"] == desk.data("ann"))
            desk.send("ann", "see", b"more")
            await desk.until(lambda: [b"more"] == stream.input)
            desk.send("ann", "close")
            await desk.until(lambda: stream.is_closed and desk.end("ann"))
            assert ("idle", "") == (desk.session.phase, desk.session.reason)
        assert "s3cret" not in str(desk.published)

    asyncio.run(work())


def test_the_server_waits_for_pieces_that_are_not_confirmed(server):
    async def work():
        async with running(server) as desk:
            stream = await desk.open("ann")
            for _ in range(2 * WINDOW):
                stream.output.put_nowait(b"x")
            await desk.until(lambda: WINDOW == len(desk.data("ann")))
            for _ in range(100):
                await asyncio.sleep(0)
            assert WINDOW == len(desk.data("ann"))
            desk.send("ann", "confirm", received=WINDOW + 5)  # more than it can have
            desk.send("ann", "confirm", received="4")
            desk.send("ann", "confirm", received=4)
            await desk.until(lambda: WINDOW + 4 == len(desk.data("ann")))

    asyncio.run(work())


def test_input_of_which_a_part_is_lost_ends_the_viewer_alone(server):
    async def work():
        async with running(server) as desk:
            await desk.open("ann")
            await desk.open("bob")
            desk.send("ann", "see", b"x", number=5)
            await desk.until(lambda: desk.end("ann"))
            assert "input was lost" in desk.end("ann")
            assert desk.end("bob") is None

    asyncio.run(work())


def test_one_viewer_types_and_its_keys_go_by_its_own_connection(server):
    async def work():
        async with running(server) as desk:
            ann, bob = await desk.open("ann"), await desk.open("bob")
            desk.send("bob", "type", b"too early")
            desk.send("ann", "claim")
            desk.send("bob", "claim")
            desk.send("ann", "type", b"a")
            desk.send("bob", "type", b"b")
            await desk.until(lambda: ann.input)
            desk.send("bob", "steal")
            desk.send("ann", "type", b"late")
            desk.send("bob", "type", b"c")
            await desk.until(lambda: bob.input)
            assert ([b"a"], [b"c"]) == (ann.input, bob.input)
            desk.send("bob", "close")
            await desk.until(lambda: desk.end("bob"))
            assert "" == desk.session.facts["writer"]

    asyncio.run(work())


def test_a_login_that_fails_is_told_to_the_viewer_and_to_operators(server):
    async def work():
        server.refusal = LoginRefused("VNC server bmc:5900: the password is not accepted")
        async with running(server) as desk:
            assert ("waiting", str(server.refusal)) == (desk.session.phase, desk.session.reason)
            server.refusal = InvalidDriverInfo("driver_info/vnc_port: no")
            desk.send("ann", "open")
            await desk.until(lambda: desk.end("ann"))
            assert "driver_info/vnc_port: no" == desk.end("ann") == desk.session.reason
            server.refusal = None
            await desk.open("bob")
            assert "connected" == desk.session.phase

    asyncio.run(work())


def test_changed_settings_and_a_server_that_leaves_end_the_viewer(server):
    async def work():
        async with running(server) as desk:
            await desk.open("ann")
            desk.session.renew()
            await desk.until(lambda: desk.end("ann"))
            assert "settings have changed" in desk.end("ann")
            stream = await desk.open("bob")
            stream.output.put_nowait(b"")
            await desk.until(lambda: desk.end("bob"))
            assert "server has ended the connection" in desk.end("bob")

    asyncio.run(work())


def test_viewers_beyond_the_limit_and_silent_ones_are_ended(server, monkeypatch):
    async def work():
        monkeypatch.setattr(screens, "MOST", 1)
        async with running(server) as desk:
            await desk.open("ann")
            desk.send("bob", "open")
            assert "watch this screen already" in desk.end("bob")
            monkeypatch.setattr(screens, "SILENT", -1.0)
            desk.session.tick()
            await desk.until(lambda: desk.end("ann"))
            assert "has left" in desk.end("ann")

    asyncio.run(work())


def test_a_program_that_is_no_server_is_told_in_its_own_words(monkeypatch):
    async def work():
        server = Server()
        command = ("sh", "-c", "echo no image for pa55w0rd; exit 3")
        program = Program(command, {"PATH": "/usr/bin:/bin"}, secrets=("pa55w0rd",))
        server.screen = Screen(LOOPBACK, 1, program=program)
        async with running(server) as desk:
            assert "idle" == desk.session.phase, "a program starts only for viewers"
            desk.send("ann", "open")
            await desk.until(lambda: desk.end("ann"))
            assert "no image for ******" == desk.end("ann")

    asyncio.run(work())


# the TCP port

PORT = {"socat_address": "127.0.0.1", "tcp_allowed_networks": ("127.0.0.1/32",)}
KEY = b"\4\1\0\0\0\0\0a"
UPDATE = b"\3\0" + bytes(8)


class Viewer:
    """A viewer at the port, as nova-novncproxy."""

    def __init__(self, streams):
        self.reader, self.writer = streams

    @classmethod
    async def at(cls, desk, host="127.0.0.1"):
        port = desk.session.facts["port"]
        return cls(await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0)))

    async def get(self, size):
        async with asyncio.timeout(60):
            return await self.reader.readexactly(size)

    async def negotiate(self):
        assert b"RFB 003.008\n" == await self.get(12)
        self.writer.write(b"RFB 003.008\n")
        assert b"\1\1" == await self.get(2), "one security type, that without authentication"
        self.writer.write(b"\1")
        assert bytes(4) == await self.get(4)
        self.writer.write(b"\1" + UPDATE)
        assert INIT == await self.get(len(INIT))

    async def is_ended(self):
        async with asyncio.timeout(60):
            try:
                return b"" == await self.reader.read(1)
            except ConnectionError:
                return True


@pytest.mark.parametrize("read_only", [False, True])
def test_a_viewer_at_the_port_sees_the_screen_and_types(server, read_only):
    async def work():
        async with running(server, read_only=read_only, **PORT) as desk:
            assert [("node", desk.session.facts["port"])] == desk.recorded
            viewer = await Viewer.at(desk)
            await viewer.negotiate()
            (stream,) = server.connections
            stream.output.put_nowait(b"picture")
            assert b"picture" == await viewer.get(7)
            viewer.writer.write(KEY + UPDATE)
            messages = [UPDATE, UPDATE] if read_only else [UPDATE, KEY, UPDATE]
            await desk.until(lambda: messages == stream.input)
            assert "connected" == desk.session.phase
            viewer.writer.close()
            await desk.until(lambda: stream.is_closed)
            desk.session.tick()
            assert "idle" == desk.session.phase

    asyncio.run(work())


def test_other_hosts_and_what_is_no_rfb_are_refused_at_the_port(server):
    async def work():
        async with running(server, **PORT) as desk:
            stranger = await Viewer.at(desk, "127.0.0.2")
            assert await stranger.is_ended()
            viewer = await Viewer.at(desk)
            await viewer.get(12)
            viewer.writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await viewer.is_ended()
            assert [] == server.connections

    asyncio.run(work())


def test_the_port_ends_with_the_session_and_its_viewers_with_changed_settings(server):
    async def work():
        async with running(server, **PORT) as desk:
            viewer = await Viewer.at(desk)
            await viewer.negotiate()
            desk.session.renew()
            assert await viewer.is_ended()
            await desk.until(lambda: server.connections[0].is_closed)
            last_viewer = await Viewer.at(desk)
            await last_viewer.negotiate()
        assert await last_viewer.is_ended()
        with pytest.raises(ConnectionRefusedError):
            await Viewer.at(desk)

    asyncio.run(work())


def test_a_server_that_refuses_ends_the_viewer_at_the_port_and_is_told_to_operators(server):
    async def work():
        async with running(server, **PORT) as desk:
            server.refusal = LoginRefused("VNC server bmc:5900: the password is not accepted")
            viewer = await Viewer.at(desk)
            with pytest.raises(asyncio.IncompleteReadError):
                await viewer.negotiate()
            assert ("waiting", str(server.refusal)) == (desk.session.phase, desk.session.reason)

    asyncio.run(work())


def test_the_port_is_recorded_when_the_database_takes_it(server, monkeypatch):
    async def work():
        monkeypatch.setattr(screens, "RECORD_AGAIN", 0)
        desk = Desk(server, **PORT)
        desk.failures = [OperationalError("UPDATE", {}, Exception("away"))] * 2
        task = asyncio.create_task(desk.session.run())
        assert not desk.session.facts["is_recorded"]
        await desk.until(lambda: desk.session.facts["is_recorded"])
        assert [("node", desk.session.facts["port"])] == desk.recorded
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())


def test_without_an_address_there_is_no_port(server):
    async def work():
        async with running(server) as desk:
            facts = desk.session.facts
            assert (None, True, []) == (facts["port"], facts["is_recorded"], desk.recorded)

    asyncio.run(work())


def test_the_program_of_a_screen_runs_while_a_viewer_at_the_port_watches(monkeypatch):
    async def work():
        monkeypatch.setattr(screens, "LINGER", 0.0)
        server = Server()
        monkeypatch.setattr(rfb_login, "connect", server.connect)
        server.screen = Screen(
            LOOPBACK, 1, program=Program(("sleep", "60"), {"PATH": "/usr/bin:/bin"})
        )
        async with running(server, **PORT) as desk:
            viewer = await Viewer.at(desk)
            await viewer.negotiate()
            await asyncio.sleep(0.01)
            desk.session.tick()
            await asyncio.sleep(0.01)
            assert desk.session._child is not None
            viewer.writer.close()
            await desk.until(lambda: not desk.session.listener.transports)
            await asyncio.sleep(0.01)
            desk.session.tick()
            await desk.until(lambda: desk.session._child is None)

    asyncio.run(work())
