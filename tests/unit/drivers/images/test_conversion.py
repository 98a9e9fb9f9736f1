"""Images that a conductor converts to raw ones, by the real `qemu-img`."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from urllib.request import url2pathname

import pytest

from drivers.agent import image
from drivers.core.errors import BadImage, InvalidDriverInfo
from drivers.images import conversion
from tests.support import debian
from tests.support.prerequisites import not_run
from tests.unit.drivers.machines import changed_options, target

SIZE = 3 << 20
CONTENT = os.urandom(1 << 20) + bytes(SIZE - (1 << 20))


@pytest.fixture(scope="module", autouse=True)
def qemu_img():
    if not debian.provide(lambda: shutil.which(conversion.PROGRAM), "qemu-utils"):
        not_run(conversion.PROGRAM)


def qemu(*arguments):
    subprocess.run([conversion.PROGRAM, *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path):
    """A qcow2 image with CONTENT."""
    raw, qcow2 = tmp_path / "content", tmp_path / "images" / "disk.qcow2"
    qcow2.parent.mkdir()
    raw.write_bytes(CONTENT)
    qemu("convert", "-O", "qcow2", raw, qcow2)
    return qcow2


@pytest.fixture
def node(tmp_path, images, disk):
    """Function that returns a node with the image, from a server or as a file."""

    def make(source=None, checksum=None, **options):
        images.files["/disk.qcow2"] = disk.read_bytes()
        settings = {
            "DEFAULT__force_raw_images": True,
            "deploy__http_root": str(tmp_path / "www"),
            "deploy__http_url": "http://conductor:8080/",
            "conductor__file_url_allowed_paths": (str(disk.parent),),
        }
        info = {
            "image_source": source or f"{images.url}/disk.qcow2",
            "image_checksum": checksum or hashlib.sha256(disk.read_bytes()).hexdigest(),
            "image_download_source": "local",
        }
        return target(instance_info=info, options=changed_options(**settings | options))

    return make


def published(tmp_path, agent_fields):
    """Return the file that a URL of the conductor publishes."""
    return tmp_path / "www" / url2pathname(agent_fields["urls"][0].partition(":8080/")[2])


@pytest.mark.parametrize("is_file", [False, True])
def test_the_agent_gets_a_raw_image_with_its_own_checksum(tmp_path, node, disk, is_file):
    machine = node(disk.as_uri() if is_file else None)
    image.validate(machine)
    agent_fields = image.examine(machine)
    path = published(tmp_path, agent_fields)
    assert CONTENT == path.read_bytes()
    assert "disk.qcow2.raw" == path.name
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert ("raw", "sha256", digest) == (
        agent_fields["disk_format"], agent_fields["os_hash_algo"], agent_fields["os_hash_value"],
    )  # fmt: skip
    assert {path.name, f".{path.name}.json"} == {entry.name for entry in path.parent.iterdir()}


@pytest.mark.parametrize("changes", [{"DEFAULT__force_raw_images": False}, {"source": "http"}])
def test_other_images_stay_as_they_are(node, changes):
    machine = node(**{name: value for name, value in changes.items() if name != "source"})
    if "source" in changes:  # the agent fetches it from its server
        machine.instance_info["image_download_source"] = "http"
    assert "qcow2" == image.examine(machine)["disk_format"]


def test_a_repeated_call_converts_nothing(tmp_path, node, monkeypatch):
    agent_fields = image.examine(node())
    monkeypatch.setattr(conversion, "to_raw", None)
    assert agent_fields == image.examine(node())


@pytest.mark.parametrize("damage", ["cut", "no record", "other image"])
def test_what_an_interrupted_call_has_left_is_replaced(tmp_path, node, disk, damage):
    path = published(tmp_path, image.examine(node()))
    match damage:
        case "cut":
            os.truncate(path, 1000)
        case "no record":
            (path.parent / f".{path.name}.json").unlink()
        case "other image":
            qemu("resize", disk, "+1M")
    replacement = published(tmp_path, image.examine(node()))
    assert CONTENT == replacement.read_bytes()[:SIZE]
    assert not path.exists(), "its folder is removed"


@pytest.mark.parametrize("is_file", [False, True])
def test_an_image_with_another_checksum_is_not_converted(node, disk, is_file, monkeypatch):
    monkeypatch.setattr(conversion, "to_raw", None)
    with pytest.raises(BadImage, match="does not have the sha256"):
        image.examine(node(disk.as_uri() if is_file else None, checksum="a" * 64))


def test_the_file_that_is_converted_is_inspected_whatever_the_probe_has_seen(
    tmp_path, node, disk, monkeypatch
):
    probe = image.image_server.probe

    def probed(machine, url):  # afterwards the server sends an image that reads a file of this host
        result = probe(machine, url)
        secret = tmp_path / "secret"
        secret.write_bytes(CONTENT)
        disk.unlink()
        qemu("create", "-f", "qcow2", "-F", "raw", "-b", secret, disk)
        checksum = hashlib.sha256(disk.read_bytes()).hexdigest()
        machine.instance_info["image_checksum"] = checksum
        node()
        return result

    machine = node()
    monkeypatch.setattr(image.image_server, "probe", probed)
    with pytest.raises(BadImage, match=r"disk\.qcow2 cannot become a raw image: .* backing file"):
        image.examine(machine)
    assert not [*(tmp_path / "www").rglob("*.raw")]


def test_a_disk_that_does_not_fit_is_refused_before_it_is_written(tmp_path, node, disk):
    qemu("resize", disk, "16T")
    with pytest.raises(BadImage, match=r"its disk has 16777216 MiB, .*fetch_min_free_space"):
        image.examine(node())


def test_a_damaged_image_is_refused_with_the_words_of_the_program(tmp_path, node, disk):
    with disk.open("r+b") as file:
        file.seek(0x30000)  # its table of clusters
        file.write(b"\xff" * 8)
    with pytest.raises(BadImage, match="cannot become a raw image: qemu-img: ") as refusal:
        image.examine(node())
    assert "\n" not in str(refusal.value)
    assert not [*(tmp_path / "www").rglob("*.part")]


def test_a_conversion_cannot_write_more_than_the_disk_has(tmp_path, disk):
    with pytest.raises(conversion.Impossible):
        conversion._run(disk, Path(tmp_path, "part"), SIZE // 2)


def test_a_conductor_without_the_program_refuses_the_node(node, monkeypatch):
    monkeypatch.setattr(conversion.shutil, "which", lambda _name: None)
    with pytest.raises(InvalidDriverInfo, match=r"force_raw_images: qemu-img is not installed"):
        image.validate(node())


def test_a_raw_image_that_is_streamed_needs_no_memory(node, disk):
    machine = node()
    machine.properties["memory_mb"] = 1
    machine.options["agent"]["memory_consumed_by_agent"] = 1
    assert "raw" == image.examine(machine)["disk_format"]
    machine.options["agent"]["stream_raw_images"] = False
    with pytest.raises(BadImage, match="has 3 MiB, but the agent has only 0 MiB"):
        image.examine(machine)
