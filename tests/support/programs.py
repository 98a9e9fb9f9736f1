"""
Programs of the service that start quickly: forks of a server that has imported its modules.

    program = start("workers.cli:main", argv=["up", "--port", "0"], stderr=log)
    program.wait(20)

Each saves the two seconds of CPU time of its imports. The server, tests.support.forkserver, starts
with the first program and ends with the test process; all programs end with it.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
#: Most bytes of a message of the server.
LONGEST = 1000
#: Most seconds that `run` waits: a busy machine runs a program of a second for many.
PATIENCE = 120.0
PAIR = (socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Program:
    """A forked program: the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, name, events):
        self._name, self._events = name, events
        started = events.recv(LONGEST)
        assert started, "the fork server has ended: see its error output"
        self.pid = json.loads(started)["pid"]
        self.returncode, self.stdout = None, None
        self._reading = threading.Lock()

    def poll(self):
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        """Return the exit status. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._events], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._name, timeout)
            with self._reading:
                if self.returncode is None:  # no other thread has read it meanwhile
                    # the end of the server is the end of the program
                    ended = json.loads(self._events.recv(LONGEST) or '{"status": -9, "cpu": 0}')
                    self.returncode = ended["status"]
                    _Server.cpu += ended["cpu"]
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class _Server:
    """The server of this test process."""

    running = None
    cpu = 0.0

    def __init__(self):
        self.orders, theirs = socket.socketpair(*PAIR)
        command = [sys.executable, "-m", "tests.support.forkserver"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=subprocess.DEVNULL)
        theirs.close()
        atexit.register(self.end)

    def end(self):
        self.orders.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()

    def start(self, order, files):
        events, theirs = socket.socketpair(*PAIR)
        with theirs:
            socket.send_fds(self.orders, [json.dumps(order).encode()], [*files, theirs.fileno()])
        return Program(order["target"], events)


def start(
    target, *arguments, argv=(), cwd=ROOT, environ=None, stdin=None, stdout=None, stderr=None
):
    """
    Run a function, `module:name`, in a new process; return its Program.

    arguments: of the function, in JSON. argv: words after the program's name.
    stdin, stdout, stderr: open files, or PIPE for stdout; by default those of this process.
    """
    if _Server.running is None or _Server.running.process.poll() is not None:
        _Server.running = _Server()
    files = [0 if stdin is None else stdin.fileno(), 1, 2 if stderr is None else stderr.fileno()]
    reading = writing = None
    if stdout == subprocess.PIPE:
        reading, writing = os.pipe()
        files[1] = writing
    elif stdout is not None:
        files[1] = stdout.fileno()
    order = {
        "target": target, "arguments": arguments, "argv": [str(word) for word in argv],
        "cwd": str(cwd), "environ": dict(os.environ if environ is None else environ),
    }  # fmt: skip
    program = _Server.running.start(order, files)
    if reading is not None:
        os.close(writing)
        program.stdout = os.fdopen(reading)
    return program


class Ended(NamedTuple):
    """Result of a program."""

    status: int
    out: str
    err: str


def run(target, *arguments, stdin="", **options):
    """Run a program to its end, with a text as its standard input. options: those of `start`."""
    with TemporaryFile("w+") as input_file, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        input_file.write(stdin)
        input_file.seek(0)
        program = start(target, *arguments, stdin=input_file, stdout=out, stderr=err, **options)
        try:
            status = program.wait(PATIENCE)
        finally:
            program.kill()
        return Ended(status, *(_all_of(file) for file in (out, err)))


def _all_of(file):
    file.seek(0)
    return file.read()


def cpu_time():
    """Seconds of CPU time of programs that have ended and were waited for."""
    return _Server.cpu
