"""Deployments of images of a real Glance to simulated machines, and what ends them before a machine boots."""

import hashlib
import random
from itertools import count

import pytest

from drivers.simulator.simulator import running
from tests.e2e import real_glance
from tests.e2e.real_glance import OWNER
from tests.support.fleet import AGENTS, CALM, Fleet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PACE = {"boot_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}


def disk(size=300_000):
    """A disk without partitions, each time another one."""
    return bytes(512) + random.randbytes(size - 512)


class Site:
    """Machines of a fleet, each available; `glance` has their images."""

    def __init__(self, fleet, simulator, glance, nodes):
        self.fleet, self.glance = fleet, glance
        self._machines = dict(zip(nodes, simulator.machines, strict=True))
        self._numbers = count()

    def take(self, **fields):
        """Return an available node that no other test has, and its machine."""
        node, machine = list(self._machines.items())[next(self._numbers)]
        self.change(node, **fields)
        return node, machine

    def change(self, node, **fields):
        patch = [
            {"op": "add", "path": f"/{name}", "value": value} for name, value in fields.items()
        ]
        answer = self.fleet.http.patch(f"{self.fleet.url}/v1/nodes/{node}", json=patch, timeout=30)
        assert answer.ok, answer.text

    def deploy(self, node, image):
        self.change(node, instance_info={"image_source": image})
        self.fleet.provision([node], "active")

    def failure(self, node, image):
        """Deploy an image that must not be; return the error of the node."""
        self.deploy(node, image)
        self.fleet.await_state([node], "deploy failed")
        return self.fleet.get(f"nodes/{node}")["last_error"]


def boots_of(machine):
    return [line["what"] for line in machine.log if "boots the agent" in line["what"]]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glance")
    with (
        real_glance.serving(folder / "glance") as glance,
        running(machines=12, **PACE) as simulator,
        Fleet(folder, conductors=2, **AGENTS, **CALM, **glance.settings) as fleet,
    ):
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        nodes = fleet.enrol(simulator)
        for verb, state in (("manage", "manageable"), ("provide", "available")):
            fleet.provision(nodes, verb)
            fleet.await_state(nodes, state)
        yield Site(fleet, simulator, glance, nodes)


@pytest.mark.parametrize("size", [300_000, 5_000], ids=["large", "small"])
@pytest.mark.parametrize("form", ["{}", "glance://{}"])
def test_an_image_of_glance_is_deployed(site, form, size):
    content = disk(size)
    node, machine = site.take()
    site.deploy(node, form.format(site.glance.add(content)))
    site.fleet.await_state([node], "active")
    assert hashlib.sha256(content).hexdigest() == machine.disk.sha256
    assert [] == list((site.fleet.data / "httpboot").glob(f"nodes/{node}/*/*"))


def test_an_image_that_is_deleted_during_the_deployment_is_still_written(site):
    content, (node, machine) = disk(), site.take()
    image = site.glance.add(content)
    since = site.fleet.newest_event()
    site.deploy(node, image)
    site.fleet.await_entry("wait call-back", since)
    site.glance.ask("DELETE", f"/{image}")
    site.fleet.await_state([node], "active")
    assert hashlib.sha256(content).hexdigest() == machine.disk.sha256
    site.fleet.provision([node], "rebuild")  # asks for the image again, and finds none
    site.fleet.await_state([node], "deploy failed")
    assert "404 Not Found" in site.fleet.get(f"nodes/{node}")["last_error"]


def test_images_that_are_no_longer_there_or_not_usable_boot_no_machine(site):
    node, machine = site.take()
    boots, image = boots_of(machine), site.glance.create(visibility="public")
    assert "is 'queued' in Glance, not active" in site.failure(node, image)
    site.glance.put(image, disk())
    site.glance.ask("POST", f"/{image}/actions/deactivate")
    assert "is 'deactivated' in Glance, not active" in site.failure(node, image)
    site.glance.ask("DELETE", f"/{image}")
    assert "404 Not Found" in site.failure(node, image)
    assert boots == boots_of(machine)
    content = disk()
    site.deploy(node, site.glance.add(content))  # and the node is as good as before
    site.fleet.await_state([node], "active")
    assert hashlib.sha256(content).hexdigest() == machine.disk.sha256


def test_a_private_image_is_for_the_project_with_which_it_is_shared(site):
    node, _ = site.take(owner="tenant")
    image = site.glance.add(disk(), OWNER, visibility="shared")
    assert "404 Not Found" in site.failure(node, image)  # the service itself may not read it
    site.glance.ask("POST", f"/{image}/members", OWNER, json={"member": "service"})
    site.deploy(node, image)
    site.fleet.await_state([node], "active")
    stranger, _ = site.take(owner="stranger")
    assert "neither public nor of the project" in site.failure(stranger, image)


def test_a_policy_that_refuses_the_content_is_told(site):
    node, _ = site.take()
    image = site.glance.add(disk())
    site.glance.let_download("role:admin")
    try:
        assert "the credentials of [glance] may not read it" in site.failure(node, image)
    finally:
        site.glance.let_download("role:reader")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("changed", "does not have the sha512"),
        ("cut", "broke off"),
        ("gone", "Glance has no data of image"),
    ],
)
def test_content_that_glance_has_lost_is_never_written(site, damage, words):
    node, machine = site.take()
    image = site.glance.add(disk())
    path = site.glance.stored(image)
    content = path.read_bytes()
    if damage == "changed":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "cut":
        path.write_bytes(content[:-5_000])
    else:
        path.unlink()
    assert words in site.failure(node, image)
    assert machine.disk is None
