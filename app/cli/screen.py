"""Consoles: as wide as the terminal, in colour or not."""

import os
import sys

from rich.console import Console
from rich.text import Text

#: Wider than any table: what is not read on a terminal is not wrapped.
ENDLESS = 100_000


def console(colour: bool | None = None, *, stderr: bool = False) -> Console:
    """
    Standard output, or standard error.

    colour: None for "on a terminal", unless NO_COLOR is set or the terminal is a dumb one.
    """
    stream = sys.stderr if stderr else sys.stdout
    terminal = stream.isatty()
    if colour is None:
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Console(
        file=stream, width=None if terminal else ENDLESS, force_terminal=terminal,
        color_system="standard" if colour else None, no_color=not colour,
        highlight=False, markup=False, emoji=False,
    )  # fmt: skip


def text(said: str, style: str = "") -> Text:
    """Text without control characters: an error of a BMC must not control the terminal."""
    harmless = (each if each.isprintable() or each == "\n" else " " for each in said)
    return Text("".join(harmless), style)
