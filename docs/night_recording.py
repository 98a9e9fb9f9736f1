"""
Record a night as an animated picture: `python -m docs.night_recording` writes docs/night.svg.

The options are those of `tests.night`. A frame shows the last lines of the terminal at the end of a
command, all frames for the same time: a wave of machines takes minutes, and its reader has seconds.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from docs.terminal_recording import COLUMNS, Screen, picture, recorded

PICTURE = Path(__file__).with_name("night.svg")
TITLE = (
    "make night: a fleet from a spreadsheet to proofs of sanitation, by the commands of an operator"
)
ROWS = 32  # lines of a frame
SHOWN = 1.5  # seconds for which a frame is shown
#: Last line of a command: its duration.
END = re.compile(r"# \d+\.\d s")
#: Beginning of a line -> attributes of the terminal.
MARKS = {"$ ": "\x1b[1m", "## ": "\x1b[1;32m", "# ": "\x1b[34m", "! ": "\x1b[33m"}


def screens(output: str) -> list[Screen]:
    """Return a frame for the end of each command, and one of the end of the output."""
    lines = output.replace("\r", "").rstrip().split("\n")
    ends = [number for number, line in enumerate(lines, 1) if END.fullmatch(line)]
    return [
        Screen(frame * SHOWN, "\n".join(map(_marked, lines[max(0, end - ROWS) : end])))
        for frame, end in enumerate([*ends, len(lines)])
    ]


def _marked(line: str) -> str:
    mark = next((mark for start, mark in MARKS.items() if line.startswith(start)), "")
    return f"{mark}{line[:COLUMNS]}\x1b[0m" if mark else line[:COLUMNS]


def main(words: Sequence[str]) -> None:
    pieces = recorded([sys.executable, "-m", "tests.night", *words], echo=True)
    output = "".join(text for _, text in pieces)
    PICTURE.write_text(picture(TITLE, screens(output)))
    sys.stdout.write(f"written: {PICTURE}, {PICTURE.stat().st_size / 1024:.0f} KB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
