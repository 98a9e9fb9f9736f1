"""Consoles for standard output and standard error."""

import os
import sys

from rich.console import Console
from rich.text import Text

from app.text.sentences import harmless

#: Width without a terminal: output to files and pipes is not wrapped.
ENDLESS = 100_000


def console(colour: bool | None = None, *, stderr: bool = False) -> Console:
    """
    Create a console for standard output, or for standard error.

    colour: if unset, on a terminal only, unless NO_COLOR is set or TERM is `dumb`.
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


def text(message: str, style: str = "") -> Text:
    """Format a text, which must not control the terminal."""
    return Text(harmless(message), style)
