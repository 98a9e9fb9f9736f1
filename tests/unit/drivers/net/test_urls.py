"""URLs of nodes: the files of this host that they may open, through any caller."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from drivers.agent import image
from drivers.builtin import HARDWARE_TYPES
from drivers.core.errors import BadImage, InvalidDriverInfo
from drivers.core.registry import load
from drivers.images import cache, image_server
from drivers.net import urls
from tests.unit.drivers.machines import OPTIONS, target

SECRET = b"connection = 'postgresql://ingot:password@db/ingot'"
DIGEST, SHA256 = hashlib.sha256(SECRET).hexdigest(), "a" * 64
FIELDS = ("kernel", "ramdisk", "stage2")


@pytest.fixture
def place(tmp_path):
    """Directories: `images` is allowed, `data` is the data directory; `secret` is a file."""
    for name in ("images", "data"):
        (tmp_path / name).mkdir()
    for name in ("images/disk.raw", "data/ingot.db", "secret"):
        (tmp_path / name).write_bytes(SECRET)
    return tmp_path


@pytest.fixture
def options(place):
    changes = {
        "DEFAULT": {"data_dir": str(place / "data")},
        "conductor": {"file_url_allowed_paths": (str(place / "images"),)},
        "deploy": {"http_root": str(place / "www"), "http_url": "http://conductor:8080"},
        "pxe": {"instance_master_path": str(place / "kept")},
    }
    groups = {group: {**values, **changes.get(group, {})} for group, values in OPTIONS.items()}
    return {**groups, "copy": {"path": place / "copy"}}


def allowing(options, *folders):
    allowed = {"file_url_allowed_paths": tuple(map(str, folders))}
    return {**options, "conductor": {**options["conductor"], **allowed}}


def readings(options, url):
    """Every way in which a conductor reads a URL."""
    it = target(
        interfaces={"deploy": "direct"},
        options=options,
        instance_info={"image_source": url, "image_checksum": SHA256},
    )
    return {
        "image": lambda: image.examine(it),
        "template, checksums": lambda: image_server.text(it, url),
        "local copy": lambda: image_server.copy(it, url, options["copy"]["path"], {}),
        "kernel, ramdisk, boot loader": lambda: cache.get(it, url),
    }


def refused(options, url):
    for read in readings(options, url).values():
        with pytest.raises((InvalidDriverInfo, BadImage)) as raised:
            read()
        assert DIGEST not in str(raised.value)
    return not list(Path(options["deploy"]["http_root"]).rglob("image-*/*"))


@pytest.mark.parametrize(
    "url",
    [
        "file://{}/secret", "FILE://{}/secret", "FiLe:{}/secret", " file://{}/secret",
        "fi\tle://{}/secret", "\nfile://{}/secret", "file://{}/images/../secret",
        "file://{}/images/%2e%2e/secret", "file://{}/images/link", "file://{}/images/linked/secret",
        "file://host{}/images/disk.raw", "file://{}/images/disk.raw%00", "file:secret",
        "file://{}/images", "file://{}/images/none",
    ],
)  # fmt: skip
def test_a_file_outside_of_the_allowed_directories_is_never_read(place, options, url):
    (place / "images" / "link").symlink_to(place / "secret")
    (place / "images" / "linked").symlink_to(place)
    assert refused(options, url.format(place))


@pytest.mark.parametrize("url", ["file:///dev/zero", "FILE:///dev/zero", "file:///proc/version",
                                 "file:///proc/self/environ", "file:///etc/passwd",
                                 "file://{}/data/ingot.db"])  # fmt: skip
def test_devices_system_files_and_the_data_directory_are_not_read_even_where_allowed(
    place, options, url
):
    assert refused(allowing(options, "/", place), url.format(place))


def test_only_regular_files_are_read(place, options):
    os.mkfifo(place / "images" / "fifo")
    assert refused(options, f"file://{place}/images/fifo")


def test_a_link_that_replaces_a_checked_file_is_not_followed(place, options, monkeypatch):
    """The link appears between the check and the opening."""
    (place / "images" / "swapped").symlink_to(place / "secret")
    (place / "images" / "folder").symlink_to(place)
    monkeypatch.setattr(urls.os.path, "realpath", str)
    assert refused(options, f"file://{place}/images/swapped")
    assert refused(options, f"file://{place}/images/folder/secret")


def test_a_regular_file_in_an_allowed_directory_is_read(place, options):
    (place / "linked").symlink_to(place / "images")
    for url in (f"file://{place}/images/disk.raw", f"FILE://localhost{place}/images/disk%2Eraw"):
        for using in (options, allowing(options, place / "linked")):
            contents = {name: read() for name, read in readings(using, url).items()}
            assert SECRET.decode() == contents["template, checksums"]
            assert place / "images" / "disk.raw" == contents["kernel, ramdisk, boot loader"].path
            (url_of_agent,) = contents["image"]["urls"]
            served = place / "www" / unquote(url_of_agent).removeprefix("http://conductor:8080/")
            assert SECRET == served.read_bytes()


@pytest.mark.parametrize("wrong", ["FILE://{}/secret", " file://{}/secret", "fi\tle://{}/secret",
                                   "file:///proc/self/environ", "http://[", "http://h/a b"])  # fmt: skip
def test_validation_refuses_a_url_that_may_not_be_read_and_names_its_field(place, options, wrong):
    it = target(
        interfaces={"deploy": "direct", "boot": "ipxe"},
        options=options,
        instance_info={"image_source": wrong.format(place), "image_checksum": SHA256},
        driver_info={"deploy_kernel": wrong.format(place), "deploy_ramdisk": "http://h/r"},
    )
    with pytest.raises(InvalidDriverInfo, match=r"instance_info/image_source"):
        it.driver.deploy.validate(it)
    with pytest.raises(InvalidDriverInfo, match=r"driver_info/deploy_kernel"):
        it.driver.boot.validate(it)
    it = replace(it, instance_info={"kernel": wrong.format(place), "ramdisk": "http://h/r"})
    for deploy in ("ramdisk", "anaconda"):
        other = target(interfaces={"deploy": deploy, "boot": "ipxe"})
        info = (
            {"image_source": "http://h/i", "stage2": "http://h/s"} if deploy == "anaconda" else {}
        )
        it = replace(it, driver=other.driver, instance_info={**it.instance_info, **info})
        with pytest.raises(InvalidDriverInfo, match=r"instance_info/kernel"):
            it.driver.deploy.validate(it)


@pytest.mark.parametrize("allowed", ["{}/secret", "{}/images/disk.raw"])
def test_the_kickstart_template_of_a_node_is_never_a_file(place, options, allowed):
    for scheme in ("file", "FILE", " file"):
        it = target(
            interfaces={"deploy": "anaconda", "boot": "ipxe"},
            options=options,
            instance_info=dict.fromkeys(("image_source", *FIELDS), "http://h/")
            | {"ks_template": f"{scheme}://{allowed.format(place)}"},
        )
        with pytest.raises(InvalidDriverInfo, match="instance_info/ks_template"):
            it.driver.deploy.validate(it)
        with pytest.raises(InvalidDriverInfo, match="instance_info/ks_template"):
            it.driver.boot.prepare_instance(it)
    assert not list(place.rglob("ks.cfg"))


def test_installers_are_started_only_if_the_settings_enable_them():
    with pytest.raises(InvalidDriverInfo, match=r"deploy_interface.*anaconda"):
        load(HARDWARE_TYPES).driver("fake-hardware", {"deploy": "anaconda"})
    registry = load(HARDWARE_TYPES, enabled_interfaces={"deploy": ["direct", "anaconda"]})
    assert "anaconda" == registry.driver("redfish", {"deploy": "anaconda"}).deploy.name
