"""Deployments that differ by where their bytes come from: a conductor, a volume, a running agent."""

import hashlib
from pathlib import Path
from uuid import uuid4

import pytest

from app.models import VolumeTarget
from tests.integration.harness import Acme, Harness
from tests.unit.drivers.machines import image_server, scripted_agent

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

IMAGE = b"an operating system\n" * 64


@pytest.fixture
def begin(inside, tmp_path):
    """Makes a harness with settings of its own; `image` is what its nodes are deployed with."""
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
            harness = Harness(view, agent)
            harness.offer("deploy", ("deploy", "check", 50))
            harness.image = {
                "image_source": f"{server.url}/disk.raw",
                "image_os_hash_algo": "sha256",
                "image_os_hash_value": hashlib.sha256(IMAGE).hexdigest(),
            }
            return harness

        yield make
    for view in views:
        view.close()


def written(harness):
    """What the agent was told to write."""
    return [
        params["step"]["args"]["image_info"]
        for name, params in harness.agent.received
        if name == "deploy.execute_deploy_step" and params["step"]["step"] == "write_image"
    ]


def served(tmp_path):
    """What lies where agents fetch images."""
    return [each.read_bytes() for each in Path(tmp_path, "root").rglob("*") if each.is_file()]


@pytest.mark.parametrize("ends", ["aborted", "failed", "done"])
def test_an_image_that_the_conductor_keeps_is_served_as_long_as_it_is_needed(begin, tmp_path, ends):
    harness = begin(INGOT_AGENT_IMAGE_DOWNLOAD_SOURCE="local")
    node = harness.with_agent("available", instance_info=harness.image)
    assert "wait call-back" == harness.do(node, "active")
    assert [IMAGE] == served(tmp_path)
    harness.call(node)
    (told,) = written(harness)
    (url,) = told["urls"]
    assert (
        IMAGE == Path(tmp_path, "root", url.removeprefix("http://conductor/images/")).read_bytes()
    )
    assert harness.image["image_os_hash_value"] == told["os_hash_value"]
    if ends == "aborted":
        assert "deploy failed" == harness.do(node, "abort")
    elif ends == "failed":
        harness.agent.fail("the disk is broken")
        assert "deploy failed" == harness.call(node)
    else:
        harness.agent.answers["standby.get_partition_uuids"] = {}
        harness.finish(node, "deploy")  # write_image
        harness.agent.finish()  # install_bootloader
        harness.call(node)
        harness.finish(node, "deploy")  # check
        while harness.state(node) != "active":  # until the machine is off
            harness.poll(node)
    assert [] == served(tmp_path)


def test_an_image_that_is_not_what_it_is_said_to_be_is_not_served(begin, tmp_path):
    harness = begin(INGOT_AGENT_IMAGE_DOWNLOAD_SOURCE="local")
    wrong = harness.image | {"image_os_hash_value": "0" * 64}
    node = harness.with_agent("available", instance_info=wrong)
    assert "deploy failed" == harness.do(node, "active")
    assert "bad_image" == harness.last(node).error["code"]
    assert [] == served(tmp_path)


def test_a_machine_that_boots_from_a_volume_is_deployed_without_image_and_agent(begin):
    harness = begin()
    node = harness.with_agent("available", storage_interface="external")
    with harness.inside.runtime.transaction() as session:
        volume = {"volume_type": "fibre_channel", "volume_id": "v-1", "boot_index": 0}
        session.add(VolumeTarget(uuid=str(uuid4()), node_id=node, **volume))
    assert "active" == harness.do(node, "active")
    assert "prepare_ramdisk" not in Acme.did
    assert ["prepare_instance", "power on"] == Acme.did[-2:]
    assert [] == harness.agent.names()


def test_on_the_fast_track_a_node_is_cleaned_and_deployed_by_one_boot_of_its_agent(begin):
    harness = begin(INGOT_DEPLOY_FAST_TRACK="true")
    harness.offer("clean", ("deploy", "erase_devices", 10))
    node = harness.with_agent(instance_info=harness.image)
    assert "clean wait" == harness.do(node, "provide")
    harness.call(node)
    assert "available" == harness.finish(node)
    assert "power on" == harness.inside.read(node).power_state
    assert "wait call-back" == harness.do(node, "active")
    assert ["power on"] == [did for did in Acme.did if did in ("power on", "power off")]
    assert 1 == Acme.did.count("prepare_ramdisk")
    assert 1 == len(written(harness))
