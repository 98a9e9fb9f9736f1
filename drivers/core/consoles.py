"""
Consoles that a conductor connects to, as a driver says: serial and graphical ones.

A serial console is a program, `ipmitool` or `ssh`: the conductor runs it in a terminal for as long
as the console is enabled, starts it again when it ends, and passes its output on. A graphical one
is a VNC server: the conductor connects to it for each caller who watches (`workers.consoles`).
"""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drivers.core.errors import NotSupported
from drivers.core.interface_kinds import Console
from drivers.core.target import Target


@dataclass(frozen=True, slots=True)
class Program:
    """
    Program whose terminal is the console of a machine.

    Secrets are in its environment, which only the same user can read, and not in its arguments.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    #: command that runs before each start, with the same environment; it may fail
    preparation: tuple[str, ...] = ()
    #: output of the program as soon as the console is connected
    greeting: bytes = b""
    secrets: tuple[str, ...] = field(default=(), repr=False)  # masked in its error messages
    port: int | None = None  # TCP port for other programs; None: a free one

    def mask(self, text: str) -> str:
        """Mask the program's secrets in a text."""
        for secret in filter(None, self.secrets):
            text = text.replace(secret, "******")
        return text


class ConnectedConsole(Console):
    """Base class of consoles that a conductor connects to while they are enabled."""

    def stop_console(self, target: Target) -> None:
        target.report(console_enabled=False)

    def get_console(self, target: Target) -> dict[str, Any]:
        """Refuse: the conductor or the API answers, which know port, address and caller."""
        raise NotSupported(f"{self.name}: its conductor does not run consoles")


class ProgramConsole(ConnectedConsole):
    """Base class of serial consoles by a program of the conductor."""

    keeps_history = True

    def program(self, target: Target) -> Program:
        """
        Return the program; may read from the BMC.

        Raises InvalidDriverInfo: names the field.
        Raises NotSupported: the program is not installed, or the BMC has no such console.
        """
        raise NotImplementedError

    def start_console(self, target: Target) -> None:
        self.program(target)
        target.report(console_enabled=True)


#: Address at which a program that is a VNC server listens.
LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a port of loopback that is free now; a program that loses it is started again."""
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Screen:
    """VNC server (RFB, RFC 6143) that shows the screen of a machine, and takes keys and pointer."""

    host: str  # name or IP address
    port: int
    password: str | None = field(default=None, repr=False)  # of VNC authentication
    #: trusted certificates as in `drivers.net.tls.trust`; None: a connection without TLS
    verify: bool | str | None = None
    #: check of the IP address that a connection leads to: raises InvalidDriverInfo
    check: Callable[[str], None] | None = None
    path: str | None = None  # of a WebSocket with RFB in it; None: there is only RFB
    login: tuple[str, str] | None = field(default=None, repr=False)  # user, password of a WebSocket
    #: program that is the server, and runs while there are viewers; None: the server runs always
    program: Program | None = None

    @property
    def endpoint(self) -> str:
        """Name and port, for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}{self.path or ''}"


class GraphicalConsole(ConnectedConsole):
    """Base class of graphical consoles by a VNC server."""

    def screen(self, target: Target) -> Screen:
        """
        Return the VNC server; may read from the BMC.

        Raises InvalidDriverInfo: names the field.
        Raises NotSupported: no documented way leads to the screen of this machine.
        """
        raise NotImplementedError

    def start_console(self, target: Target) -> None:
        self.screen(target)
        target.report(console_enabled=True)
