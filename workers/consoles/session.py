"""The common part of the sessions of consoles, serial and graphical."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from app.config.console_settings import Console
from app.config.option_types import ports_of
from app.observe import log
from drivers.core.consoles import Program, Screen
from workers.consoles.child import Child
from workers.consoles.listener import Listener, NoFreePort
from workers.consoles.writers import Writers

seldom = log.RateLimited(log.get(__name__))

CONNECTING, CONNECTED, WAITING = "connecting", "connected", "waiting"
#: Seconds for the program to connect.
CONNECT_TIME = 60.0
#: Most bytes of the words of a program that is not connected yet.
LONGEST_WORDS = 4096

#: Called with the node and a document of output (`app.broker.consoles`).
Publish = Callable[[str, Mapping[str, Any]], None]


class Gone(Exception):
    """The console is not this conductor's any more."""


@dataclass(slots=True)
class Surroundings:
    """Objects that all sessions of a conductor use."""

    settings: Console
    read_only: bool  # no keys and no pointer for graphical consoles
    folder: Path  # of the histories
    publish: Publish
    #: reads the program of a node; raises Gone, HardwareError, SQLAlchemyError
    program_of: Callable[[str], Awaitable[Program]]
    screen_of: Callable[[str], Awaitable[Screen]]  # reads the VNC server of a node; raises the same
    #: records the TCP port of a graphical console at the node; raises Gone, SQLAlchemyError
    record_port: Callable[[str, int], Awaitable[None]]
    starts: asyncio.Semaphore  # of programs that start at once


class Session:
    """The console of a node. `run` returns when it is not this conductor's any more."""

    kind: ClassVar[str]
    listener: Listener

    def __init__(self, node: str, surroundings: Surroundings) -> None:
        self.node, self._around = node, surroundings
        self.id = secrets.token_hex(8)
        self.phase, self.reason = CONNECTING, ""
        self.no_port = ""  # cause of a missing TCP port
        self._child: Child | None = None
        self._renewed = asyncio.Event()  # the settings have changed
        self._words = bytearray()  # of a program that is not connected yet
        self.writers = Writers(self.id, self._type, self._tell_writer)

    async def run(self) -> None:
        """Keep the console until it is not this conductor's, or this is cancelled."""
        raise NotImplementedError

    async def free(self) -> None:
        """End the BMC's session after `run` has ended, so that other programs may connect."""

    def renew(self) -> None:
        """Connect again, as the settings have changed."""
        self._renewed.set()

    def kill(self) -> None:
        """Kill the program at once, at the end of the conductor."""
        if self._child is not None:
            self._child.kill()

    def accept(self, document: Mapping[str, Any], data: bytes) -> None:
        """Handle a document of input (`app.broker.consoles`); data: its input."""
        self.writers.accept(document, data)

    def tick(self) -> None:
        """Do what is due: called about once a second."""
        self.writers.expire()

    @property
    def facts(self) -> dict[str, Any]:
        """The session's state, for the API."""
        return {
            "kind": self.kind,
            "session": self.id,
            "state": self.phase,
            "reason": self.reason,
            "writer": self.writers.name,
            "holder": self.writers.holder,
            "port": self.listener.port,
            "no_port": self.no_port,
        }

    async def _listen(self, port: int | None = None) -> None:
        """
        Open the TCP port, if it is to have one; without a free one there is none for now.

        port: None: any of `[console]port_range`.
        """
        address = self._around.settings.socat_address
        if not address or self.listener.port is not None:
            return
        try:
            await self.listener.listen(address, ports_of(self._around.settings.port_range), port)
            self.no_port = ""
        except NoFreePort as error:
            self.no_port = str(error)
            seldom.warning("console.no_port", node=self.node, detail=self.no_port)

    def _type(self, data: bytes) -> None:
        raise NotImplementedError

    def _tell_writer(self, holder: str, name: str) -> None:
        self._publish({"writer": name, "holder": holder})

    def _change(self, phase: str, reason: str) -> None:
        """Enter a phase. The same one is published again only while the session connects."""
        if (phase, reason) != (self.phase, self.reason) or phase == CONNECTING:
            self._enter(phase, reason)
            self.phase, self.reason = phase, reason
            self._publish({"state": phase, "reason": reason})

    def _enter(self, phase: str, reason: str) -> None:
        """Do what a new phase requires before it is published."""

    def _publish(self, document: Mapping[str, Any]) -> None:
        self._around.publish(self.node, {"session": self.id, **document})


def last_words(output: bytes | bytearray) -> str:
    """Return the last line of a program's output that is not empty, or an empty text."""
    words = output.decode(errors="replace").splitlines()
    lines = list(filter(None, map(_printable, words)))
    return lines[-1][:255] if lines else ""


def _printable(text: str) -> str:
    return "".join(mark for mark in text if mark.isprintable()).strip()
