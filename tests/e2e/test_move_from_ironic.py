"""
The move of a running fleet from Ironic 39 to Ingot, and back: the same client at each of them.

Ironic, its database server, the commands and the client are the real ones.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from app.lifecycle.provision_states import Kind, of_kind
from tests.compare import ironic as real_ironic
from tests.support import mariadb
from tests.support.fleet import CALM, Fleet, until
from tests.support.postgresql import NoServer
from tests.support.prerequisites import not_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

#: State -> its number of nodes.
FLEET = {"active": 20, "available": 20, "manageable": 6, "enroll": 4}
#: State -> verbs that lead to it.
WAY = {
    "enroll": (), "manageable": ("manage",), "available": ("manage", "provide"),
    "active": ("manage", "provide", "active"),
}  # fmt: skip
MOVED = 10
FIELDS = [
    "uuid",
    "name",
    "instance_uuid",
    "power_state",
    "provision_state",
    "maintenance",
    "driver",
    "driver_info",
    "properties",
    "extra",
    "traits",
    "resource_class",
    "owner",
    "lessee",
    "instance_info",
    "description",
    "protected",
]
BUSY = {str(state) for state in of_kind(Kind.BUSY)}


class Desk:
    """A caller who has one client for both services."""

    def __init__(self, url):
        self.url = url
        self._http = requests.Session()
        self._http.headers["X-OpenStack-Ironic-API-Version"] = "1.90"

    def ask(self, method, path, body=None):
        answer = self._http.request(method, f"{self.url}/v1/{path}", json=body, timeout=60)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def baremetal(self, *words):
        """Run the client, and return its answer."""
        program = Path(sys.executable).with_name("baremetal")
        environ = {"PATH": os.environ["PATH"], "OS_BAREMETAL_API_VERSION": "1.90"}
        command = [program, "--os-auth-type", "none", "--os-endpoint", self.url, *words]
        answer = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=300, check=False
        )
        assert 0 == answer.returncode, answer.stderr
        return answer.stdout

    def nodes(self):
        """Return the list of nodes with all that a move keeps, as the client shows it."""
        words = ("node", "list", "--limit", "0", "-f", "json", "--fields", *FIELDS)
        return sorted(json.loads(self.baremetal(*words)), key=lambda node: node["uuid"])

    def states(self):
        nodes = self.ask("GET", "nodes?fields=uuid,provision_state&limit=1000")["nodes"]
        return {node["uuid"]: node["provision_state"] for node in nodes}

    def request(self, nodes, verb, state):
        """Request a verb of nodes, and wait until they have its state."""
        for node in nodes:
            self.ask("PUT", f"nodes/{node}/states/provision", {"target": verb})
        until(
            lambda: not BUSY & {self.states()[node] for node in nodes},
            f"the end of {verb}",
            300,
            0.5,
        )
        assert {state} == {self.states()[node] for node in nodes}

    def in_state(self, state, count):
        return [node for node, current in sorted(self.states().items()) if current == state][:count]

    def enrol(self):
        """Enrol a fleet, with a node in each state that an operator leaves for a night."""
        for state, count in FLEET.items():
            nodes = [self._create(f"{state}-{number}") for number in range(count)]
            for verb in WAY[state]:
                self.request(nodes, verb, _target(verb))
        assert Counter(self.states().values()) == FLEET

    def _create(self, name):
        node = self.ask("POST", "nodes", {
            "name": name, "driver": "fake-hardware", "driver_info": {"fake_password": f"of {name}"},
            "properties": {"cpus": 8, "memory_mb": 16384, "local_gb": 100, "cpu_arch": "x86_64"},
            "resource_class": "gold", "extra": {"rack": name[-1]}, "description": f"node {name}",
            "instance_info": {"image_source": "http://images/debian", "capabilities": {"boot_option": "local"}},
        })["uuid"]  # fmt: skip
        self.ask("PUT", f"nodes/{node}/traits", {"traits": ["CUSTOM_GOLD"]})
        number = int(node[:6], 16)
        address = f"52:54:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
        self.ask("POST", "ports", {"node_uuid": node, "address": address})
        return node


def _target(verb):
    return {"manage": "manageable", "provide": "available", "active": "active"}[verb]


@contextmanager
def sqlite(folder):
    yield f"sqlite:///{folder}/ironic-moved.db"


@contextmanager
def maria(folder):
    try:
        mariadb.find()
    except NoServer as error:
        not_run(str(error))
    with mariadb.database(folder, "ironic") as url:
        yield url


def ingot(environ, *words):
    """Run a command of the service, and return what it prints."""
    command = [sys.executable, "-m", "workers.ingot", *words]
    answer = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert 0 == answer.returncode, answer.stdout + answer.stderr
    return answer.stdout


@pytest.mark.parametrize("kind", [sqlite, maria])
def test_a_fleet_moves_from_ironic_and_back(tmp_path, kind):
    with kind(tmp_path) as database:
        old_ironic = real_ironic.Ironic(tmp_path, database)
        old_ironic.create_schema()
        with old_ironic as ironic:
            desk = Desk(ironic.url)
            desk.enrol()
            nodes = desk.nodes()

        folder = tmp_path / "ingot"
        folder.mkdir()
        fleet = Fleet(
            folder, conductors=1, **CALM, INGOT_DATABASE_CONNECTION=f"sqlite:///{folder}/ingot.db"
        )
        environ = {**fleet.environ, "INGOT_DATA_DIR": str(fleet.data)}
        ingot(environ, "db", "upgrade")
        report = ingot(environ, "import-ironic", str(old_ironic.settings))
        assert report.endswith(f"would be imported: {sum(FLEET.values())}\n")
        imported = ingot(environ, "import-ironic", str(old_ironic.settings), "--apply")
        assert imported.endswith(f"imported: {sum(FLEET.values())}\n")
        with fleet:
            desk = Desk(fleet.url)
            assert nodes == desk.nodes()
            assert [] == fleet.get("operations")["operations"]  # no machine was touched
            returned = desk.in_state("active", MOVED)
            deployed = desk.in_state("available", MOVED)
            desk.request(returned, "deleted", "available")
            desk.request(deployed, "active", "active")
            nodes = desk.nodes()

        exported = ingot(
            environ, "export-ironic", str(old_ironic.settings), "--apply", "--overwrite", "--yes"
        )
        remainder = sum(FLEET.values()) - 2 * MOVED
        assert exported.endswith(f"updated: {2 * MOVED}\nthere already: {remainder}\n")
        with real_ironic.Ironic(tmp_path, database) as ironic:
            desk = Desk(ironic.url)
            assert nodes == desk.nodes()
            desk.request(deployed, "deleted", "available")
            desk.request(returned, "active", "active")
