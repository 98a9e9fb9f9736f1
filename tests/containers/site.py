"""A host with the service of compose.yaml, as an operator installs it, and its clients."""

import hashlib
import json
import os
import re
import subprocess
import time
from contextlib import suppress

import requests

from drivers.simulator import media
from tests.containers import page
from tests.containers.podman import Failed, NotPossible
from tests.support.fleet import ROOT
from tests.support.ports import free_port

#: First half of all addresses: the simulator gives its machines addresses below it.
NETWORK = "10.90"
#: compose.override.yaml: a network with those addresses, and a port of this host that is free.
OVERRIDE = """\
services:
  files:
    ports: !override ["127.0.0.1:{files}:6386"]
networks:
  default:
    ipam:
      config:
        - subnet: {network}.0.0/16
          gateway: {network}.255.254
          ip_range: {network}.128.0/24
"""
#: Settings for simulated machines, whose agents have no certificates.
SETTINGS = {
    "INGOT_AGENT_REQUIRE_TLS": "false",
    "INGOT_AGENT_POST_DEPLOY_GET_POWER_STATE_RETRY_INTERVAL": "1",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "0",
    "INGOT_DEPLOY_EXTERNAL_CALLBACK_URL": "http://api:6385",
    "INGOT_DEPLOY_HTTP_URL": "http://files:6386",
}
PASSWORD = "a password of ann"
ROLES = ("api", "files", "conductor", "beat")
SERVERS = ("postgres", "redis")
#: Texts that no log may contain: refusals of PostgreSQL and Redis, and unexpected exceptions.
REFUSALS = ("permission denied", "NOPERM", "Traceback")
#: Commands that remove containers, with their logs.
REMOVING = re.compile(r"compose (down|up .*--force-recreate)")
#: Seconds for anything to happen: a busy host is slow.
PATIENCE = float(os.environ.get("PATIENCE", "600"))


def until(condition, trouble, seconds=PATIENCE):
    """Wait for a condition, and return its value. Raises Failed with `trouble()`."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise Failed(f"not within {seconds:.0f} s: {trouble()}")
        time.sleep(1)
    return value


class Site:
    """A clone of the tree in a folder, with compose.override.yaml and .env of this site."""

    def __init__(self, podman):
        self.podman = podman
        self.tree = podman.folder / "tree"
        self.folder = self.tree / "compose"
        self.port, self.control, self.machines = free_port(), "", []
        self.passwords = {PASSWORD}
        #: Whether follow() checks the logs of containers before it removes them.
        self.checks_logs = False
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        _git("clone", "--quiet", "--shared", "--no-checkout", ROOT, self.tree)

    # the operator

    def check_out(self, commit, *paths):
        """Check a release out, or some of its files; files that are not of the tree stay."""
        which = ("--", *paths) if paths else ()
        _git("-C", self.tree, "checkout", "--quiet", "--force", commit, *which)

    def follow(self, section, *, answer=None):
        """Run the commands of a section of docs/containers.md. answer: for questions on their terminal."""
        for line in page.sections()[section]:
            # again and again, as a program discards what was typed before it asks
            command = f"while sleep 1; do echo '{answer}'; done | {{ {line}\n}}" if answer else line
            self.podman.say(f"  $ {line}")
            if self.checks_logs and REMOVING.search(line):
                self.check_logs()
            self.podman.shell(command, self.folder)
            self.passwords |= {
                path.read_text().strip() for path in self.folder.glob("secrets/*password*")
            }

    def check_logs(self):
        """Check the logs: no role was refused by PostgreSQL or Redis, no exception, no password, also no old one."""
        for service in (*ROLES, *SERVERS):
            log = self.podman.logs(service).splitlines()
            lines = [
                line for line in log if any(text in line for text in (*REFUSALS, *self.passwords))
            ]
            if lines:
                raise Failed(f"log of {service}: {lines[:3]}")

    def configure(self):
        """Edit .env, and write compose.override.yaml."""
        (self.folder / "compose.override.yaml").write_text(
            OVERRIDE.format(network=NETWORK, files=free_port())
        )
        self.set(
            API_PORT=self.port,
            INGOT_API_PUBLIC_ENDPOINT=f"http://127.0.0.1:{self.port}",
            **SETTINGS,
        )

    def set(self, **values):
        """Set variables in .env."""
        path = self.folder / ".env"
        lines = [
            line for line in path.read_text().splitlines() if line.partition("=")[0] not in values
        ]
        path.write_text(
            "\n".join(lines + [f"{name}={value}" for name, value in values.items()]) + "\n"
        )

    def await_health(self, **counts):
        """Wait until so many containers of each service run, all healthy."""
        for service, count in counts.items():

            def healthy(service=service, count=count):
                containers = self.podman.running(service)
                return len(containers) == count and all(map(self.podman.is_healthy, containers))

            until(
                healthy, lambda service=service: f"{service}\n{self.podman.logs(service)[-3000:]}"
            )
        self.podman.say(
            "  healthy: " + ", ".join(f"{count} {name}" for name, count in counts.items())
        )

    def query(self, statement):
        """Ask PostgreSQL as the owner of the tables; return its answer."""
        (server,) = self.podman.running("postgres")
        words = ("psql", "--username", "ingot", "--dbname", "ingot", "--tuples-only", "--command")
        return self.podman.run("exec", server, *words, statement).strip()

    # clients of the API

    def sign_in(self):
        """Use a token of the page's first user, whose password is accepted."""
        address = f"http://127.0.0.1:{self.port}/v1/nodes"
        answer = requests.get(address, auth=("ann", PASSWORD), timeout=60)
        assert answer.ok, answer.text
        line = "docker compose run --rm -T --no-deps migrate token create ann --system -o json"
        self.podman.say(f"  $ {line}")
        output = self.podman.shell(line, self.folder)
        self.http.headers["X-Auth-Token"] = json.loads(output[output.index("{") :])["token"]

    def request(self, method, path, body=None):
        """Send a request, again while the API does not answer or is busy; return the answer's JSON."""
        end = time.monotonic() + PATIENCE
        url = f"http://127.0.0.1:{self.port}/v1/{path}"
        answer = None
        while time.monotonic() < end:
            with suppress(requests.ConnectionError):
                answer = self.http.request(method, url, json=body, timeout=60)
                if answer.status_code < 500:
                    break
            time.sleep(0.5)
        if answer is None:
            raise Failed(f"{method} {path}: the API does not answer")
        if not answer.ok:
            raise Failed(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json() if answer.content else None

    def conductors(self):
        rows = self.request("GET", "conductors")["conductors"]
        return {row["hostname"] for row in rows if row["alive"]}

    def await_conductors(self, count):
        until(lambda: len(self.conductors()) == count, self.conductors)

    # machines

    def start_machines(self, count):
        """Start simulated machines in a container of the API's image, at addresses of the network."""
        image = self.podman.fact(self.podman.running("api")[0], "{{.ImageName}}")
        simulator = (
            f"python -m drivers.simulator --machines {count} --port 21000 --network {NETWORK}"
        )
        self.podman.run(
            "run", "--detach", "--name", "machines", "--network", "ingot_default", "--entrypoint", "sh", image,
            "-c", f"until [ -e /tmp/addresses ]; do sleep 0.1; done; exec {simulator} --set boot_seconds=1",
        )  # fmt: skip
        pid = self.podman.process("machines")
        for address in (
            f"{NETWORK}.0.1",
            *(f"{NETWORK}.1.{number}" for number in range(1, count + 1)),
        ):
            subprocess.run(
                ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "address", "add", f"{address}/16", "dev", "eth0"],
                check=True, timeout=60,
            )  # fmt: skip
        self.podman.run("exec", "machines", "touch", "/tmp/addresses")
        line = until(
            lambda: self.podman.run("logs", "machines"),
            lambda: self.podman.fact("machines", "{{json .State}}"),
        )
        simulation = json.loads(line.splitlines()[0])
        self.control, self.machines = simulation["url"], simulation["machines"]

    def enrol(self):
        """Enrol a node for each machine."""
        for machine in self.machines:
            node = {
                "uuid": machine["uuid"],
                "driver": "redfish",
                "driver_info": {
                    "redfish_address": machine["redfish_address"],
                    "redfish_system_id": machine["system_id"],
                    "redfish_username": "admin",
                    "redfish_password": "admin",
                    "redfish_verify_ca": False,
                    "deploy_iso": f"{self.control}/agent.iso?api=http://api:6385",
                },
            }
            self.request("POST", "nodes", node)
            for mac in machine["macs"]:
                self.request("POST", "ports", {"node_uuid": machine["uuid"], "address": mac})

    def uuids(self):
        return [machine["uuid"] for machine in self.machines]

    def nodes(self):
        return [self.request("GET", f"nodes/{uuid}") for uuid in self.uuids()]

    def reservation(self, uuid):
        """Return the host name of the conductor that has reserved a node; None if there is none."""
        return self.request("GET", f"nodes/{uuid}")["reservation"]

    def order(self, verb):
        """Request a verb for all nodes; deployments of an image, which tear-downs forget."""
        image = {
            "image_source": f"{self.control}/agent.iso?api=an-image",
            "image_checksum": hashlib.sha256(media.medium({"ipa-api-url": "an-image"})).hexdigest(),
        }
        change = [{"op": "add", "path": "/instance_info", "value": image}]
        for machine in self.machines:
            path = f"nodes/{machine['uuid']}"
            if verb == "active":
                self.request("PATCH", path, change)
            self.request("PUT", f"{path}/states/provision", {"target": verb})

    def await_state(self, state):
        def arrived():
            return all(
                node["provision_state"] == state and not node["reservation"]
                for node in self.nodes()
            )

        def describe():
            states = [(node["provision_state"], node["last_error"]) for node in self.nodes()]
            return f"{state}: {states}\n{self.podman.logs('conductor')[-3000:]}"

        until(arrived, describe)
        self.podman.say(f"  {len(self.machines)} nodes are {state}")


def releases():
    """
    Return the commits of this tree, with its changes, and of its last state with an older schema.

    Raises NotPossible without the history.
    """
    tree = _git("stash", "create") or _git("rev-parse", "HEAD")
    changes = _git("rev-list", "--first-parent", "HEAD", "--", "migrations/versions").split()
    with suppress(subprocess.CalledProcessError):  # the first commit of a shallow clone
        for change in changes:
            former = _git("rev-parse", f"{change}^1")
            # migrations that have changed since were in no release: those of merged branches
            changed = ("diff", "--name-only", "--diff-filter=MD", former, tree)
            if not _git(*changed, "--", "migrations/versions"):
                return tree, former
    raise NotPossible("it upgrades from the last state with an older schema: fetch the history")


def _git(*words):
    process = subprocess.run(
        ["git", "-C", ROOT, *words], check=True, capture_output=True, text=True, timeout=300
    )
    return process.stdout.strip()
