"""The command `ingot` as people and scripts run it: as a process, on a terminal or into a pipe."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import NamedTuple

INGOT = Path(sys.executable).parent / "ingot"
TIMEOUT = 60
#: What would change the answers.
OTHERS = ("NO_COLOR", "OS_TOKEN", "OS_ENDPOINT", "COLUMNS", "OS_CACERT")


class Answer(NamedTuple):
    """What a process ended with. lines: of its standard output, or of the terminal."""

    status: int
    lines: list[str]
    errors: list[str]

    def read(self):
        return json.loads("\n".join(self.lines))


def environment(url, **more):
    kept = {name: value for name, value in os.environ.items() if name not in OTHERS}
    return {**kept, "INGOT_URL": url, "TERM": "xterm-256color", **more}


def piped(url, *words, stdin="", **environ):
    ended = subprocess.run(
        [INGOT, *words], env=environment(url, **environ), input=stdin, capture_output=True,
        text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    return Answer(ended.returncode, ended.stdout.splitlines(), ended.stderr.splitlines())


def on_terminal(url, *words, width=80, answer="", **environ):
    """The same on a terminal so wide; answer: what is typed there."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(
        [INGOT, *words], env=environment(url, **environ), stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    os.write(master, answer.encode())
    written = b""
    with open(master, "rb", buffering=0) as terminal:
        try:
            while piece := terminal.read(4096):
                written += piece
        except OSError:  # how Linux tells that the other end is closed
            pass
    return Answer(process.wait(TIMEOUT), written.decode().replace("\r\n", "\n").splitlines(), [])
