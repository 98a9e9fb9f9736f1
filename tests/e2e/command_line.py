"""The command `ingot` as a process, on a terminal or into a pipe."""

import fcntl
import json
import os
import pty
import struct
import sys
import termios
from pathlib import Path
from typing import NamedTuple

from tests.support import programs
from tests.support.fleet import PATIENCE

INGOT = Path(sys.executable).parent / "ingot"
#: Variables that change its output.
OTHERS = ("NO_COLOR", "OS_TOKEN", "OS_ENDPOINT", "COLUMNS", "OS_CACERT")


class Answer(NamedTuple):
    """Result of a process."""

    status: int
    lines: list[str]  # of standard output, or of the terminal
    errors: list[str]  # lines of standard error, unless on a terminal

    def read(self):
        return json.loads("\n".join(self.lines))


def environment(url, **variables):
    inherited_variables = {name: value for name, value in os.environ.items() if name not in OTHERS}
    return {**inherited_variables, "INGOT_URL": url, "TERM": "xterm-256color", **variables}


def piped(url, *words, stdin="", **environ):
    environ = environment(url, **environ)
    ended = programs.run("workers.ingot:main", argv=words, environ=environ, stdin=stdin)
    return Answer(ended.status, ended.out.splitlines(), ended.err.splitlines())


def on_terminal(url, *words, width=80, answer="", **environ):
    """Run the command on a terminal of a width. answer: input from the terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with open(slave, "r+b", buffering=0) as command_end:
        process = programs.start(
            "workers.ingot:main", argv=words, environ=environment(url, **environ),
            stdin=command_end, stdout=command_end, stderr=command_end,
        )  # fmt: skip
    os.write(master, answer.encode())
    output = b""
    with open(master, "rb", buffering=0) as terminal:
        try:
            while piece := terminal.read(4096):
                output += piece
        except OSError:  # on Linux: the other end is closed
            pass
    return Answer(process.wait(PATIENCE), output.decode().replace("\r\n", "\n").splitlines(), [])
