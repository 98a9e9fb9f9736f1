"""
Terminals as animated pictures: run a command in one, and draw screens of it as SVG.

`demo_recording` and `night_recording` choose the screens.
"""

import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

COLUMNS, ROWS = 100, 60
LAST = 8.0  # seconds for which the last screen is shown
ADVANCE, LINE = 7.8, 17  # pixels of a character and of a line at a font size of 13
#: Number of a terminal's color -> color of the picture.
COLORS = {1: "#f47067", 2: "#57ab5a", 3: "#c69026", 4: "#539bf5", 5: "#b083f0", 6: "#39c5cf"}


class Screen(NamedTuple):
    start: float  # seconds since the start of the recording
    text: str


def recorded(command: Sequence[str], *, echo: bool = False) -> list[tuple[float, str]]:
    """
    Run a command in a terminal; return its output in pieces, each with its time in seconds.

    echo: write the output here, too, as it comes.

    Raises SystemExit with the output: the command failed.
    """
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environ = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environ)
    os.close(end)
    start, pieces = time.monotonic(), []
    while True:
        try:
            output = os.read(terminal, 65536)
        except OSError:  # Linux: the other end is closed
            break
        pieces.append((time.monotonic() - start, output.decode(errors="replace")))
        if echo:
            sys.stdout.write(pieces[-1][1])
            sys.stdout.flush()
    os.close(terminal)
    if process.wait():
        sys.exit(f"{shlex.join(command)} failed:\n{''.join(text for _, text in pieces)}")
    return pieces


def lines(text: str) -> Iterator[str]:
    """Yield each line of a screen as SVG text."""
    console = Console(width=COLUMNS, color_system="truecolor", legacy_windows=False)
    for number, line in enumerate(text.split("\n")):
        styled = Text.from_ansi(line)
        styled.rstrip()
        if styled:
            spans = "".join(_span(segment) for segment in styled.render(console))
            yield (
                f'<text x="16" y="{28 + number * LINE}" textLength="{len(styled) * ADVANCE:.0f}">'
                f"{spans}</text>"
            )


def _span(segment: Segment) -> str:
    text, style = escape(segment.text), segment.style
    if not style or not (style.color or style.bold) or not text.strip():
        return text.removesuffix("\n")
    marks = ["b"] if style.bold else []
    if style.color:
        marks.append(f"c{style.color.number}" if style.color.number in COLORS else "dim")
    return f'<tspan class="{" ".join(marks)}">{text}</tspan>'


def picture(title: str, frames: Sequence[Screen]) -> str:
    """Return the SVG of some screens; readers who prefer no motion see the last one alone."""
    origin, end = frames[0].start, frames[-1].start + LAST
    height = 40 + LINE * max(screen.text.rstrip().count("\n") + 1 for screen in frames)
    width = 32 + COLUMNS * ADVANCE
    rules, groups = [], []
    borders = [*(screen.start for screen in frames), end]
    for number, screen in enumerate(frames):
        start, stop = (
            100 * (second - origin) / (end - origin) for second in borders[number : number + 2]
        )
        end_state = "visible" if number + 1 == len(frames) else "hidden"
        rules.append(
            f"#f{number}{{animation-name:k{number}}}@keyframes k{number}{{0%{{visibility:"
            f"{'hidden' if start else 'visible'}}}{start:.2f}%{{visibility:visible}}"
            f"{stop:.2f}%,100%{{visibility:{end_state}}}}}"
        )
        groups.append(f'<g id="f{number}">{"".join(lines(screen.text))}</g>')
    colors = "".join(f".c{number}{{fill:{color}}}" for number, color in COLORS.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">'
        f"<title>{escape(title)}</title>"
        "<style>text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#adbac7;"
        f"white-space:pre}}.b{{font-weight:bold}}.dim{{fill:#545d68}}{colors}"
        f"g{{visibility:hidden;animation:{end - origin:.1f}s step-end infinite}}{''.join(rules)}"
        "@media(prefers-reduced-motion:reduce){g{animation:none!important}"
        f"#f{len(frames) - 1}{{visibility:visible}}}}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="#22272e"/>{"".join(groups)}</svg>\n'
    )
