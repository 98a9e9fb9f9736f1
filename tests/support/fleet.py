"""
A fleet: `ingot up` as real processes, and the few requests that tests send to it.

    with Fleet(tmp_path, conductors=2) as fleet:
        nodes = fleet.create_nodes(10)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from contextlib import suppress
from pathlib import Path

import redis
import requests

from drivers.simulator import media
from tests.support import processes, programs
from tests.support.loopback import LOOPBACK
from tests.support.ports import free_ports

ROOT = Path(__file__).parents[2]
#: Seconds to wait for events that usually take a few: the machine may be busy with other tests.
PATIENCE = 180.0
#: Settings that detect deaths and losses soon, so that tests are short.
QUICK = {
    "INGOT_HOST": "fleet",
    "INGOT_LOG_FORMAT": "json",
    "INGOT_CONDUCTOR_HEARTBEAT_INTERVAL": "0.3",
    "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "2",
    "INGOT_CONDUCTOR_LEASE_TTL": "1",
    "INGOT_CONDUCTOR_RECONCILE_INTERVAL": "0.3",
    "INGOT_CONDUCTOR_RESEND_AFTER": "1",
    "INGOT_CONDUCTOR_GRACEFUL_SHUTDOWN_TIMEOUT": "5",
    **LOOPBACK,
}
#: The defaults, for tests without deaths: on a busy machine, a slow conductor is not declared dead.
CALM = {
    "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "15",
    "INGOT_CONDUCTOR_LEASE_TTL": "10",
    "INGOT_CONDUCTOR_RECONCILE_INTERVAL": "2",
    "INGOT_CONDUCTOR_RESEND_AFTER": "5",
}
#: Simulated machines have no certificates, and are polled often.
AGENTS = {
    "INGOT_AGENT_REQUIRE_TLS": "false",
    "INGOT_AGENT_POLL_INTERVAL": "0.2",
    "INGOT_AGENT_POST_DEPLOY_GET_POWER_STATE_RETRY_INTERVAL": "0.2",
}


def until(condition, event="it", seconds=PATIENCE, between=0.05):
    """Wait until `condition()` is true, and return its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{event} did not happen in {seconds:g} s"
        time.sleep(between)
    return value


class Fleet:
    """
    One `ingot up`: ready when entered, with all its processes ended at the exit.

    The conductors are called fleet-1, fleet-2, ... `environ` are settings on top of `QUICK`.
    forked: from the fork server; else by a new interpreter, as an operator starts it.
    """

    def __init__(
        self, folder, *options, conductors=2, restart=False, ready=True, forked=True, **environ
    ):
        self.folder, self._ready = Path(folder), ready
        self.data, self.pidfile = self.folder / "data", self.folder / "up.pid"
        self._log = self.folder / f"log-{time.monotonic_ns()}"
        self._mark = f"{self._log}"
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.headers["X-OpenStack-Ironic-API-Version"] = "1.96"
        # a free port that the service chose could be taken by another process before it listens
        port, files = free_ports(2)
        self._words = [
            "up", "--port", str(port), "--data-dir", str(self.data), "--pidfile", str(self.pidfile),
            "--conductors", str(conductors), *([] if restart else ["--no-restart"]), *options,
        ]  # fmt: skip
        # SPT_NOENV: titles of processes leave the environment, by which `running` finds them
        variables = {
            "INGOT_DEPLOY_HTTP_PORT": str(files),
            "FLEET_MARK": self._mark,
            "SPT_NOENV": "1",
        }
        self.environ = {**os.environ, **QUICK, **variables, **environ}
        self.environ.pop("INGOT_CONFIG", None)
        # an interpreter reads its own variables only when it starts
        self._forked = forked and not any(name.startswith("PYTHON") for name in environ)

    def __enter__(self):
        self._other_processes = processes.inside(self.data)
        with self._log.open("w") as log:
            self.process = self._start(log)
        if self._ready:
            line = self.process.stdout.readline()
            if not line.startswith("ready "):
                self._end()
                raise AssertionError(f"not ready: {line!r}\n{self.text()[-4000:]}")
            self.url = line.split()[1]
        return self

    def _start(self, log):
        if self._forked:
            return programs.start(
                "workers.cli:main", argv=self._words, environ=self.environ,
                stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-m", "workers.cli", *self._words],
            cwd=ROOT, env=self.environ, text=True, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE)
        pids = self.running()
        self._end()
        if kind is None:
            assert set() == pids, "processes of the fleet are still running"
        else:
            print(f"--- end of {self._log}\n{self.text()[-6000:]}")

    def _end(self):
        for pid in {self.process.pid, *self.running()}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.http.close()

    # processes

    def pids(self):
        return json.loads(self.pidfile.read_text())

    def conductor(self, number):
        """The pid of conductor `number`."""
        return self.pids()["conductors"][f"fleet-{number}"]

    def running(self):
        """Pids of the living processes that the fleet or its descendants have started."""
        # a forked process has its parent's environment in /proc, Redis overwrites its own
        pids = processes.marked(f"FLEET_MARK={self._mark}") | processes.logging_to(self._log)
        pids |= processes.inside(self.data) - self._other_processes
        return {pid for pid in pids if processes.alive(pid)}

    def stopped(self, pid):
        """Whether a process was stopped by SIGSTOP."""
        return processes.state(pid) == "T"

    def log(self, event):
        """Log entries of an event."""
        lines = []
        for line in self.text().splitlines():
            with suppress(ValueError):
                lines.append(json.loads(line))
        return [entry for entry in lines if isinstance(entry, dict) and entry.get("event") == event]

    def text(self):
        """The whole log."""
        return self._log.read_text()

    def redis(self):
        """A client of the fleet's Redis."""
        return redis.Redis(unix_socket_path=str(self.data / "redis.sock"), socket_timeout=5)

    # requests

    def get(self, path, **query):
        answer = self.http.get(f"{self.url}/v1/{path}", params=query, timeout=30)
        assert 200 == answer.status_code, answer.text
        return answer.json()

    def create_nodes(self, count, **fields):
        """
        Enrol nodes; return their UUIDs.

        The UUIDs are the same each time, so that each node always belongs to the same conductor.
        """
        nodes = [str(uuid.uuid5(uuid.NAMESPACE_OID, f"node {i}")) for i in range(count)]
        for node in nodes:
            self._create("nodes", {"uuid": node, "driver": "fake-hardware", **fields})
        return nodes

    def enrol(self, simulator, *, ramdisk=False, **fields):
        """
        Enrol a node for each simulated machine, with an image to deploy; return their UUIDs.

        ramdisk: the service builds the medium that boots the agent.
        """
        image = {"ipa-api-url": "an-image"}
        instance_info = {
            "image_source": simulator.medium("an-image"),
            "image_checksum": hashlib.sha256(media.medium(image)).hexdigest(),
        }
        for machine in simulator.machines:
            medium, callback = simulator.medium(self.url), f"{self.url}/v1/continue_inspection"
            boot_media = {
                "deploy_iso": medium,
                "inspect_iso": f"{medium}&ipa-inspection-callback-url={callback}",
            }
            driver_info = machine.driver_info() | (simulator.ramdisk() if ramdisk else boot_media)
            node = {"uuid": machine.uuid, "driver": "redfish", "driver_info": driver_info}
            self._create("nodes", node | {"instance_info": instance_info, **fields})
            for mac in machine.macs:
                self._create("ports", {"node_uuid": machine.uuid, "address": mac})
        return [machine.uuid for machine in simulator.machines]

    def _create(self, collection, body):
        answer = self.http.post(f"{self.url}/v1/{collection}", json=body, timeout=30)
        assert 201 == answer.status_code, answer.text

    def request(self, node, verb):
        """Request a verb; return the response."""
        path = f"{self.url}/v1/nodes/{node}/states/provision"
        return self.http.put(path, json={"target": verb}, timeout=30)

    def provision(self, nodes, verb):
        """Request a verb for each node; all must be accepted."""
        for node in nodes:
            answer = self.request(node, verb)
            assert 202 == answer.status_code, answer.text

    def states(self, *other_fields):
        """Return node -> provision state, or a tuple of it and other fields."""
        fields = ("provision_state", *other_fields)
        nodes = self.get("nodes", fields=",".join(("uuid", *fields)), limit=1000)["nodes"]
        return {
            node["uuid"]: tuple(node[name] for name in fields) if other_fields else node[fields[0]]
            for node in nodes
        }

    def await_state(self, nodes, state, seconds=PATIENCE):
        """Wait until all nodes are in a state; on a timeout, report the operation of a stuck node."""
        end = time.monotonic() + seconds
        while True:
            now = self.states()
            counts = Counter(now[node] for node in nodes)
            if counts == {state: len(nodes)}:
                return
            if time.monotonic() > end:
                stuck = next(node for node in nodes if now[node] != state)
                operation = json.dumps(self.operations(stuck)[:1], indent=1)
                raise AssertionError(
                    f"expected {state!r}, got {dict(counts)}; {stuck}: {operation}"
                )
            time.sleep(0.05)

    def newest_event(self):
        """The number of the newest change event."""
        return self.get("events", limit=1)["last"]

    def await_entry(self, state, since):
        """Wait until a node has entered a state after event `since`; it may have left it again."""
        page = {"last": since}

        def entered():
            page.update(self.get("events", after=page["last"], type="node.provision_state"))
            return state in {event["after"] for event in page["events"]}

        until(entered, f"an entry into {state!r}")

    def change_events(self):
        """All change events, page after page."""
        events, position = [], 0
        while True:
            page = self.get("events", after=position)
            events += page["events"]
            if page["last"] == position:
                return events
            position = page["last"]

    def operations(self, node):
        """The operations of a node, the newest first, with their steps."""
        operations = self.get(f"nodes/{node}/operations")["operations"]
        return [self.get(f"operations/{operation['uuid']}") for operation in operations]

    def operation(self, node, kind):
        """The newest operation of a kind, with its steps."""
        operations = self.get(f"nodes/{node}/operations")["operations"]
        newest = next(operation for operation in operations if operation["kind"] == kind)
        return self.get(f"operations/{newest['uuid']}")
