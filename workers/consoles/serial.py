"""
A session of a serial console: that of one node, for as long as this conductor has it.

It keeps the program running, and passes its output on: to the history, the programs at its TCP
port, and the watchers of the API. When the program ends, as it does when the BMC does not answer,
it is started again after a pause that doubles.
"""

import asyncio
import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.observe import log
from drivers.core.consoles import Program
from workers.consoles.child import Child, prepare
from workers.consoles.history import LINE_TIME, History
from workers.consoles.listener import SerialListener
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

#: Seconds before the program starts again: the first pause, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: Seconds of a connection after which the pause is the first one again.
STEADY = 30.0
#: Most bytes of a document of output.
CHUNK = 2048
#: Bytes that are gathered before the program is made to wait.
GATHERED = 32 << 10
#: Seconds for which output is gathered: while it flows, and else.
FLOWING, FIRST = 0.05, 0.01


class SerialSession(Session):
    """The serial console of a node."""

    kind = "serial"
    listener: SerialListener

    def __init__(self, node: str, surroundings: Surroundings) -> None:
        super().__init__(node, surroundings)
        self._program: Program | None = None  # the last one
        self._connected = asyncio.Event()  # the present program is
        self._greeting = b""
        self._gathered = bytearray()
        self._flush_at: asyncio.TimerHandle | None = None
        self._flushed = 0.0
        limit = surroundings.settings.history_size << 20
        self._history = History(surroundings.folder, node, self.id, limit)
        allowed = surroundings.settings.tcp_allowed_networks
        self.listener = SerialListener(
            node, allowed, self.writers.type_if_free, self.writers.release
        )

    # the program

    async def run(self) -> None:
        """Keep the console connected until it is not this conductor's, or this is cancelled."""
        try:
            pause = FIRST_PAUSE
            while True:
                connected_for = await self._once()
                pause = FIRST_PAUSE if connected_for >= STEADY else pause
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        except Gone:
            pass
        finally:
            self.listener.close()
            self._flush()
            self._keep(self._history.close)

    async def _once(self) -> float:
        """Run the program once; return for how many seconds it was connected."""
        program = None
        try:
            program = self._program = await self._around.program_of(self.node)
            async with self._around.starts:
                await self._listen(program.port)
                await prepare(program)
                await self._start(program)
        except Gone:
            raise
        except Exception as error:  # of the driver, the database, the host: tried again
            await self._end()
            reason = str(error) or type(error).__name__
            self._change(WAITING, program.mask(reason) if program else reason)
            return 0.0
        connected = time.monotonic()
        try:
            await self._first_of(self._renewed)
            self._change(WAITING, self._end_reason(program))
        finally:
            await self._end()
        return time.monotonic() - connected

    async def _start(self, program: Program) -> None:
        """
        Start the program, and wait until it is connected.

        Raises ConnectionError: it has ended, or is too slow; with the program's own words.
        """
        self._words.clear()
        self._connected.clear()
        self._renewed.clear()
        self._greeting = program.greeting
        self._change(CONNECTING, self.reason)
        self._child = Child(program, self._on_output)
        if not program.greeting:
            self._change(CONNECTED, "")
        else:
            await self._first_of(self._connected, self._renewed, seconds=CONNECT_TIME)
            if self.phase != CONNECTED:
                raise ConnectionError(self._end_reason(program))

    async def _first_of(self, *events: asyncio.Event, seconds: float | None = None) -> None:
        """Wait until one of the events occurs, the program ends, or the seconds are over."""
        assert self._child is not None
        tasks = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            waited: list[asyncio.Future[Any]] = [self._child.ended, *tasks]
            either = asyncio.FIRST_COMPLETED
            await asyncio.wait(waited, timeout=seconds, return_when=either)
        finally:
            for task in tasks:
                task.cancel()

    async def _end(self) -> None:
        if self._child is not None:
            await self._child.end()
            self._child = None

    async def free(self) -> None:
        """End the BMC's session after `run` has ended, so that other programs may connect."""
        if self._program is not None:
            await prepare(self._program)

    # output

    def _on_output(self, data: bytes) -> None:
        if self.phase != CONNECTED:
            data = self._after_greeting(data)
        if not data:
            return
        self._gathered += data
        if len(self._gathered) >= GATHERED and self._child is not None:
            self._child.pause()
        if self._flush_at is None:
            flows = time.monotonic() - self._flushed < 2 * FLOWING
            loop = asyncio.get_running_loop()
            self._flush_at = loop.call_later(FLOWING if flows else FIRST, self._flush)

    def _after_greeting(self, data: bytes) -> bytes:
        """Note the words of the program until it is connected; return the output after them."""
        self._words += data
        begin = self._words.find(self._greeting)
        end = self._words.find(b"\n", begin) if begin >= 0 else -1
        if end < 0:
            del self._words[:-LONGEST_WORDS]
            return b""
        output = bytes(self._words[end + 1 :])
        self._words.clear()
        self._change(CONNECTED, "")
        self._connected.set()
        return output

    def _flush(self) -> None:
        if self._flush_at is not None:
            self._flush_at.cancel()
            self._flush_at = None
        data = bytes(self._gathered)
        self._gathered.clear()
        self._flushed = time.monotonic()
        if self._child is not None:
            self._child.go_on()
        if data:
            self._keep(lambda: self._history.append(data))
            self.listener.send(data)
            for begin in range(0, len(data), CHUNK):
                part = base64.b64encode(data[begin : begin + CHUNK]).decode()
                self._publish({"data": part})

    def tick(self) -> None:
        """Do what is due: called about once a second."""
        super().tick()
        self._keep(lambda: self._history.flush(LINE_TIME))

    def _keep(self, write: Callable[[], None]) -> None:
        """Write to the history; a full disk ends no console."""
        try:
            write()
        except OSError as error:
            seldom.warning("console.not_kept", node=self.node, detail=str(error))

    # state

    def _enter(self, phase: str, reason: str) -> None:
        self._flush()
        if phase == CONNECTED:
            logger.info("console.connected", node=self.node)
        elif phase == WAITING:
            logger.warning("console.ended", node=self.node, reason=reason)
        if phase != CONNECTING:
            text = f"{phase}: {reason}" if reason else phase
            self._keep(lambda: self._history.note(text))

    def _end_reason(self, program: Program) -> str:
        """Say why the program has ended, in its own last words if it was never connected."""
        if words := last_words(self._words):
            return words
        name = Path(program.arguments[0]).name
        assert self._child is not None
        if not self._child.ended.done():
            return "its settings have changed" if self.phase == CONNECTED else f"{name}: no answer"
        return f"{name} has ended with status {self._child.ended.result()}"

    # input

    def _type(self, data: bytes) -> None:
        """Type for the writer; input is dropped while the BMC is not connected."""
        if self.phase == CONNECTED and self._child is not None:
            self._child.write(data.replace(b"\0", b""))  # NUL: the escape of `drivers.ipmi.console`
