"""
Dialects: how switches are read and configured, by their device type, a name of netmiko's.

A dialect turns orders into stages. A stage is a set of commands, and the modes that the ports have
after it; the caller reads them back before it goes on. So a conductor may die between any two
commands: the next one reads what there is, and gives the order again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from drivers.switch.port_modes import PortMode

Modes = Mapping[str, PortMode]  # by the name of the switch port


class Session(Protocol):
    """A session with a switch."""

    def show(self, command: str) -> str:
        """Send a command that changes nothing; return its output."""

    def configure(self, commands: Sequence[str]) -> None:
        """
        Send commands in the mode for configuration, one after the other.

        Raises Refused: the switch reports an error of one; the following ones are not sent.
        """

    def save(self) -> None:
        """Save the configuration for the next start of the switch."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Commands that are sent together, and the modes of the ports after them."""

    commands: Sequence[str]
    expected: Modes


class Dialect:
    """Language of a kind of switches."""

    #: regular expression of the lines by which a switch refuses a command
    refusal: ClassVar[str]
    #: whether changes are lost at the next start of the switch unless they are saved
    needs_save: ClassVar[bool] = True

    def read(self, session: Session, ports: Sequence[str]) -> dict[str, PortMode]:
        """
        Return the modes of ports.

        Raises NotFound: the switch has no such port.
        Raises Unexpected: its output is not understood.
        """
        raise NotImplementedError

    def stages(self, session: Session, modes: Modes, current: Modes) -> Iterator[Stage]:
        """
        Yield the stages that give ports their modes.

        No stage leads frames of one network into another one, also if it is the last that is sent.
        current: modes that were read.
        """
        raise NotImplementedError
