"""
Environment of the demo: simulated machines, an image to deploy, and a separate service.

All parts run in child processes that end with this one; their files are in a temporary directory.
The caller's settings are not passed on, so the demo cannot affect a service that is in use.
"""

import contextlib
import functools
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from app.process.parent_death import die_with_parent
from drivers.builtin import SIMULATOR

#: Working directory of the child processes.
ROOT = Path(__file__).resolve().parents[2]
CONDUCTORS = 2
#: Port of the API, if it is free.
PORT = 6385
#: Seconds for a child to end after SIGTERM.
STOP_TIMEOUT = 20
#: Data directory of the service, in the temporary directory.
DATA = "data"

#: Settings of the service: short timeouts for the takeover, and agents without TLS.
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
    # machines, their BMCs and the image are on loopback
    "INGOT_AGENT_DENIED_NETWORKS": "",
    "INGOT_BMC_DENIED_NETWORKS": "",
    "INGOT_CONDUCTOR_FETCH_DENIED_NETWORKS": "",
}


class DemoError(Exception):
    """The demo cannot continue; the message is one line with the reason."""


@dataclass(frozen=True, slots=True)
class Image:
    url: str
    sha256: str  # in hexadecimal


@dataclass(slots=True)
class Child:
    name: str
    process: subprocess.Popen[str]
    log: Path  # file with its standard error

    def first_line(self) -> str:
        """
        Wait for the first line on standard output, which means that the process is ready.

        Raises DemoError: the process has ended.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.check()
        return line.strip()

    def check(self) -> None:
        """
        Check that the process runs.

        Raises DemoError: it has ended.
        """
        status = self.process.poll()
        if status is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines()
            reason = next((line for line in lines if line.startswith("ingot: ")), *lines[-1:])
            raise DemoError(f"{self.name} ended with status {status}: {reason}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class Environment:
    """Addresses and processes of a running demo."""

    url: str  # of the service's API
    control: str  # URL of the simulator
    machines: list[dict[str, Any]]  # as the simulator describes them
    image: Image
    children: list[Child]
    pidfile: Path  # of `ingot up`
    data: Path  # its data directory

    @property
    def medium(self) -> str:
        """URL of the ISO image from which the machines boot the agent."""
        return f"{self.control}/agent.iso?api={self.url}"

    def check(self) -> None:
        """
        Check that all children run.

        Raises DemoError: a child has ended.
        """
        for child in self.children:
            child.check()

    def conductors(self) -> dict[str, int]:
        """Return name -> pid of the running conductors."""
        pids: dict[str, int] = json.loads(self.pidfile.read_text())["conductors"]
        return pids


@contextlib.contextmanager
def environment(
    machines: int, pace: float, settings: Mapping[str, str] = SETTINGS
) -> Iterator[Environment]:
    """
    Start all parts of the demo; stop them and delete their files at the end.

    pace: factor on the delays of the machines. settings: of the service, by variable.
    Raises DemoError.
    """
    with contextlib.ExitStack() as stack:
        try:
            temporary = tempfile.TemporaryDirectory(prefix="ingot-demo-")
        except OSError as error:
            raise DemoError(f"no temporary directory: {error.strerror}") from None
        folder = Path(stack.enter_context(temporary))
        try:
            # before the image server's thread: a process with threads must not fork
            start = functools.partial(_start, stack, folder, settings)
            simulator = start("the simulator", _simulator(machines, pace))
            pidfile = folder / "pids.json"
            port = PORT if stack.enter_context(_reserved(PORT)) else 0
            service = start("ingot up", _service(folder / DATA, pidfile, port))
            description = json.loads(simulator.first_line())
            url = service.first_line().removeprefix("ready ")
            image = stack.enter_context(_image())
            control, fleet = description["url"], description["machines"]
            children = [simulator, service]
            yield Environment(url, control, fleet, image, children, pidfile, folder / DATA)
        finally:
            _ignore_signals()


def _ignore_signals() -> None:
    """Keep signals from interrupting the cleanup, which takes at most STOP_TIMEOUT per child."""
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
    return [SIMULATOR, f"--machines={machines}", *settings]


def _service(data: Path, pidfile: Path, port: int) -> list[str]:
    options = {"data-dir": data, "pidfile": pidfile, "conductors": CONDUCTORS}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return ["workers.cli", "up", f"--port={port}", *arguments]


def _start(
    stack: contextlib.ExitStack,
    folder: Path,
    settings: Mapping[str, str],
    name: str,
    module: list[str],
) -> Child:
    """Run a module in its own session, so that Ctrl-C reaches only this process."""
    log = folder / f"{module[0]}.log"
    parent = os.getpid()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=ROOT,
            env=_environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - one thread so far
        )
    child = Child(name, process, log)
    stack.callback(child.stop)
    return child


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with the given settings alone, and without proxies."""
    environment_variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("INGOT_") and not name.lower().endswith("_proxy")
    }
    return environment_variables | dict(settings)


@contextlib.contextmanager
def _reserved(port: int) -> Iterator[bool]:
    """
    Reserve a port among demos; yields whether it is reserved and free.

    The reservation is an abstract socket, which the kernel removes when this process ends.
    """
    with socket.socket(socket.AF_UNIX) as marker, socket.socket() as probe:
        try:
            marker.bind(f"\0ingot-demo-{port}")
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
    """Serve a small image on loopback."""
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

        def log_message(self, *_: object) -> None:
            """Log nothing, as the terminal displays the table."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, name="image", daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/system.img"
            yield Image(url, hashlib.sha256(content).hexdigest())
        finally:
            server.shutdown()
