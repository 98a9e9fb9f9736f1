"""The serial console of a machine as an operator has it: `ingot node console`."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from tests.support.fleet import until

INGOT = Path(sys.executable).with_name("ingot")


class Console:
    """
    An open console.

        with Console(url, "ipmi") as console:
            console.type("\\r")
            console.expect("login:")
    """

    def __init__(self, url, node):
        self._url, self._node = url, node
        self._output, self._process = bytearray(), None

    def __enter__(self):
        self._process = subprocess.Popen(
            [INGOT, "node", "console", "open", self._node], env=_environ(self._url),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()
        self.expect("[console connect")
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()

    def type(self, keys):
        self._process.stdin.write(keys.encode())
        self._process.stdin.flush()

    def expect(self, words, since=0, seconds=60):
        """Wait for words in the output, from a length on; return the length behind them."""
        until(lambda: words.encode() in self._output[since:], repr(words), seconds)
        return self._output.index(words.encode(), since) + len(words)

    def _read(self):
        while data := os.read(self._process.stdout.fileno(), 4096):
            self._output += data


def history(url, node, *options):
    """Return the output that the service has kept."""
    command = [INGOT, "node", "console", "history", node, *options]
    ended = subprocess.run(
        command, env=_environ(url), check=False, capture_output=True, text=True, timeout=60
    )
    return ended.stdout


def _environ(url):
    return {**os.environ, "INGOT_URL": url}
