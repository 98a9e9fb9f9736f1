"""The commands of the documentation, typed at a terminal in the order of their pages."""

import hashlib
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from drivers.simulator import media
from drivers.simulator.simulator import running
from tests.e2e import documented_pages
from tests.e2e.command_line import environment
from tests.e2e.documented_pages import DEFAULT_URL, PAGES, set_state
from tests.support import command_blocks
from tests.support.command_blocks import resembles
from tests.support.fleet import AGENTS, ROOT, Fleet, until
from tests.support.reader import Reader

BIN = Path(sys.executable).parent
#: The plug-in of `openstack` has the commands of `baremetal`, and the latter is installed here.
OPENSTACK = '#!/bin/sh\nshift\nexec baremetal "$@"\n'
PACE = {"boot_seconds": 0.2, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.05}
SETTINGS = {
    "INGOT_ESP_IMAGE": str(ROOT / "LICENSE"),  # no firmware reads it
    "INGOT_DEFAULT_RAID_INTERFACE": "agent",
    "INGOT_CONDUCTOR_CHECK_BASELINES_INTERVAL": "1",
}
MACHINES = 9


class Site:
    """A service, simulated machines, and the folder that a reader works in."""

    def __init__(self, folder, service=None, simulator=None, machines=()):
        self.folder, self.service, self.simulator = folder, service, simulator
        self._machines = machines
        self.until_the_end = ExitStack()
        self.spare, self.image = None, None
        if simulator:
            self.image = {
                "image_source": simulator.medium("an-image"),
                "image_checksum": hashlib.sha256(
                    media.medium({"ipa-api-url": "an-image"})
                ).hexdigest(),
            }

    @property
    def environ(self):
        url = self.service.url if self.service else ""
        return environment(
            url, OS_ENDPOINT=url, OS_AUTH_TYPE="none", HOME=str(self.folder), NO_COLOR="1",
            PATH=f"{self.folder / 'bin'}:{BIN}:{os.environ['PATH']}", PYTHONPATH=str(ROOT),
        )  # fmt: skip

    def create(self, collection, **body):
        self.service._create(collection, body)

    def put(self, path, **body):
        answer = self.service.http.put(f"{self.service.url}/v1/{path}", json=body, timeout=30)
        assert answer.ok, answer.text

    def node(self, name, state="enroll", maintenance=False, **fields):
        """Enrol a node of fake hardware in a state."""
        self.create("nodes", name=name, driver="fake-hardware", **fields)
        set_state(self.service.data / "ingot.db", name, state)
        if maintenance:
            self.put(f"nodes/{name}/maintenance")

    def spare_machine(self):
        """Choose a simulated machine that no node has."""
        self.spare = next(self._machines)

    def machine(self, name, state):
        """Enrol a simulated machine, and take it to a state."""
        self.spare_machine()
        driver_info = self.spare.driver_info() | self.simulator.ramdisk()
        self.create(
            "nodes", name=name, driver="redfish", driver_info=driver_info, instance_info=self.image
        )
        node = self.service.get(f"nodes/{name}")["uuid"]
        for mac in self.spare.macs:
            self.create("ports", node_uuid=node, address=mac)
        for verb, reached in (("manage", "manageable"), ("provide", "available"), ("active",) * 2):
            if self.service.get(f"nodes/{name}")["provision_state"] == state:
                return
            self.provision(name, verb, reached)

    def provision(self, name, verb, state, **arguments):
        self.put(f"nodes/{name}/states/provision", target=verb, **arguments)
        until(lambda: self.service.get(f"nodes/{name}")["target_provision_state"] is None, verb)
        assert state == self.service.get(f"nodes/{name}")["provision_state"]

    def clean(self, name, *steps):
        self.provision(name, "clean", "manageable", clean_steps=list(steps))

    def run(self, script):
        subprocess.run(["bash", "-ec", script], cwd=self.folder, env=self.environ, check=True)

    def write_json(self, name, document):
        (self.folder / name).write_text(json.dumps(document))

    def forget(self):
        """Delete the nodes of a page."""
        http = self.service.http
        for node in self.service.states():
            path = f"{self.service.url}/v1/nodes/{node}"
            http.put(f"{path}/maintenance")
            http.delete(path)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with (
        running(machines=MACHINES, **PACE) as simulator,
        Fleet(tmp_path_factory.mktemp("service"), conductors=2, **AGENTS, **SETTINGS) as fleet,
    ):
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        yield fleet, simulator, iter(simulator.machines)


@pytest.fixture
def folder(tmp_path):
    """The folder of a reader: with the commands, and a curl whose failures are failures."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "openstack").write_text(OPENSTACK)
    (tmp_path / "bin" / "openstack").chmod(0o755)
    (tmp_path / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")
    return tmp_path


@pytest.fixture
def site(request, folder):
    page = PAGES[request.param]
    if page.alone:
        site = Site(folder)
        with site.until_the_end:
            yield site
        return
    fleet, simulator, machines = request.getfixturevalue("service")
    site = Site(folder, fleet, simulator, machines)
    (folder / ".ingot").symlink_to(fleet.data)
    with site.until_the_end:
        yield site
    site.forget()


def matching(table, command):
    """Values of the rows of a table that are about a command, by the start of its text."""
    return [value for start, value in table.items() if command.text.startswith(start)]


def typed(site, page, command):
    """Return the text that the reader types here for a command."""
    replaced = {}
    if site.service:
        replaced = dict.fromkeys((DEFAULT_URL, "http://localhost:6385"), site.service.url)
    text = command.text
    for old, new in (replaced | page.replaced).items():
        text = text.replace(old, new(site) if callable(new) else new)
    return "\n".join((*matching(page.before, command), text))


def params():
    return [
        pytest.param(name, marks=[pytest.mark.slow] if page.slow else [], id=name)
        for name, page in PAGES.items()
    ]


@pytest.mark.parametrize("site", params(), indirect=True)
def test_the_commands_of_a_page_work_in_its_order(request, site):
    name = request.node.callspec.id
    page = PAGES[name]
    for file, content in command_blocks.files(name).items():
        (site.folder / file).write_text(content)
    if page.set_up:
        page.set_up(site)
    commands = documented_pages.typed(name)
    texts = [typed(site, page, command) for command in commands]
    keys = {
        number: [
            (awaited, partial(then, site) if callable(then) else then) for awaited, then in pressed
        ]
        for number, command in enumerate(commands)
        for pressed in matching(page.keys, command)
    }
    fails = [n for n, command in enumerate(commands) if command.text.startswith(page.fails)]
    answers = Reader(site.folder, site.environ | page.environ).types(texts, keys, fails)
    for number, (command, answer) in enumerate(zip(commands, answers, strict=False)):
        report = f"{command}\ntyped: {texts[number]}\n{answer.status}: {answer.text}"
        assert number in keys or (number in fails) == (answer.status != 0), report
        for line in command.output:
            assert line.startswith(page.differs) or resembles(line, answer.text), (
                f"{line}\n{report}"
            )
