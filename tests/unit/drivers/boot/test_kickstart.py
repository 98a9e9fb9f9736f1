"""Kickstart files, as the installer's own parser and cloud-init read them."""

import subprocess

import pytest
from pykickstart.parser import KickstartParser
from pykickstart.version import makeVersion

from drivers.boot import kickstart
from drivers.core.errors import InvalidDriverInfo
from tests.support import cloud_init
from tests.unit.drivers.machines import OPTIONS, target

USER_DATA = "#cloud-config\nhostname: 'größer; $(reboot)'\n"
TREE, IMAGE = "https://mirror/os/", "https://mirror/root.squashfs"


@pytest.fixture
def node(images, tmp_path):
    changes = {
        "deploy": {"http_root": str(tmp_path / "http"), "http_url": "http://conductor:8080"},
        "api": {"public_endpoint": "http://service:6385"},
    }
    options = {group: {**values, **changes.get(group, {})} for group, values in OPTIONS.items()}

    def make(**info):
        urls = {name: f"{images.url}/{name}" for name in ("kernel", "ramdisk", "stage2")}
        return target(
            interfaces={"boot": "ipxe", "deploy": "anaconda"},
            instance_info={"image_source": IMAGE} | urls | info,
            options=options,
        )

    return make


def published(node, folder):
    """Publish a kickstart file, and return its path."""
    node.driver.deploy.validate(node)
    url, _ = kickstart.publish(node)
    return folder / "http" / url.removeprefix("http://conductor:8080/")


@pytest.mark.parametrize("version", ["RHEL8", "RHEL9", "F40"])
@pytest.mark.parametrize(
    ("source", "method"), [(IMAGE, "liveimg"), (TREE, "url")], ids=["an image", "a tree"]
)
@pytest.mark.parametrize("drive", [None, {"user_data": USER_DATA}])
def test_installers_accept_the_built_in_template(node, version, source, method, drive, tmp_path):
    file = published(node(image_source=source, configdrive=drive), tmp_path)
    parser = KickstartParser(makeVersion(version))
    parser.readKickstart(str(file))
    assert source == getattr(parser.handler, method).url
    scripts = [script.script for script in parser.handler.scripts]
    statuses = [
        word for text in scripts for word in ("start", "error", "end") if f'"{word}"' in text
    ]
    assert ["start", "error", "end"] == statuses
    assert (drive is not None) == any("/var/lib/cloud/seed" in text for text in scripts)


def test_cloud_init_reads_the_config_drive_that_an_installer_writes(node, tmp_path):
    it = node(configdrive={"user_data": USER_DATA})
    parser = KickstartParser(makeVersion("RHEL9"))
    parser.readKickstart(str(published(it, tmp_path)))
    [script] = [
        section.script for section in parser.handler.scripts if "cloud/seed" in section.script
    ]
    script = script.replace("/var/lib/cloud", str(tmp_path / "cloud"))
    subprocess.run(["sh", "-eu", "-c", script], check=True, timeout=60)
    data = cloud_init.read_folder(tmp_path / "cloud/seed/config_drive")
    assert (it.uuid, "n0", USER_DATA) == (data["instance"], data["name"], data["user_data"])


@pytest.mark.parametrize("drive", ["H4sI", "https://drives/1", {"meta_data": {"uuid": 7}}, [1]])
def test_a_config_drive_that_an_installer_cannot_write_is_refused_by_validation(node, drive):
    it = node(configdrive=drive)
    with pytest.raises(InvalidDriverInfo, match="instance_info/configdrive"):
        it.driver.deploy.validate(it)
