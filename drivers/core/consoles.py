"""
Serial consoles that a program on the conductor connects to: `ipmitool`, `ssh`.

A driver says which program; the conductor runs it in a terminal for as long as the console is
enabled, starts it again when it ends, and passes its output on (`workers.consoles`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

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


class ProgramConsole(Console):
    """Base class of serial consoles by a program of the conductor."""

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

    def stop_console(self, target: Target) -> None:
        target.report(console_enabled=False)

    def get_console(self, target: Target) -> dict[str, object]:
        """Refuse: the conductor answers, as it knows the port."""
        raise NotSupported(f"{self.name}: its conductor does not run consoles")
