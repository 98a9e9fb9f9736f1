"""
A session of a graphical console: the screen of one node, for as long as this conductor has it.

Each viewer has a connection of its own to the VNC server, logged in here: the password of the
server leaves this process for no other. Without viewers there is no connection, since servers
of BMCs have few. Their output is passed on in numbered pieces, of which the API confirms those that
it has received: further ones wait, and the server with them. A piece that is lost, on either
way, ends the viewer's connection, as nothing after it would be understood.

Programs of other services connect to its TCP port (`workers.consoles.screen_listener`), which the
node's `driver_internal_info` names.
"""

import asyncio
import base64
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from app.observe import log
from drivers.core.consoles import Program, Screen
from drivers.core.errors import HardwareError, Unexpected, Unreachable
from drivers.net import rfb_login
from drivers.net.rfb_login import Connection
from workers.consoles.child import Child, prepare
from workers.consoles.screen_listener import ScreenListener
from workers.consoles.session import (
    CONNECT_TIME,
    CONNECTED,
    CONNECTING,
    LONGEST_WORDS,
    WAITING,
    Gone,
    Session,
    Surroundings,
    last_words,
)

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: State of a console without viewers: it is connected when one comes.
IDLE = "idle"
#: Most bytes of a piece; most pieces of a viewer that are not confirmed yet.
PIECE, WINDOW = 32 << 10, 24
#: Most viewers of a node; most bytes of input that wait for its server.
MOST, LONGEST_QUEUE = 8, 256 << 10
#: Seconds without a sign of a viewer after which it has left; between two signs for viewers.
SILENT, SIGN = 20.0, 5.0
#: Seconds without viewers after which the program that is the server is ended.
LINGER = 30.0
#: Seconds between tries to connect to a program that has just started, and to record the port.
AGAIN, RECORD_AGAIN = 0.2, 2.0
CHANGED = "its settings have changed"


@dataclass(slots=True)
class View:
    """A viewer. number: of its last document of input."""

    holder: str  # id of the viewer's connection to the API
    number: int
    task: asyncio.Task[None] | None = None
    input: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)  # that waits for the server
    waiting: int = 0  # its bytes
    is_connected: bool = False  # to the VNC server
    pieces: int = 0  # number of those that were sent
    received: int = 0  # pieces that the API has confirmed
    reason: str = ""  # of an end by this side
    heard_at: float = field(default_factory=time.monotonic)
    room: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, reason: str) -> None:
        """End the connection; the viewer gets the reason."""
        self.reason = self.reason or reason
        if self.task is not None:
            self.task.cancel()

    def write(self, data: bytes) -> None:
        """Send whole messages to the VNC server, as soon as it takes them."""
        if self.waiting > LONGEST_QUEUE:
            self.end("the VNC server takes no input")
        elif self.is_connected:
            self.waiting += len(data)
            self.input.put_nowait(data)

    async def send(self, connection: Connection) -> None:
        """Send what was written, until this is cancelled. Raises OSError."""
        while True:
            data = await self.input.get()
            await connection.stream.write(data)
            self.waiting -= len(data)


class ScreenSession(Session):
    """The graphical console of a node."""

    kind = "graphical"
    listener: ScreenListener

    def __init__(self, node: str, surroundings: Surroundings) -> None:
        super().__init__(node, surroundings)
        self._views: dict[str, View] = {}
        self._starting = asyncio.Lock()
        self._screen: Screen | None = None  # by the program that runs here
        self._left_at = self._sign_at = time.monotonic()
        self._ends: set[asyncio.Task[None]] = set()
        self._is_recorded = False  # the port, if it has one
        self.listener = ScreenListener(
            node, surroundings.settings.tcp_allowed_networks, self._reach_for_port,
            read_only=surroundings.read_only,
        )  # fmt: skip

    async def run(self) -> None:
        """Serve viewers until the console is not this conductor's, or this is cancelled."""
        try:
            await self._listen()
            await self._record_port()
            while True:
                self._renewed.clear()
                await self._probe()
                await self._renewed.wait()
                await self._end_all(CHANGED)
        except Gone:
            pass
        finally:
            self.listener.close()
            await self._end_all("its conductor has given it up")

    async def _record_port(self) -> None:
        """Record the port at the node, as soon as the database takes it. Raises Gone."""
        while self.listener.port is not None and not self._is_recorded:
            try:
                await self._around.record_port(self.node, self.listener.port)
                break
            except SQLAlchemyError as error:
                seldom.warning("console.port_not_recorded", node=self.node, detail=str(error))
                await asyncio.sleep(RECORD_AGAIN)
        self._is_recorded = True

    async def _probe(self) -> None:
        """Log in once, to find out whether viewers can; a program is not started for that."""
        self._change(CONNECTING, "")
        screen = None
        try:
            screen = await self._around.screen_of(self.node)
            if screen.program is None:
                (await rfb_login.connect(screen)).close()
        except Gone:
            raise
        except Exception as error:  # of the driver, the database, the server: viewers try again
            self._change(WAITING, _reason_of(error, screen))
        else:
            self._change(IDLE, "")

    # viewers

    def accept(self, document: Mapping[str, Any], data: bytes) -> None:
        """
        Handle a document of input (`app.broker.consoles`), unless it is old, or of another session.

        data: its input.
        """
        if not self.writers.is_new(document):
            return
        act, holder, number = document["act"], document["holder"], document["number"]
        view = self._views.get(holder)
        if act == "open":
            if view is None:
                self._open(holder, number)
            return
        if view is None:
            return
        if number != view.number + 1:
            view.end("some of the input was lost")
            return
        view.number, view.heard_at = number, time.monotonic()
        if act == "see":
            view.write(data)
        elif act == "confirm":
            received = document.get("received")
            if isinstance(received, int) and view.received < received <= view.pieces:
                view.received = received
                view.room.set()
        elif act == "close":
            view.end("it was closed")
        else:
            self.writers.act(document, data)

    def _open(self, holder: str, number: int) -> None:
        if len(self._views) >= MOST:
            self._publish({"screen": holder, "end": f"{MOST} viewers watch this screen already"})
            return
        view = self._views[holder] = View(holder, number)
        view.task = asyncio.get_running_loop().create_task(self._serve(view))

    async def _serve(self, view: View) -> None:
        """Serve a viewer until one of both sides ends it."""
        reason, failed, screen = "the VNC server has ended the connection", False, None
        try:
            screen = await self._reached()
            with closing(await self._connect(screen)) as connection:
                view.is_connected = True
                self._change(CONNECTED, "")
                logger.info("console.connected", node=self.node)
                await self._pass_on(view, connection)
        except asyncio.CancelledError:
            reason = view.reason or "it was ended"
        except OSError as error:
            reason = f"the VNC server has broken the connection: {error.strerror or error}"
        except Exception as error:
            reason, failed = _reason_of(error, screen), True
            logger.warning("console.ended", node=self.node, reason=reason)
        finally:
            view.is_connected = False
            self._views.pop(view.holder, None)
            self.writers.release(view.holder)
            self._publish({"screen": view.holder, "end": reason})
            self._left_at = time.monotonic()
            if not self._is_watched:
                self._change(WAITING if failed else IDLE, reason if failed else "")

    @property
    def _is_watched(self) -> bool:
        """Whether a viewer is connected, of the API or at the port."""
        return bool(self.listener.transports) or any(
            view.is_connected for view in self._views.values()
        )

    async def _reach_for_port(self) -> Connection:
        """Connect to the server for a connection at the port. Raises HardwareError."""
        screen = None
        try:
            screen = await self._reached()
            connection = await self._connect(screen)
        except Exception as error:
            reason = _reason_of(error, screen)
            self._change(WAITING, reason)
            raise Unreachable(reason) from None
        self._change(CONNECTED, "")
        return connection

    async def _pass_on(self, view: View, connection: Connection) -> None:
        """Pass on the output of the server, from its description of the screen on."""
        sender = asyncio.create_task(view.send(connection))
        try:
            data = connection.init
            while data:
                while view.pieces - view.received >= WINDOW:
                    view.room.clear()
                    await view.room.wait()
                piece = base64.b64encode(data).decode()
                self._publish({"screen": view.holder, "number": view.pieces, "data": piece})
                view.pieces += 1
                data = await connection.stream.read(PIECE)
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def _end_all(self, reason: str) -> None:
        tasks = [view.task for view in self._views.values() if view.task is not None]
        for view in tuple(self._views.values()):
            view.end(reason)
        self.listener.end_connections()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._end_program()

    # the server

    async def _connect(self, screen: Screen) -> Connection:
        """
        Connect to the server; wait for one that has just been started.

        Raises HardwareError.
        """
        end = time.monotonic() + CONNECT_TIME
        while True:
            try:
                return await rfb_login.connect(screen)
            except (Unreachable, Unexpected) as error:
                if screen.program is None or time.monotonic() >= end:
                    raise
                if self._child is None or self._child.ended.done():
                    raise Unreachable(self._end_reason(screen.program, error)) from None
                await asyncio.sleep(AGAIN)

    async def _reached(self) -> Screen:
        """
        Return the server; start its program, if it has one.

        Raises Gone, HardwareError, OSError, SQLAlchemyError.
        """
        async with self._starting:
            if self._screen is not None and self._child and not self._child.ended.done():
                return self._screen
            screen = await self._around.screen_of(self.node)
            if screen.program is not None:
                await self._end_program()
                self._words.clear()
                async with self._around.starts:
                    await prepare(screen.program)
                    try:
                        self._child = Child(screen.program, self._note_words)
                    except OSError as error:
                        raise Unreachable(f"the program cannot be started: {error}") from None
                self._screen = screen
            return screen

    async def _end_program(self) -> None:
        child, self._child, self._screen = self._child, None, None
        if child is not None:
            await child.end()

    def _note_words(self, data: bytes) -> None:
        self._words += data
        del self._words[:-LONGEST_WORDS]

    def _end_reason(self, program: Program, error: HardwareError) -> str:
        """Say why the program is no server, in its own last words if there are some."""
        name = Path(program.arguments[0]).name
        return last_words(self._words) or f"{name} has ended ({error})"

    def tick(self) -> None:
        """Do what is due: called about once a second."""
        super().tick()
        now = time.monotonic()
        for view in tuple(self._views.values()):
            if now - view.heard_at > SILENT:
                view.end("its viewer has left")
        if now - self._sign_at >= SIGN:
            self._sign_at = now
            for holder in self._views:
                self._publish({"screen": holder})
        if self.listener.transports:
            self._left_at = now
        elif self.phase == CONNECTED and not self._is_watched:
            self._change(IDLE, "")
        if self._child is not None and not self._views and now - self._left_at > LINGER:
            end = asyncio.get_running_loop().create_task(self._end_program())
            self._ends.add(end)
            end.add_done_callback(self._ends.discard)

    @property
    def facts(self) -> dict[str, Any]:
        """The session's state, for the API."""
        return super().facts | {"is_recorded": self._is_recorded}

    def _type(self, data: bytes) -> None:
        view = self._views.get(self.writers.holder)
        if view is not None:
            view.write(data)


def _reason_of(error: Exception, screen: Screen | None) -> str:
    """Return an error in words, without the secrets of the program."""
    words = str(error) or type(error).__name__
    program = screen.program if screen else None
    return program.mask(words) if program else words
