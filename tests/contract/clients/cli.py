"""
The unchanged `baremetal` command of python-ironicclient, run inside this process.

Starting a process takes a second; what the command does and sends is the same without.
"""

import io
import json
import logging
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from types import SimpleNamespace

from ironicclient import shell

#: command, its words joined -> its entry point
COMMANDS = {
    each.name.removeprefix("baremetal_").replace("_", " "): each
    for each in entry_points(group="openstack.baremetal.v1")
}
#: Options of the output, which is the client's own matter.
OUTPUT = {
    "--help", "--format", "--column", "--quote", "--noindent", "--max-width", "--fit-width",
    "--print-empty", "--sort-column", "--sort-ascending", "--sort-descending", "--prefix",
    "--variable",
}  # fmt: skip


def options(command):
    """The options of a command, each by its long name."""
    application = SimpleNamespace(command_manager=SimpleNamespace(namespace=""))
    parser = COMMANDS[command].load()(application, None, cmd_name=command).get_parser(command)
    named = {each.option_strings[-1] for each in parser._actions if each.option_strings}
    return named - OUTPUT


class Baremetal:
    """
    `baremetal("node", "show", "n1")` is what that command prints, decoded where it is JSON.
    """

    def __init__(self, url, version=None):
        self.url = url
        self._global = ["--os-auth-type", "none", "--os-endpoint", url]
        if version:
            self._global += ["--os-baremetal-api-version", version]

    def at(self, version):
        """The same, speaking a microversion."""
        return Baremetal(self.url, version)

    def __call__(self, *words):
        status, out, told = self._run(words)
        assert 0 == status, f"{words}: {told}"
        return json.loads(out) if out.startswith(("{", "[")) else out

    def refused(self, *words):
        """What a command says that fails."""
        status, out, told = self._run(("--max-retries", 1, *words))
        assert 0 != status, f"{words} passed: {out}"
        return told

    def _run(self, words):
        words = [str(word) for word in words]
        form = ["-f", "json"] if _formats(words) else []
        out, told = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(told), _logging_kept():
            try:
                status = shell.main([*self._global, *words, *form])
            except SystemExit as error:  # of the parser
                status = error.code
        return status, out.getvalue(), told.getvalue()


def _formats(words):
    """Whether a command has options for its output."""
    start = 2 if words[0] == "--max-retries" else 0
    for end in range(len(words), start, -1):
        command = COMMANDS.get(" ".join(words[start:end]))
        if command:
            return hasattr(command.load(), "formatter_namespace")
    return False


@contextmanager
def _logging_kept():
    """Each command sets up logging for its process; this one has a setup of its own."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
