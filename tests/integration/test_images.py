"""Deployments that differ by where their bytes come from: a conductor, a volume, a running agent."""

import hashlib
from pathlib import Path
from uuid import uuid4

import pytest

from app.models import VolumeTarget
from tests.integration.world import Acme, World
from tests.unit.drivers.machines import image_server, scripted_agent

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

IMAGE = b"an operating system\n" * 64


@pytest.fixture
def begin(inside, tmp_path):
    """Makes a world with settings of its own; `image` is what its nodes are deployed with."""
    views = []
    with scripted_agent() as agent, image_server() as server:
        server.files["/disk.raw"] = IMAGE

        def make(**settings):
            inside.environ |= {
                "INGOT_AGENT_REQUIRE_TLS": "false",
                "INGOT_DEPLOY_HTTP_ROOT": str(tmp_path / "root"),
                "INGOT_DEPLOY_HTTP_URL": "http://conductor/images",
                **settings,
            }
            view = inside.another()
            views.append(view)
            world = World(view, agent)
            world.offer("deploy", ("deploy", "check", 50))
            world.image = {
                "image_source": f"{server.url}/disk.raw",
                "image_os_hash_algo": "sha256",
                "image_os_hash_value": hashlib.sha256(IMAGE).hexdigest(),
            }
            return world

        yield make
    for view in views:
        view.close()


def written(world):
    """What the agent was told to write."""
    return [
        params["step"]["args"]["image_info"]
        for name, params in world.agent.received
        if name == "deploy.execute_deploy_step" and params["step"]["step"] == "write_image"
    ]


def served(tmp_path):
    """What lies where agents fetch images."""
    return [each.read_bytes() for each in Path(tmp_path, "root").rglob("*") if each.is_file()]


@pytest.mark.parametrize("ends", ["aborted", "failed", "done"])
def test_an_image_that_the_conductor_keeps_is_served_as_long_as_it_is_needed(begin, tmp_path, ends):
    world = begin(INGOT_AGENT_IMAGE_DOWNLOAD_SOURCE="local")
    node = world.with_agent("available", instance_info=world.image)
    assert "wait call-back" == world.do(node, "active")
    assert [IMAGE] == served(tmp_path)
    world.call(node)
    (told,) = written(world)
    (url,) = told["urls"]
    assert (
        IMAGE == Path(tmp_path, "root", url.removeprefix("http://conductor/images/")).read_bytes()
    )
    assert world.image["image_os_hash_value"] == told["os_hash_value"]
    if ends == "aborted":
        assert "deploy failed" == world.do(node, "abort")
    elif ends == "failed":
        world.agent.fail("the disk is broken")
        assert "deploy failed" == world.call(node)
    else:
        world.agent.answers["standby.get_partition_uuids"] = {}
        world.finish(node, "deploy")  # write_image
        world.agent.finish()  # install_bootloader
        world.call(node)
        world.finish(node, "deploy")  # check
        while world.state(node) != "active":  # until the machine is off
            world.poll(node)
    assert [] == served(tmp_path)


def test_an_image_that_is_not_what_it_is_said_to_be_is_not_served(begin, tmp_path):
    world = begin(INGOT_AGENT_IMAGE_DOWNLOAD_SOURCE="local")
    wrong = world.image | {"image_os_hash_value": "0" * 64}
    node = world.with_agent("available", instance_info=wrong)
    assert "deploy failed" == world.do(node, "active")
    assert "bad_image" == world.last(node).error["code"]
    assert [] == served(tmp_path)


def test_a_machine_that_boots_from_a_volume_is_deployed_without_image_and_agent(begin):
    world = begin()
    node = world.with_agent("available", storage_interface="external")
    with world.inside.runtime.transaction() as session:
        volume = {"volume_type": "fibre_channel", "volume_id": "v-1", "boot_index": 0}
        session.add(VolumeTarget(uuid=str(uuid4()), node_id=node, **volume))
    assert "active" == world.do(node, "active")
    assert "prepare_ramdisk" not in Acme.did
    assert ["prepare_instance", "power on"] == Acme.did[-2:]
    assert [] == world.agent.names()


def test_on_the_fast_track_a_node_is_cleaned_and_deployed_by_one_boot_of_its_agent(begin):
    world = begin(INGOT_DEPLOY_FAST_TRACK="true")
    world.offer("clean", ("deploy", "erase_devices", 10))
    node = world.with_agent(instance_info=world.image)
    assert "clean wait" == world.do(node, "provide")
    world.call(node)
    assert "available" == world.finish(node)
    assert "power on" == world.inside.read(node).power_state
    assert "wait call-back" == world.do(node, "active")
    assert ["power on"] == [did for did in Acme.did if did in ("power on", "power off")]
    assert 1 == Acme.did.count("prepare_ramdisk")
    assert 1 == len(written(world))
