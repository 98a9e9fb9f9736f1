"""
The unchanged `baremetal` command of python-ironicclient, run in the test process.

It sends the same requests as in a process of its own, whose start would take a second.
"""

import io
import json
import logging
import os
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from types import SimpleNamespace
from unittest import mock

from ironicclient import shell

#: command, its words joined -> its entry point
COMMANDS = {
    point.name.removeprefix("baremetal_").replace("_", " "): point
    for point in entry_points(group="openstack.baremetal.v1")
}
#: Options of the output format, which concern only the client.
OUTPUT = {
    "--help", "--format", "--column", "--quote", "--noindent", "--max-width", "--fit-width",
    "--print-empty", "--sort-column", "--sort-ascending", "--sort-descending", "--prefix",
    "--variable",
}  # fmt: skip


def options(command):
    """Long names of a command's options."""
    application = SimpleNamespace(command_manager=SimpleNamespace(namespace=""))
    parser = COMMANDS[command].load()(application, None, cmd_name=command).get_parser(command)
    names = {action.option_strings[-1] for action in parser._actions if action.option_strings}
    return names - OUTPUT


class Baremetal:
    """
    The command: `baremetal("node", "show", "n1")` returns its output, decoded if it is JSON.

    environ: its variables, such as OS_TOKEN; by default it does not authenticate.
    """

    def __init__(self, url, version=None, **environ):
        self.url = url
        self._environ = environ or {"OS_AUTH_TYPE": "none"}
        self._global = ["--os-endpoint", url]
        if version:
            self._global += ["--os-baremetal-api-version", version]

    def at(self, version):
        """Return the command with another microversion."""
        return Baremetal(self.url, version, **self._environ)

    def __call__(self, *words):
        status, out, errors = self._run(words)
        assert 0 == status, f"{words}: {errors}"
        return json.loads(out) if out.startswith(("{", "[")) else out

    def refused(self, *words):
        """Run a command that fails, and return its standard error."""
        status, out, errors = self._run(("--max-retries", 1, *words))
        assert 0 != status, f"{words} succeeded: {out}"
        return errors

    def _run(self, words):
        words = [str(word) for word in words]
        form = ["-f", "json"] if _formats(words) else []
        out, errors = io.StringIO(), io.StringIO()
        variables = mock.patch.dict(os.environ, self._environ)
        with redirect_stdout(out), redirect_stderr(errors), _logging_kept(), variables:
            try:
                status = shell.main([*self._global, *words, *form])
            except SystemExit as error:  # raised by the parser
                status = error.code
        return status, out.getvalue(), errors.getvalue()


def _formats(words):
    """Return whether a command has options for its output."""
    start = 2 if words[0] == "--max-retries" else 0
    for end in range(len(words), start, -1):
        command = COMMANDS.get(" ".join(words[start:end]))
        if command:
            return hasattr(command.load(), "formatter_namespace")
    return False


@contextmanager
def _logging_kept():
    """Restore the logging of the test process, which each command configures."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
