"""The operator's shell: the command `ingot` as a process, printed with its output and its duration."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

INGOT = Path(sys.executable).with_name("ingot")
#: Lines of an output that are printed from its begin and its end.
FIRST, LAST = 6, 3


class Differs(Exception):
    """A claim of the night does not hold; the message is what differs."""


def require(holds, claim):
    """Raises Differs: a claim does not hold."""
    if not holds:
        raise Differs(claim)


class Shell:
    """Runs commands in a folder. commands: their number so far."""

    def __init__(self, folder, **environ):
        self.folder, self.commands = folder, 0
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith("INGOT_")
        }
        self._environ = {**variables, "NO_COLOR": "1", "COLUMNS": "100", **environ}

    def __call__(self, *words, status=0):
        """Run a command of `ingot`; return its output. Raises Differs: another exit status."""
        self.commands += 1
        print(f"$ ingot {shlex.join(words)}", flush=True)
        start = time.monotonic()
        process = subprocess.Popen(
            [INGOT, *self._expanded(words)], cwd=self.folder, env=self._environ, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if len(lines) <= FIRST or "--wait" in words:
                print(lines[-1], flush=True)
        if "--wait" not in words:
            last_lines = lines[FIRST:]
            print(
                *(["..."] if len(last_lines) > LAST else []), *last_lines[-LAST:], sep="\n", end=""
            )
        process.wait()
        print(f"\n# {time.monotonic() - start:.1f} s\n", flush=True)
        output = "\n".join(lines)
        require(process.returncode == status, f"exit status {process.returncode}: {output[-2000:]}")
        return output

    def _expanded(self, words):
        """Yield the words, and the files in place of a word with `*`, as a shell does."""
        for word in words:
            if "*" in word:
                yield from sorted(str(path) for path in self.folder.glob(word))
            else:
                yield word

    def read(self, *words):
        """Run a command with its output as JSON; return the document."""
        self.commands += 1
        command = [INGOT, *words, "-o", "json"]
        ended = subprocess.run(
            command, check=False, cwd=self.folder, env=self._environ, capture_output=True, text=True
        )
        require(ended.returncode == 0, f"{shlex.join(words)}: {ended.stderr}")
        return json.loads(ended.stdout)
