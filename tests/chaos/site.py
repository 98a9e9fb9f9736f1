"""
A site: all processes of a service in production, each an independent process.

    with Site(folder, nodes=30, seed=1) as site:
        site.kill("c-1")
        site.start("c-1")

Conductors c-1, c-2, ..., API processes api-1, ..., beats beat-1, ...; `postgres`, `redis`,
`machines` (the simulator) and `proxies`. Clients and agents reach the API at one address.
"""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import redis
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from drivers.simulator import media
from tests.support import postgresql, programs
from tests.support.fleet import ROOT, until
from tests.support.loopback import LOOPBACK
from tests.support.ports import free_ports
from workers.supervisor import redis_server

#: Settings of the service: deaths are detected sooner than by default, so that minutes are enough.
#: A step may crash any number of times.
SETTINGS = {
    "INGOT_LOG_FORMAT": "json",
    "INGOT_CONDUCTOR_HEARTBEAT_INTERVAL": "1",
    "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "5",
    "INGOT_CONDUCTOR_LEASE_TTL": "3",
    "INGOT_CONDUCTOR_RECONCILE_INTERVAL": "1",
    "INGOT_CONDUCTOR_RESEND_AFTER": "3",
    "INGOT_CONDUCTOR_STEP_TIMEOUT": "40",
    "INGOT_CONDUCTOR_MAX_STEP_DEATHS": "1000",
    "INGOT_CONDUCTOR_GRACEFUL_SHUTDOWN_TIMEOUT": "10",
    **LOOPBACK,
    "INGOT_CONDUCTOR_MAX_CONCURRENT_DEPLOY": "5000",
    "INGOT_CONDUCTOR_MAX_CONCURRENT_CLEAN": "25",  # some wait for a slot
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "15",
    "INGOT_CONDUCTOR_POWER_FAILURE_RECOVERY_INTERVAL": "10",
    "INGOT_CONDUCTOR_DEPLOY_CALLBACK_TIMEOUT": "120",
    "INGOT_CONDUCTOR_CLEAN_CALLBACK_TIMEOUT": "120",
    "INGOT_CONDUCTOR_SERVICE_CALLBACK_TIMEOUT": "120",
    "INGOT_CONDUCTOR_RESCUE_CALLBACK_TIMEOUT": "120",
    "INGOT_CONDUCTOR_INSPECT_WAIT_TIMEOUT": "240",
    "INGOT_WEBHOOKS_TIMEOUT": "4",
    "INGOT_WEBHOOKS_MAX_RETRY_INTERVAL": "2",
    "INGOT_API_API_WORKERS": "1",
    "INGOT_API_RAMDISK_HEARTBEAT_TIMEOUT": "30",
    "INGOT_AGENT_REQUIRE_TLS": "false",
    "INGOT_AGENT_COMMAND_TIMEOUT": "10",
    "INGOT_AGENT_POST_DEPLOY_GET_POWER_STATE_RETRY_INTERVAL": "0.5",
    "INGOT_BROKER_CONNECT_TIMEOUT": "2",
    "INGOT_REDFISH_CONNECT_TIMEOUT": "2",
    "INGOT_REDFISH_READ_TIMEOUT": "5",
    "INGOT_REDFISH_FIRMWARE_UPDATE_STATUS_INTERVAL": "2",
    "INGOT_BMC_RETRY_AFTER": "1",
    "INGOT_BMC_MAX_RETRY_AFTER": "10",
    "INGOT_DEFAULT_RESCUE_INTERFACE": "agent",
    "INGOT_DEFAULT_RAID_INTERFACE": "agent",
    "INGOT_DEFAULT_FIRMWARE_INTERFACE": "redfish",
    "INGOT_DEFAULT_BIOS_INTERFACE": "redfish",
    "INGOT_DEFAULT_INSPECT_INTERFACE": "agent",
}
#: Behaviour of all machines.
PACE = {
    "boot_seconds": 2, "step_seconds": 0.7, "heartbeat_gap": 1, "retry_factor": 0.2,
    "task_seconds": 3, "latency": 0.1, "latency_jitter": 0.1,
}  # fmt: skip
#: A commit that was answered survives the death of the server.
DURABLE = {"synchronous_commit": "on", "max_connections": "500", "deadlock_timeout": "500ms"}
IMAGE = {"ipa-api-url": "an-image"}
RAID = {"logical_disks": [{"size_gb": 50, "raid_level": "1", "controller": "software"}]}
VERSION = {"X-OpenStack-Ironic-API-Version": "1.115"}


class Site:
    """A site that runs while the block does; all its processes end with it."""

    def __init__(
        self, folder, nodes, seed, *, conductors=3, apis=2, beats=2, pace=None, **settings
    ):
        self.folder, self.nodes, self.seed = Path(folder), nodes, seed
        self.conductors = [f"c-{number}" for number in range(1, conductors + 1)]
        self.apis = [f"api-{number}" for number in range(1, apis + 1)]
        self.beats = [f"beat-{number}" for number in range(1, beats + 1)]
        self.roles = [*self.conductors, *self.apis, *self.beats]
        self.environ = {**SETTINGS, **settings}
        self.pace = {**PACE, **(pace or {})}
        self.lives, self._programs = {}, {}
        self._control = None
        self._order, self._notes = threading.Lock(), threading.Lock()

    def __enter__(self):
        for name in ("data", "redis", "tmp", "logs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        # a folder of its own: the server's account must be able to enter it, with short socket paths
        self.postgres_folder = tempfile.mkdtemp(prefix="ingot-pg-")
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for program in self._programs.values():
            program.kill()
        for program in self._programs.values():
            program.wait(30)
        shutil.rmtree(self.postgres_folder, ignore_errors=True)
        private = redis_server.socket_path(self.folder).parent
        if private != self.folder:
            shutil.rmtree(private, ignore_errors=True)

    def _start_all(self):
        self._commands = {
            "postgres": postgresql.initialised(self.postgres_folder, **DURABLE),
            "redis": self._redis_command(),
            "machines": self._machines_command(),
            "proxies": [sys.executable, "-m", "tests.chaos.tcp_proxy", str(self.folder / "plan")],
        }
        self._plan_proxies()
        for name in self._commands:
            self.start(name)
        self.await_postgres()
        postgresql.Server(self.postgres_folder).execute("CREATE DATABASE ingot")
        subprocess.run(
            [sys.executable, "-m", "workers.cli", "db", "upgrade", "--database", self.database],
            cwd=ROOT, check=True, capture_output=True, env=self._environ("upgrade"),
        )  # fmt: skip
        until(self.redis_answers, "Redis")
        ready = self.folder / "machines"
        until(ready.exists, "the machines", 120)
        machines = json.loads(ready.read_text())
        self.control, self.machines = machines["url"], machines["machines"]
        for name in self.roles:
            self.start(name)
        until(self.is_ready, "all conductors and the API", 120, 0.2)

    def _plan_proxies(self):
        ports = iter(free_ports(2 * len(self.roles) + len(self.apis) + 2))
        self._control_port, self.port = next(ports), next(ports)
        self.api_ports = {name: next(ports) for name in self.apis}
        plan = {"control": self._control_port}
        plan["api"] = {"port": self.port, "to": list(self.api_ports.values())}
        for name in self.roles:
            plan[f"{name}:postgres"] = {"port": next(ports), "to": [self._postgres_socket]}
            plan[f"{name}:redis"] = {"port": next(ports), "to": [self._redis_socket]}
        self._plan = plan
        (self.folder / "plan").write_text(json.dumps(plan))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def agents_url(self):
        """URL of the API for agents."""
        return self.url

    @property
    def _redis_socket(self):
        return str(redis_server.socket_path(self.folder))

    @property
    def _postgres_socket(self):
        return f"{self.postgres_folder}/.s.PGSQL.5432"

    @property
    def database(self):
        """URL of the database, without a proxy."""
        return f"postgresql:///ingot?host={self.postgres_folder}&user={postgresql.ACCOUNT}"

    def _redis_command(self):
        path = redis_server.socket_path(self.folder)
        if path.parent != self.folder:
            redis_server.make_private(path.parent)
        self.redis = redis.Redis(unix_socket_path=str(path), socket_timeout=5)
        return redis_server.command(redis_server.find(), self.folder, path)

    def _machines_command(self):
        pace = [word for name, value in self.pace.items() for word in ("--set", f"{name}={value}")]
        return [
            sys.executable, "-m", "drivers.simulator", "--machines", str(self.nodes),
            "--seed", str(self.seed % 256), "--ready-file", str(self.folder / "machines"), *pace,
        ]  # fmt: skip

    # processes

    @property
    def pids(self):
        """Name -> pid of the running processes."""
        return {
            name: program.pid for name, program in self._programs.items() if program.poll() is None
        }

    def start(self, name):
        """Start a process, unless it runs."""
        with self._order:
            if name in self.pids:
                return
            self.lives[name] = self.lives.get(name, 0) + 1
            with (self.folder / "logs" / name).open("a") as log:
                self._programs[name] = self._program(name, {"stdout": log, "stderr": log})

    def _program(self, name, files):
        if name in self._commands:
            account = postgresql.ACCOUNT if name == "postgres" and not os.geteuid() else None
            environ = {**os.environ, "PYTHONPATH": str(ROOT)}
            words = [self._commands[name], account]
            return programs.start("tests.chaos.roles:execute", *words, environ=environ, **files)
        role = "conductor" if name in self.conductors else name.partition("-")[0]
        words = [name, role, *([name] if role == "conductor" else [])]
        environ = {**os.environ, **self._environ(name)}
        return programs.start("tests.chaos.roles:run", *words, environ=environ, **files)

    def _environ(self, name):
        """Settings of a process, with its name for the database."""
        environ = {**self.environ, "TMPDIR": str(self.folder / "tmp")}
        environ["INGOT_DATA_DIR"] = str(self.folder / "data")
        if name in self.roles:
            port = {kind: self._plan[f"{name}:{kind}"]["port"] for kind in ("postgres", "redis")}
            environ["INGOT_DATABASE_CONNECTION"] = (
                f"postgresql://{postgresql.ACCOUNT}@127.0.0.1:{port['postgres']}/ingot"
                f"?application_name={name}.{self.lives[name]}&sslmode=disable&connect_timeout=5"
            )
            environ["INGOT_BROKER_URL"] = f"redis://127.0.0.1:{port['redis']}/0"
        else:
            environ = {**os.environ, **environ}
        if name in self.apis:
            environ["INGOT_API_PORT"] = str(self.api_ports[name])
        return environ

    def signal(self, name, number, *, group=True):
        """Signal a process, and its process group."""
        with suppress(ProcessLookupError, KeyError):
            (os.killpg if group else os.kill)(self.pids[name], number)

    def kill(self, name):
        """Kill a process (SIGKILL), and wait for its end."""
        self.end(name, signal.SIGKILL)

    def end(self, name, number, seconds=60, *, group=False):
        """Signal a process, and wait for its end."""
        program = self._programs.get(name)
        if program is None or program.poll() is not None:
            return
        self.signal(name, number, group=group)
        try:
            program.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} has not ended in {seconds} s") from None

    def set_proxy(self, name, mode):
        """Set the mode of a proxy, see tests.chaos.tcp_proxy."""
        with (
            self._order,
            closing(socket.create_connection(("127.0.0.1", self._control_port))) as to,
        ):
            to.sendall(json.dumps([name, mode]).encode() + b"\n")
            to.recv(100)

    # state

    def await_postgres(self):
        postgresql.await_answer(postgresql.Server(self.postgres_folder))

    def redis_answers(self):
        with suppress(redis.RedisError):
            return self.redis.ping()
        return False

    def query(self, text, *values):
        """Query the database, without a proxy; return the rows."""
        with psycopg.connect(self.database, autocommit=True) as session:
            cursor = session.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def is_ready(self):
        alive = self.query(
            "SELECT count(*) FROM conductors WHERE online AND"
            " heartbeat_at > (clock_timestamp() AT TIME ZONE 'utc') - interval '5 seconds'"
        )[0][0]
        with suppress(requests.RequestException):
            answers = requests.get(f"{self.url}/v1/nodes?limit=1", timeout=2).ok
            return answers and alive == len(self.conductors)
        return False

    def note(self, event, **facts):
        """Record an action on the site, or of its clients, in a log of its own."""
        with self._notes:
            line = json.dumps({"timestamp": stamp(), "event": event, **facts})
            with (self.folder / "logs" / "notes").open("a") as notes:
                notes.write(line + "\n")

    def log(self, *events):
        """Log entries of some events, of all processes, in order of time."""
        entries = []
        for path in (self.folder / "logs").iterdir():
            for line in path.read_text(errors="replace").splitlines():
                if any(event in line for event in events):
                    with suppress(ValueError):
                        entries.append(json.loads(line))
        entries = [
            entry for entry in entries if isinstance(entry, dict) and entry.get("event") in events
        ]
        return sorted(entries, key=lambda entry: entry["timestamp"])

    # machines

    def machine(self, number):
        return requests.get(f"{self.control}/sim/machines/{number}", timeout=60).json()

    def keep_machines(self):
        """Write each machine and its log to a file beside the logs."""
        with (self.folder / "logs" / "machines").open("w") as file:
            for machine in self.machines:
                number = machine["number"]
                record = {"machine": self.machine(number), "log": self.machine_log(number)}
                file.write(json.dumps(record) + "\n")

    def machine_log(self, number):
        return requests.get(f"{self.control}/sim/machines/{number}/log", timeout=60).json()

    def account(self, number):
        """Return the user of a machine's BMC, with all passwords that it was ever sent."""
        url = f"{self.control}/sim/machines/{number}/account"
        return requests.get(url, timeout=60).json()

    def set_password(self, number, password):
        """Set the password of a machine's BMC, as at its own console."""
        url = f"{self.control}/sim/machines/{number}/account"
        requests.post(url, json={"password": password}, timeout=60).raise_for_status()

    def set_faults(self, number, **faults):
        url = f"{self.control}/sim/machines/{number}/faults"
        requests.post(url, json=faults, timeout=60).raise_for_status()

    def image(self):
        """instance_info of an image to deploy."""
        return {
            "image_source": f"{self.control}/agent.iso?api=an-image",
            "image_checksum": hashlib.sha256(media.medium(IMAGE)).hexdigest(),
        }

    def password(self, machine):
        """Password of the BMC's user when its node is enrolled."""
        return "admin"

    def driver_info(self, machine):
        medium = f"{self.control}/agent.iso?api={self.agents_url}"
        callback = f"{self.agents_url}/v1/continue_inspection"
        return {
            "redfish_address": machine["redfish_address"],
            "redfish_system_id": machine["system_id"],
            "redfish_username": "admin",
            "redfish_password": self.password(machine),
            "redfish_verify_ca": False,
            "deploy_iso": medium,
            "rescue_iso": medium,
            "inspect_iso": f"{medium}&ipa-inspection-callback-url={callback}",
        }

    def enrol(self):
        """Enrol a node for each machine; return their UUIDs, in the order of the machines."""
        with requests.Session() as http:
            http.headers.update(VERSION)
            # as clients do: on a busy machine, conductors may not have registered yet
            unavailable = Retry(
                20,
                connect=0,
                read=0,
                status_forcelist=[503],
                allowed_methods=None,
                backoff_factor=0.2,
            )
            http.mount("http://", HTTPAdapter(max_retries=unavailable))
            for machine in self.machines:
                node = {
                    "uuid": machine["uuid"],
                    "driver": "redfish",
                    "driver_info": self.driver_info(machine),
                    "instance_info": self.image(),
                }
                _created(http.post(f"{self.url}/v1/nodes", json=node, timeout=60))
                for mac in machine["macs"]:
                    port = {"node_uuid": machine["uuid"], "address": mac}
                    _created(http.post(f"{self.url}/v1/ports", json=port, timeout=60))
                path = f"{self.url}/v1/nodes/{machine['uuid']}/states/raid"
                assert 204 == http.put(path, json=RAID, timeout=60).status_code
        return [machine["uuid"] for machine in self.machines]


def _created(answer):
    assert 201 == answer.status_code, answer.text


def stamp():
    """Present time in the format of the logs."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def wait(seconds, stop):
    """Sleep until a time has passed, or `stop` is set; return whether it is."""
    return stop.wait(max(0.0, seconds)) if stop else time.sleep(seconds)
