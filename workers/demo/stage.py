"""
The demo's stage: a rack of simulated machines, an image to deploy, and a service of its own.

All of it runs in child processes that end with this one, with its files in a temporary directory.
Nothing of the caller's settings reaches it, so that it never meets a service that is in use.
"""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from app.parent import die_with_parent

#: Where the packages are.
ROOT = Path(__file__).resolve().parents[1]
CONDUCTORS = 2
#: The port that the service has where it is free.
PORT = 6385
#: Seconds for a child to end when it is told to.
PATIENCE = 20

#: The service's settings: it notices a death soon, and believes agents without a certificate.
SETTINGS = {
    "INGOT_HOST": "conductor",
    "INGOT_LOG_FORMAT": "json",
    "INGOT_AGENT_REQUIRE_TLS": "false",
    "INGOT_AGENT_POST_DEPLOY_GET_POWER_STATE_RETRY_INTERVAL": "1",
    "INGOT_CONDUCTOR_HEARTBEAT_INTERVAL": "0.5",
    "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "3",
    "INGOT_CONDUCTOR_LEASE_TTL": "2",
    "INGOT_CONDUCTOR_RECONCILE_INTERVAL": "0.5",
    "INGOT_CONDUCTOR_GRACEFUL_SHUTDOWN_TIMEOUT": "5",
}


class DemoError(Exception):
    """The show cannot go on; one line says why."""


@dataclass(frozen=True, slots=True)
class Image:
    """What the machines are deployed with: where it lies, sha256 in hex."""

    url: str
    sha256: str


@dataclass(slots=True)
class Child:
    """A process that we started; `log` is where it writes what it does."""

    name: str
    process: subprocess.Popen[str]
    log: Path

    def first_line(self) -> str:
        """Its first line on standard output, which it writes when it is ready. Raises DemoError."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.check()
        return line.strip()

    def check(self) -> None:
        """Raises DemoError when it has ended."""
        status = self.process.poll()
        if status is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines()
            told = next((line for line in lines if line.startswith("ingot: ")), *lines[-1:])
            raise DemoError(f"{self.name} ended with status {status}: {told}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class Stage:
    """
    What is there when the curtain rises.

    url: of the service. control: of the simulator. machines: as the simulator describes them.
    """

    url: str
    control: str
    machines: list[dict[str, Any]]
    image: Image
    children: list[Child]
    pidfile: Path

    @property
    def medium(self) -> str:
        """URL of the medium from which the machines boot the agent."""
        return f"{self.control}/agent.iso?api={self.url}"

    def check(self) -> None:
        """Raises DemoError when something of it has ended."""
        for child in self.children:
            child.check()

    def conductors(self) -> dict[str, int]:
        """Name -> pid of the conductors that run."""
        found: dict[str, int] = json.loads(self.pidfile.read_text())["conductors"]
        return found


@contextlib.contextmanager
def stage(machines: int, pace: float) -> Iterator[Stage]:
    """
    Build the stage, and take everything away at the end.

    pace: scales the time that machines take. Raises DemoError.
    """
    with contextlib.ExitStack() as stack:
        try:
            temporary = tempfile.TemporaryDirectory(prefix="ingot-demo-")
        except OSError as error:
            raise DemoError(f"no temporary directory: {error.strerror}") from None
        folder = Path(stack.enter_context(temporary))
        try:
            # children first: a process with threads must not fork
            rack = _start(stack, folder, "the simulator", _simulator(machines, pace))
            pidfile = folder / "pids.json"
            port = PORT if stack.enter_context(_port_is_ours(PORT)) else 0
            service = _start(stack, folder, "ingot up", _service(folder, pidfile, port))
            described = json.loads(rack.first_line())
            url = service.first_line().removeprefix("ready ")
            image = stack.enter_context(_image())
            control, fleet = described["url"], described["machines"]
            yield Stage(url, control, fleet, image, [rack, service], pidfile)
        finally:
            _deaf()


def _deaf() -> None:
    """Taking away is not interrupted: it takes no longer than the children's patience."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _simulator(machines: int, pace: float) -> list[str]:
    seconds = {
        "boot_seconds": 1.5,
        "step_seconds": 1.0,
        "power_on_seconds": 0.3,
        "power_off_seconds": 0.3,
        "heartbeat_gap": 1.0,
        "retry_factor": 0.2,
    }
    settings = [f"--set={name}={value * pace:g}" for name, value in seconds.items()]
    return ["drivers.simulator", f"--machines={machines}", *settings]


def _service(folder: Path, pidfile: Path, port: int) -> list[str]:
    options = {"data-dir": folder / "data", "pidfile": pidfile, "conductors": CONDUCTORS}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return ["workers.cli", "up", f"--port={port}", *arguments]


def _start(stack: contextlib.ExitStack, folder: Path, name: str, module: list[str]) -> Child:
    """Run a module in a process group of its own, so that Ctrl-C reaches us alone."""
    log = folder / f"{module[0]}.log"
    parent = os.getpid()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=ROOT,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - we have one thread yet
        )
    child = Child(name, process, log)
    stack.callback(child.stop)
    return child


def _environment() -> dict[str, str]:
    """Ours without settings of another service, and without proxies: all of it is on loopback."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("INGOT_") and not name.lower().endswith("_proxy")
    }
    return kept | SETTINGS


@contextlib.contextmanager
def _port_is_ours(port: int) -> Iterator[bool]:
    """
    Whether a port is free and no other demo is about to take it.

    An abstract socket of that name is the mark; the kernel removes it when we end, however we do.
    """
    with socket.socket(socket.AF_UNIX) as mark, socket.socket() as probe:
        try:
            mark.bind(f"\0ingot-demo-{port}")
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
        except OSError:
            free = False
        else:
            free = True
        probe.close()
        yield free


@contextlib.contextmanager
def _image() -> Iterator[Image]:
    """Serve one small image on loopback."""
    content = hashlib.shake_256(b"an operating system").digest(1 << 20)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: Any) -> None:
            """The table is on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, name="image", daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/system.img"
            yield Image(url, hashlib.sha256(content).hexdigest())
        finally:
            server.shutdown()
