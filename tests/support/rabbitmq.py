"""A private RabbitMQ: one node, on loopback, in its own folder."""

import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

from kombu import Connection

from tests.support import debian
from tests.support.fleet import until
from tests.support.ports import free_ports
from tests.support.prerequisites import not_run

#: Not the wrapper in the path: it switches to another user.
PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class NoServer(Exception):
    """The server program is missing and could not be installed; one line says why."""


def find():
    """Path of the server's program. Raises NoServer."""
    program = debian.provide(lambda: PROGRAM if PROGRAM.exists() else None, "rabbitmq-server")
    if program is None:
        raise NoServer("no RabbitMQ (rabbitmq-server) on this machine")
    return program


class RabbitMQ:
    """A server that can be stopped and started, and keeps its messages. Raises NoServer."""

    def __init__(self, folder):
        program, self.folder = find(), Path(folder)
        self.port, distribution, names = free_ports(3)
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        (self.folder / "plugins").write_text("[].\n")
        self._command = [program]
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),  # the cookie
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_NODENAME": f"ingot-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1}"
                " +sbwt none +sbwtdcpu none +sbwtdio none"  # no busy waiting of idle threads
            ),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        }
        # the server would start an epmd that runs for ever
        self._names = subprocess.Popen(
            ["epmd", "-address", "127.0.0.1", "-port", str(names)], env=self._environ,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def start(self):
        with (self.folder / "out").open("a") as out:
            self._server = subprocess.Popen(
                self._command, env=self._environ, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        until(self._answers, "RabbitMQ", 180, 0.2)

    def stop(self):
        with suppress(ProcessLookupError):
            os.killpg(self._server.pid, signal.SIGTERM)
        try:
            self._server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()

    def close(self):
        self.stop()
        self._names.kill()
        self._names.wait()

    def _answers(self):
        assert self._server.poll() is None, (self.folder / "out").read_text()[-2000:]
        with suppress(OSError), Connection(self.url, connect_timeout=2) as connection:
            connection.connect()
            return True


@contextmanager
def serving(folder):
    """Start a server; a test that cannot have it is not run."""
    try:
        server = RabbitMQ(folder)
    except NoServer as error:
        not_run(str(error))
    try:
        server.start()
        yield server
    finally:
        server.close()
