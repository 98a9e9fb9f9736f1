"""Deployments of images from a conductor, from a volume, and by a running agent."""

import hashlib
from pathlib import Path
from uuid import uuid4

import pytest

from app.errors import Invalid
from app.models import VolumeTarget
from drivers.generic.noop import NoopNetwork
from tests.integration.harness import Acme, Harness
from tests.support import cloud_init, glance, registry
from tests.unit.drivers.machines import image_server, scripted_agent

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

IMAGE = b"an operating system\n" * 64


@pytest.fixture
def begin(inside, tmp_path):
    """Factory of harnesses with given settings; `image` is the instance_info of its nodes."""
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
            harness.server = server
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
    """Images that the agent was commanded to write."""
    return [
        params["step"]["args"]["image_info"]
        for name, params in harness.agent.received
        if name == "deploy.execute_deploy_step" and params["step"]["step"] == "write_image"
    ]


def served(tmp_path):
    """Names of the files that agents may fetch."""
    return [path.read_bytes() for path in Path(tmp_path, "root").rglob("*") if path.is_file()]


def finish_deployment(harness, node):
    """Let the agent do its commands, from `write_image` to the end of the deployment."""
    harness.agent.answers["standby.get_partition_uuids"] = {}
    harness.finish(node, "deploy")  # write_image
    harness.agent.finish()  # install_bootloader
    harness.call(node)
    harness.finish(node, "deploy")  # check
    while harness.state(node) != "active":  # until the machine is off
        harness.poll(node)


@pytest.mark.parametrize("ends", ["aborted", "failed", "done"])
def test_an_image_of_the_conductor_is_served_while_it_is_needed(begin, tmp_path, ends):
    harness = begin(INGOT_AGENT_IMAGE_DOWNLOAD_SOURCE="local")
    node = harness.with_agent("available", instance_info=harness.image)
    assert "wait call-back" == harness.do(node, "active")
    assert [IMAGE] == served(tmp_path)
    harness.call(node)
    (image,) = written(harness)
    (url,) = image["urls"]
    assert (
        IMAGE == Path(tmp_path, "root", url.removeprefix("http://conductor/images/")).read_bytes()
    )
    assert harness.image["image_os_hash_value"] == image["os_hash_value"]
    if ends == "aborted":
        assert "deploy failed" == harness.do(node, "abort")
    elif ends == "failed":
        harness.agent.fail("the disk is broken")
        assert "deploy failed" == harness.call(node)
    else:
        finish_deployment(harness, node)
    assert [] == served(tmp_path)


def test_a_deployment_moves_the_machine_to_the_provisioning_network_and_back(begin, monkeypatch):
    for name in ("unconfigure_tenant_networks", "add_provisioning_network",
                 "remove_provisioning_network", "configure_tenant_networks"):  # fmt: skip
        monkeypatch.setattr(
            NoopNetwork, name, lambda _self, target, name=name: Acme.does(target, name)
        )
    harness = begin()
    node = harness.with_agent("active", instance_info=harness.image, power_state="power on")
    assert "wait call-back" == harness.do(node, "rebuild")
    harness.call(node)
    finish_deployment(harness, node)
    assert [
        "power off", "unconfigure_tenant_networks", "add_provisioning_network",
        "power on", "power off", "remove_provisioning_network", "configure_tenant_networks",
        "power on",
    ] == [did for did in Acme.did if not did.startswith("prepare_")]  # fmt: skip


def test_an_image_with_a_wrong_checksum_is_not_served(begin, tmp_path):
    harness = begin(INGOT_AGENT_IMAGE_DOWNLOAD_SOURCE="local")
    wrong = harness.image | {"image_os_hash_value": "0" * 64}
    node = harness.with_agent("available", instance_info=wrong)
    assert "deploy failed" == harness.do(node, "active")
    assert "bad_image" == harness.last(node).error["code"]
    assert [] == served(tmp_path)


def drives(harness):
    """Config drives that the agent was commanded to write."""
    steps = [params["step"] for name, params in harness.agent.received if name.endswith("_step")]
    return [step["args"].get("configdrive") for step in steps if step["step"] == "write_image"]


def test_a_rebuild_writes_the_config_drive_of_its_own_request(begin, tmp_path):
    harness = begin()
    node = harness.with_agent("available", name="web", instance_info=harness.image)
    config_drives = []
    for verb, drive in (
        ("active", {"configdrive": {"user_data": "first"}}),
        ("rebuild", {"configdrive": {"user_data": "second", "meta_data": {"uuid": "i-2"}}}),
        ("rebuild", {}),  # that of the last request is kept
        ("rebuild", {"configdrive": None}),
    ):
        harness.do(node, verb, **drive)
        harness.call(node)
        config_drives.append(drives(harness)[-1])
        finish_deployment(harness, node)
    assert config_drives.pop() is None
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir()
    read = [cloud_init.read_drive(*pair) for pair in zip(config_drives, folders, strict=True)]
    uuid = harness.inside.read(node).uuid
    assert [(uuid, "first"), ("i-2", "second"), ("i-2", "second")] == [
        (document["instance"], document["user_data"]) for document in read
    ]


@pytest.mark.parametrize("drive", ["H4sI", {"meta_data": {"files": [{"path": "/a"}]}}, "ftp://a/b"])
@pytest.mark.parametrize(("verb", "state"), [("active", "available"), ("rebuild", "active")])
def test_a_config_drive_that_cannot_be_read_is_refused_and_not_stored(begin, verb, state, drive):
    harness = begin()
    node = harness.with_agent(state, instance_info=harness.image)
    with pytest.raises(Invalid, match="instance_info/configdrive"):
        harness.ask(node, verb, configdrive=drive)
    row = harness.inside.read(node)
    assert (state, harness.image) == (row.provision_state, row.instance_info)


def test_a_machine_with_a_boot_volume_is_deployed_without_image_and_agent(begin):
    harness = begin()
    node = harness.with_agent("available", storage_interface="external")
    with harness.inside.runtime.transaction() as session:
        volume = {"volume_type": "fibre_channel", "volume_id": "v-1", "boot_index": 0}
        session.add(VolumeTarget(uuid=str(uuid4()), node_id=node, **volume))
    assert "active" == harness.do(node, "active")
    assert "prepare_ramdisk" not in Acme.did
    assert ["prepare_instance", "power on"] == Acme.did[-2:]
    assert [] == harness.agent.names()


def test_fast_track_cleans_and_deploys_a_node_with_one_boot_of_its_agent(begin):
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


@pytest.mark.parametrize("change", [None, "the image is replaced"])
def test_an_image_of_glance_is_written_as_it_was_checked(begin, tmp_path, change):
    with glance.serving() as images:
        harness = begin(
            INGOT_GLANCE_AUTH_TYPE="none", INGOT_GLANCE_ENDPOINT_OVERRIDE=images.url
        )  # fmt: skip
        uuid = images.add(IMAGE)
        node = harness.with_agent("available", instance_info={"image_source": uuid})
        assert "wait call-back" == harness.do(node, "active")
        if change:
            images.add(change.encode(), uuid=uuid)
        count = len(images.request_log)
        harness.call(node)
        (image,) = written(harness)
        assert hashlib.sha512(IMAGE).hexdigest() == image["os_hash_value"]
        assert [IMAGE] == served(tmp_path)
        assert count == len(images.request_log)
        finish_deployment(harness, node)
    assert [] == served(tmp_path)


@pytest.mark.parametrize("moved", [False, True], ids=["", "the tag is moved"])
def test_an_image_of_a_registry_is_written_as_it_was_checked(begin, tmp_path, moved):
    with registry.real(tmp_path, "us3r", "pa55") as host:
        login = ("us3r", "pa55")
        registry.upload(host, IMAGE, "v1", login)
        harness = begin(INGOT_OCI_PERMIT_FALLBACK_TO_HTTP_TRANSPORT="true")
        info = {"image_source": f"oci://{host}/library/disks:v1", "image_pull_secret": "us3r:pa55"}
        node = harness.with_agent("available", instance_info=info)
        assert "wait call-back" == harness.do(node, "active")
        if moved:
            registry.upload(host, b"another system", "v1", login)
        harness.call(node)
        (image,) = written(harness)
        assert hashlib.sha256(IMAGE).hexdigest() == image["os_hash_value"]
        assert [IMAGE] == served(tmp_path)
        finish_deployment(harness, node)
    assert [] == served(tmp_path)


@pytest.mark.parametrize("moved", [False, True], ids=["", "the tag is moved"])
def test_a_container_is_installed_as_it_was_when_the_deployment_began(begin, tmp_path, moved):
    with registry.real(tmp_path, "us3r", "pa55") as host:
        login = ("us3r", "pa55")
        digest = registry.upload(host, IMAGE, "v1", login, artifactType="application/x")
        harness = begin(INGOT_OCI_PERMIT_FALLBACK_TO_HTTP_TRANSPORT="true")
        info = {
            "image_source": f"oci://{host}/library/disks:v1", "image_pull_secret": "us3r:pa55",
            "bootc_authorized_keys": "ssh-ed25519 AAAA",
        }  # fmt: skip
        node = harness.with_agent("available", "bootc", instance_info=info)
        assert "wait call-back" == harness.do(node, "active")
        if moved:
            registry.upload(host, b"another system", "v1", login)
        harness.call(node)
        (params,) = [
            params
            for name, params in harness.agent.received
            if name == "standby.execute_bootc_install"
        ]
        assert {
            "image_source": f"oci://{host}/library/disks@{digest}",
            "instance_info": {"bootc_authorized_keys": "ssh-ed25519 AAAA"},
            "pull_secret": registry.basic("us3r", "pa55").removeprefix("Basic "),
            "configdrive": None,
        } == params
        harness.agent.finish()
        harness.call(node)
        harness.finish(node, "deploy")  # check
        while harness.state(node) != "active":  # until the machine is off
            harness.poll(node)
    assert "image.install_bootloader" not in [name for name, _ in harness.agent.received]


def test_a_container_that_is_missing_fails_before_the_machine_boots(begin, tmp_path):
    with registry.real(tmp_path) as host:
        harness = begin(INGOT_OCI_PERMIT_FALLBACK_TO_HTTP_TRANSPORT="true")
        info = {"image_source": f"oci://{host}/library/disks:v1"}
        node = harness.with_agent("available", "bootc", instance_info=info)
        assert "deploy failed" == harness.do(node, "active")
    assert [] == harness.agent.received


def test_a_file_of_checksums_counts_as_it_was_when_the_deployment_began(begin):
    harness = begin()
    harness.server.files["/SUMS"] = harness.image["image_os_hash_value"].encode()
    url = harness.image["image_source"].replace("disk.raw", "SUMS")
    info = {"image_source": harness.image["image_source"], "image_checksum": url}
    node = harness.with_agent("available", instance_info=info)
    assert "wait call-back" == harness.do(node, "active")
    harness.server.files |= {
        "/disk.raw": b"another", "/SUMS": hashlib.sha256(b"another").hexdigest().encode(),
    }  # fmt: skip
    harness.call(node)
    (image,) = written(harness)
    assert harness.image["image_os_hash_value"] == image["os_hash_value"]
