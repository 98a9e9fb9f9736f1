"""
A reader of the documentation: bash on a terminal, into which commands are typed one after the other.

    reader = Reader(folder, environ)
    answers = reader.types(["ingot db upgrade", "ingot user create ann"])
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path
from typing import NamedTuple

from tests.support.fleet import PATIENCE

CTRL_C = "\x03"
PASSWORD = "correct horse battery"
#: End of the output -> what the reader types then.
PROMPTS = {
    r"\[y/N\]: \Z": "y\n",
    r"(?:Password|Repeat for confirmation): \Z": f"{PASSWORD}\n",
}
#: Written after each command, with its number and exit status.
MARK = re.compile(r"\x1e(\d+) (\d+)\r?\n")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r")
WIDTH = 400


class Answer(NamedTuple):
    """Output of a command on the terminal, and its exit status."""

    status: int
    text: str


class Reader:
    """Someone who works in a folder."""

    def __init__(self, folder, environ):
        self.folder, self.environ = Path(folder), environ

    def types(self, commands, keys=(), fails=()):
        """
        Type commands until one fails; return their answers.

        Variables and the working directory last from one command to the next. keys: number of a
        command -> [(text to wait for, keys to press then, or function to call)]. fails: numbers of the commands
        that may fail, beside those with keys.
        """
        script = self._script(commands)
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe("bash", ["bash", "--norc", str(script)], self.environ)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
        try:
            return self._answers(terminal, commands, dict(keys), {*keys, *fails})
        finally:
            os.close(terminal)
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _script(self, commands):
        folder = self.folder / ".typed"
        folder.mkdir(exist_ok=True)
        lines = ["trap : INT"]  # Ctrl-C ends the command, not the shell
        for number, command in enumerate(commands):
            (folder / str(number)).write_text(f"{command}\n")
            lines.append(f'. "{folder / str(number)}"; printf "\\036{number} %s\\n" $?')
        script = folder / "all"
        script.write_text("\n".join((*lines, "sleep 600", "")))
        return script

    def _answers(self, terminal, commands, keys, may_fail):
        answers, output, since = [], "", time.monotonic()
        answered = 0
        while len(answers) < len(commands):
            assert time.monotonic() < since + PATIENCE, f"{commands[len(answers)]}\n{output}"
            if select.select([terminal], [], [], 1)[0]:
                output += os.read(terminal, 65536).decode(errors="replace")
            if match := MARK.search(output):
                text = ESCAPES.sub("", output[: match.start()])
                waiting = keys.get(len(answers))
                assert not waiting, f"{commands[len(answers)]}: no {waiting[0][0]!r} in\n{text}"
                answers.append(Answer(int(match[2]), text))
                if answers[-1].status and len(answers) - 1 not in may_fail:
                    break
                output, answered, since = output[match.end() :], 0, time.monotonic()
                continue
            text = ESCAPES.sub("", output)
            for awaited, then in list(keys.get(len(answers), ()))[:1]:
                if awaited in text:
                    keys[len(answers)] = keys[len(answers)][1:]
                    if callable(then):
                        then()
                    else:
                        os.write(terminal, then.encode())
            for prompt, reply in PROMPTS.items():
                if len(text) > answered and re.search(prompt, text):
                    os.write(terminal, reply.encode())
                    answered = len(text)
        return answers
