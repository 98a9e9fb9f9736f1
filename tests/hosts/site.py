"""
A site on several hosts: see `HOSTS`. All of it is in namespaces of the isolated process.

    with Site(folder, nodes=24, seed=1) as site:
        site.network.cut(["conductor-1"], database.HOSTS)

Each role of the service is a host of its own, so that its paths can be cut one by one. Its clock is
its own, too: `skew`. Clients reach the API at both hosts, agents at the balancer.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import requests

from tests.chaos import site as one_host
from tests.chaos.site import PACE, VERSION
from tests.hosts import broker, database, isolation
from tests.hosts.network import BMCS, OUTSIDE, Network
from tests.support import debian, postgresql, programs, skew
from tests.support.fleet import ROOT, until

CONDUCTORS = ("conductor-1", "conductor-2", "conductor-3")
#: Started by a phase that adds conductors.
SPARE = "conductor-4"
APIS = ("api-1", "api-2")
BEATS = ("beat-1", "beat-2")
ROLES = (*APIS, *CONDUCTORS, *BEATS)
HOSTS = (
    *database.HOSTS, *broker.HOSTS, "sentinel", *APIS, *CONDUCTORS, SPARE, *BEATS,
    "machines", "balancer",
)  # fmt: skip
PORT = 6385
#: The defaults, but for simulated machines; the times of takeover are the defaults.
SETTINGS = {
    "INGOT_LOG_FORMAT": "json",
    "INGOT_API_PORT": str(PORT),
    "INGOT_API_API_WORKERS": "1",
    "INGOT_AGENT_REQUIRE_TLS": "false",
    "INGOT_AGENT_POST_DEPLOY_GET_POWER_STATE_RETRY_INTERVAL": "0.5",
    "INGOT_REDFISH_FIRMWARE_UPDATE_STATUS_INTERVAL": "2",
    "INGOT_CONDUCTOR_MAX_STEP_DEATHS": "1000",
    "INGOT_DEFAULT_RESCUE_INTERFACE": "agent",
    "INGOT_DEFAULT_RAID_INTERFACE": "agent",
    "INGOT_DEFAULT_FIRMWARE_INTERFACE": "redfish",
    "INGOT_DEFAULT_BIOS_INTERFACE": "redfish",
    "INGOT_DEFAULT_INSPECT_INTERFACE": "agent",
}
#: Directory of the file systems in memory; every Linux has it.
MOUNT = Path("/mnt")


class Site:
    """A site that runs while the block does. folder: of all logs."""

    image, driver_info, password, enrol = (
        one_host.Site.image, one_host.Site.driver_info, one_host.Site.password, one_host.Site.enrol,
    )  # fmt: skip
    machine, machine_log, keep_machines = (
        one_host.Site.machine, one_host.Site.machine_log, one_host.Site.keep_machines,
    )  # fmt: skip
    note, log, set_faults = one_host.Site.note, one_host.Site.log, one_host.Site.set_faults

    def __init__(self, folder, nodes, seed, **environ):
        self.folder, self.nodes, self.seed = Path(folder), nodes, seed
        self.environ, self.running, self._programs = SETTINGS | environ, set(), {}
        self._notes, self._turn = threading.Lock(), itertools.count()
        self.network = Network(HOSTS, seed)
        self.database = database.Pair(MOUNT / "postgresql", self.network, self._serve)
        self.broker = broker.Trio(MOUNT / "redis", self.network, self._serve)

    def __enter__(self):
        isolation.mount_memory(MOUNT)
        for name in ("postgresql", "redis", "data", "tmp", "clocks"):
            (MOUNT / name).mkdir()
        (self.folder / "logs").mkdir(exist_ok=True)
        self._prepare_clocks()
        self.network.lay()
        self.database.begin()
        self.broker.begin()
        self._start_machines()
        backends = [self.network.address(host) for host in APIS]
        here = self.network.address("balancer")
        words = ["-m", "tests.hosts.balancer", here, str(PORT), *backends]
        self._run_python("balancer", *words)
        environ = {**os.environ, **self._environ(APIS[0])}
        upgraded = programs.run("workers.cli:main", argv=["db", "upgrade"], environ=environ)
        assert 0 == upgraded.status, upgraded
        for name in ROLES:
            self.start(name)
        until(self.is_ready, "all conductors and both APIs", 120, 0.2)
        return self

    def __exit__(self, *_):
        for name in list(self.running):
            self.kill(name)

    def _start_machines(self):
        ready = MOUNT / "machines"
        pace = [word for name, value in PACE.items() for word in ("--set", f"{name}={value}")]
        self._run_python(
            "machines", "-m", "drivers.simulator", "--machines", str(self.nodes), "--network",
            BMCS, "--seed", str(self.seed % 256), "--ready-file", str(ready), *pace,
        )  # fmt: skip
        until(ready.exists, "the machines", 60)
        machines = json.loads(ready.read_text())
        self.control, self.machines = machines["url"], machines["machines"]

    # processes

    def _serve(self, host, command):
        """Run a server program on a host, by the account of PostgreSQL if it is one of its programs."""
        account = postgresql.ACCOUNT if Path(command[0]).parent == postgresql.find() else None
        environ = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        with self._log(host) as log:
            words = (host, [str(word) for word in command], account)
            return programs.start(
                "tests.hosts.roles:execute", *words, environ=environ, stdout=log, stderr=log
            )

    def _run_python(self, host, *words):
        os.environ["PYTHONPATH"] = str(ROOT)
        self._programs[host] = self._serve(host, [sys.executable, *words])

    def _log(self, name):
        return (self.folder / "logs" / name).open("a")

    def start(self, name):
        """Start a role on its host."""
        role = name.partition("-")[0]
        words = [name, name, role, *([name] if role == "conductor" else [])]
        environ = {**os.environ, **self._environ(name)}
        with self._log(name) as log:
            self._programs[name] = programs.start(
                "tests.hosts.roles:run", *words, environ=environ, stdout=log, stderr=log
            )
        self.running.add(name)

    def _environ(self, name):
        data = MOUNT / "data" / name
        data.mkdir(exist_ok=True)
        return {
            **self.environ,
            "TMPDIR": str(MOUNT / "tmp"),
            "SKEW": str(self._clock(name)),
            "INGOT_DATA_DIR": str(data),
            "INGOT_API_HOST_IP": self.network.address(name),
            # simulated agents send X-Forwarded-For, as their balancer passes on bytes alone
            "INGOT_API_TRUSTED_PROXIES": self.network.address("balancer"),
            "INGOT_DATABASE_CONNECTION": f"{self.database.url}&application_name={name}",
            "INGOT_BROKER_URL": self.broker.url,
        }

    def send(self, name, number):
        """Signal all processes of a role."""
        with suppress(ProcessLookupError):
            os.killpg(self._programs[name].pid, number)

    def kill(self, name):
        self.end(name, signal.SIGKILL)

    def end(self, name, number=signal.SIGTERM, seconds=90):
        """Signal a role, and wait for its end."""
        if number == signal.SIGKILL:
            self.send(name, number)
        else:
            self._programs[name].send_signal(number)
        try:
            self._programs[name].wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} has not ended in {seconds} s") from None
        self.running.discard(name)

    # clocks

    def _prepare_clocks(self):
        """Preload, in the roles, the library by which each has a wall clock of its own."""
        self.has_clocks = debian.provide(lambda: shutil.which("cc"), "gcc libc6-dev") is not None
        if self.has_clocks:
            clock = skew.Clock(MOUNT / "clocks")
            os.environ["LD_PRELOAD"] = clock.environ["LD_PRELOAD"]

    def _clock(self, name):
        path = MOUNT / "clocks" / name
        if not path.exists():
            path.write_text("0")
        return path

    def skew(self, name, seconds):
        """Set the wall clock of a role off by some seconds."""
        self._clock(name).write_text(str(seconds))

    # the API

    @property
    def urls(self):
        """URLs of the API by host."""
        return {host: f"http://{self.network.address(host)}:{PORT}" for host in APIS}

    @property
    def url(self):
        """URL of the API: each time at the next host."""
        return self.urls[APIS[next(self._turn) % len(APIS)]]

    @property
    def agents_url(self):
        """URL of the API for agents."""
        return f"http://{self.network.address('balancer')}:{PORT}"

    @property
    def outside(self):
        return self.network.address(OUTSIDE)

    def request(self, method, path, body=None, **query):
        """
        Send a request to the hosts in turn until one answers it well; return the document.

        Raises AssertionError: none does.
        """
        errors = []
        for url in 2 * list(self.urls.values()):
            try:
                answer = requests.request(
                    method, f"{url}/v1/{path}", json=body, params=query, headers=VERSION, timeout=20
                )
                if answer.ok:
                    return answer.json() if answer.content else None
                errors.append(answer.text)
            except requests.RequestException as error:
                errors.append(str(error))
        raise AssertionError(f"no host answers {method} {path}: {errors}")

    def get(self, path, **query):
        """Read from the first host of the API that answers."""
        return self.request("GET", path, **query)

    def is_ready(self):
        with suppress(AssertionError, requests.RequestException):
            alive = [
                conductor
                for conductor in self.get("conductors")["conductors"]
                if conductor["alive"]
            ]
            answers = [
                requests.get(f"{url}/v1/nodes?limit=1", timeout=5).ok for url in self.urls.values()
            ]
            return len(alive) == len(CONDUCTORS) and all(answers)
        return False
