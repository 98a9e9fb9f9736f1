"""
Record the demo as an animated picture: `python -m docs.demo_recording` writes docs/demo.svg.

The demo runs once, in a terminal of its own. A screen is the text between two erasures of the live
table; a few screens of the run become frames, and the last screen stays for some seconds.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from docs.terminal_recording import Screen, picture, recorded

PICTURE = Path(__file__).with_name("demo.svg")
TITLE = "make demo: simulated machines pass through their life cycle, while a conductor is killed"
FRAMES = 12  # beside the last screen
ERASURE = re.compile(r"\r(?:\x1b\[2K\x1b\[1A)+\x1b\[2K")
CURSOR = re.compile(r"\x1b\[\?25[lh]")


def screens(pieces: Sequence[tuple[float, str]]) -> list[Screen]:
    """Return the screens of a recording, in order."""
    output = "".join(text for _, text in pieces)

    def time_of(position: int) -> float:
        for second, text in pieces:
            position -= len(text)
            if position < 0:
                return second
        return pieces[-1][0]

    head, _, live = CURSOR.sub("", output).partition("\r\n\r\n")
    shift = len(output) - len(live)
    starts = [0, *(match.end() for match in ERASURE.finditer(live))]
    ends = [*(match.start() for match in ERASURE.finditer(live)), len(live)]
    return [
        Screen(time_of(shift + start), f"{head}\n{live[start:end]}".replace("\r", ""))
        for start, end in zip(starts, ends, strict=True)
    ]


def selected(recording: Sequence[Screen]) -> list[Screen]:
    """Return screens at even distances of time, and the last one."""
    start, end = recording[0].start, recording[-1].start
    times = [start + (end - start) * number / FRAMES for number in range(FRAMES)]
    frames = [min(recording, key=lambda screen: abs(screen.start - second)) for second in times]
    return [*dict.fromkeys(frames), recording[-1]]


def main() -> None:
    pieces = recorded([sys.executable, "-m", "workers.demo", "--once"])
    PICTURE.write_text(picture(TITLE, selected(screens(pieces))))
    sys.stdout.write(f"written: {PICTURE}, {PICTURE.stat().st_size / 1024:.0f} KB\n")


if __name__ == "__main__":
    main()
