"""The service of compose.yaml in containers, and its clients on this host."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from contextlib import suppress

import requests
import yaml

from drivers.simulator import media
from tests.containers import images
from tests.containers.engine import Failed
from tests.support.fleet import ROOT
from tests.support.ports import free_port

#: Network of the containers: the first addresses are those of simulated machines.
NETWORK = "10.90"
IPAM = {
    "subnet": f"{NETWORK}.0.0/16", "gateway": f"{NETWORK}.255.254", "ip_range": f"{NETWORK}.128.0/24",
}  # fmt: skip
#: Settings for simulated machines, whose agents have no certificates.
SETTINGS = {
    "INGOT_AGENT_REQUIRE_TLS": "false",
    "INGOT_DEPLOY_HTTP_URL": "http://files:6386",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "0",
    "INGOT_AGENT_POST_DEPLOY_GET_POWER_STATE_RETRY_INTERVAL": "1",
}
OURS = ("api", "files", "conductor", "beat")
#: Seconds for anything to happen: a busy host is slow.
PATIENCE = float(os.environ.get("PATIENCE", "600"))


def until(condition, what, seconds=PATIENCE):
    """Wait for a condition, and return its value. Raises Failed."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise Failed(f"not within {seconds:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.3)
    return value


class Site:
    """
    A copy of compose/ with settings of its own, run by podman-compose.

    tools: folder with the programs of podman-compose.
    """

    def __init__(self, engine, tools, say):
        self.engine, self.say = engine, say
        self.folder = engine.folder / "compose"
        self.program = tools / "podman-compose"
        self.port, files = free_port(), free_port()
        shutil.copytree(
            ROOT / "compose", self.folder, ignore=shutil.ignore_patterns("secrets", ".env")
        )
        text = (ROOT / "compose/.env.example").read_text()
        settings = (
            dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
            | SETTINGS
            | {
                "API_PORT": str(self.port),
                "INGOT_API_PUBLIC_ENDPOINT": f"http://127.0.0.1:{self.port}",
                "INGOT_DEPLOY_EXTERNAL_CALLBACK_URL": "http://api:6385",
            }
        )
        (self.folder / ".env").write_text(
            "".join(f"{name}={value}\n" for name, value in settings.items())
        )
        # this network, and a port of this host that is free
        text = (self.folder / "compose.yaml").read_text()
        text = text.replace(":6386:6386", f":{files}:6386")
        (self.folder / "compose.yaml").write_text(text)
        network = {"networks": {"default": {"ipam": {"config": [IPAM]}}}}
        (self.folder / "network.yaml").write_text(yaml.safe_dump(network))
        self.make_secrets()
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        self.control, self.machines = "", []

    def make_secrets(self):
        subprocess.run([self.folder / "secrets.sh"], check=True, timeout=60)

    def use_image(self, name):
        """Let compose.yaml name another image of ours."""
        path = self.folder / "compose.yaml"
        path.write_text(re.sub(r"image: ingot:\S+", f"image: {name}", path.read_text()))

    def compose(self, *words, **how):
        # podman-compose needs Podman's path only
        return self.engine.run(
            "--file", self.folder / "compose.yaml", "--file", self.folder / "network.yaml", *words,
            program=str(self.program), cwd=self.folder, **how,
        )  # fmt: skip

    def start(self, *services, conductors=1):
        """Start services, by default all; podman-compose takes one --scale, for which it forgets others."""
        self.compose("up", "--detach", "--no-build", *services)
        if conductors > 1:
            options = ("--detach", "--no-build", "--no-deps", "--scale", f"conductor={conductors}")
            self.compose("up", *options, "conductor")

    def of(self, service):
        """Names of the running containers of a service."""
        return sorted(self.engine.containers(f"label=io.podman.compose.service={service}"))

    def await_health(self, **counts):
        """Wait until so many containers of each service are healthy."""
        for service, count in counts.items():
            until(
                lambda service=service, count=count: (
                    count
                    == len(self.of(service))
                    == sum(map(self.engine.is_healthy, self.of(service)))
                ),
                lambda service=service: f"{service} is healthy\n{self.logs(service)[-3000:]}",
            )
            self.say(f"  healthy: {service}, {count} of {count}")

    def logs(self, service):
        names = self.engine.run(
            "ps", "--all", "--filter", f"label=io.podman.compose.service={service}",
            "--format", "{{.Names}}", quiet=True,
        ).split()  # fmt: skip
        text = ""
        for name in names:
            done = self.engine.run("logs", name, check=False, quiet=True)
            text += done.stdout + done.stderr
        return text

    def command(self, *words):
        """Run a command of `ingot` as the owner of the tables."""
        return self.compose("run", "--rm", "-T", "--no-deps", "migrate", *words)

    # clients

    def sign_in(self):
        """Create an administrator as docs/operations.md says, and use a token of it."""
        if "X-Auth-Token" not in self.http.headers:
            self.command("user", "create", "ann", "--no-password")
            self.command("role", "grant", "admin", "--user", "ann", "--system")
            output = self.command("token", "create", "ann", "--system", "-o", "json")
            self.http.headers["X-Auth-Token"] = json.loads(output[output.index("{") :])["token"]

    def request(self, method, path, **body):
        end = time.monotonic() + PATIENCE
        while True:
            with suppress(requests.ConnectionError):
                answer = self.http.request(
                    method, f"http://127.0.0.1:{self.port}/v1/{path}", json=body or None, timeout=60
                )
                if answer.status_code < 500 or time.monotonic() > end:
                    break
            if time.monotonic() > end:
                raise Failed(f"{method} {path}: no answer")
            time.sleep(0.5)
        if not answer.ok:
            raise Failed(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json() if answer.content else None

    def conductors(self):
        return {
            row["hostname"]
            for row in self.request("GET", "conductors")["conductors"]
            if row["alive"]
        }

    def await_conductors(self, count):
        until(lambda: len(self.conductors()) == count, f"{count} conductors")

    # machines

    def start_machines(self, count):
        """Start simulated machines in a container of the same image, at addresses of the network."""
        addresses = [f"{NETWORK}.0.1", *(f"{NETWORK}.1.{number}" for number in range(1, count + 1))]
        simulator = (
            f"python -m drivers.simulator --machines {count} --port 21000 --network {NETWORK}"
        )
        self.engine.run(
            "run", "--detach", "--name", "machines", "--network", "ingot_default",
            "--entrypoint", "sh", images.LIBRARY + images.OURS,
            "-c", f"until [ -e /tmp/go ]; do sleep 0.1; done; exec {simulator} --set boot_seconds=1",
        )  # fmt: skip
        pid = self.engine.run(
            "inspect", "--format", "{{.State.Pid}}", "machines", quiet=True
        ).strip()
        for address in addresses:
            subprocess.run(
                ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "address", "add", f"{address}/16", "dev", "eth0"],
                check=True, timeout=60,
            )  # fmt: skip
        self.engine.run("exec", "machines", "touch", "/tmp/go", quiet=True)
        line = until(lambda: self.logs_of("machines"), "simulated machines")
        described = json.loads(line.splitlines()[0])
        self.control, self.machines = described["url"], described["machines"]

    def logs_of(self, container):
        done = self.engine.run("logs", container, check=False, quiet=True)
        if done.returncode or "Traceback" in done.stderr:
            raise Failed(done.stderr)
        return done.stdout

    def enrol(self):
        """Enrol a node for each machine; return their UUIDs."""
        medium = f"{self.control}/agent.iso?api=http://api:6385"
        for machine in self.machines:
            self.request(
                "POST", "nodes", uuid=machine["uuid"], driver="redfish",
                driver_info={
                    "redfish_address": machine["redfish_address"],
                    "redfish_system_id": machine["system_id"], "redfish_username": "admin",
                    "redfish_password": "admin", "redfish_verify_ca": False, "deploy_iso": medium,
                },
                instance_info={
                    "image_source": f"{self.control}/agent.iso?api=an-image",
                    "image_checksum": hashlib.sha256(media.medium({"ipa-api-url": "an-image"})).hexdigest(),
                },
            )  # fmt: skip
            for mac in machine["macs"]:
                self.request("POST", "ports", node_uuid=machine["uuid"], address=mac)
        return [machine["uuid"] for machine in self.machines]

    def node(self, uuid):
        return self.request("GET", f"nodes/{uuid}")

    def provision(self, nodes, verb):
        for uuid in nodes:
            self.request("PUT", f"nodes/{uuid}/states/provision", target=verb)

    def await_state(self, nodes, state):
        def describe():
            rows = [self.node(uuid) for uuid in nodes]
            states = [(row["provision_state"], row["last_error"]) for row in rows]
            return f"{state}: {states}\n{self.logs('conductor')[-3000:]}"

        def arrived():
            rows = [self.node(uuid) for uuid in nodes]
            return all(row["provision_state"] == state and not row["reservation"] for row in rows)

        until(arrived, describe)
        self.say(f"  {len(nodes)} nodes are {state}")


def kill(engine, container):
    """Kill the first process of a container, as a crash would; its restart policy applies."""
    pid = int(engine.run("inspect", "--format", "{{.State.Pid}}", container, quiet=True))
    os.kill(pid, 9)
