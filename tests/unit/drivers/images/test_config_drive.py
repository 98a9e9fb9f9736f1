"""Config drives: the agent's form of each of a client's forms, as cloud-init reads it."""

import base64
import gzip
import subprocess

import pytest

from drivers.core.errors import InvalidDriverInfo
from drivers.images import config_drive
from tests.support import cloud_init
from tests.unit.drivers.machines import target

NODE = "2c683317-1ef8-4645-b76b-321ffa501c0a"
USER_DATA = "#cloud-config\nssh_authorized_keys: [ssh-ed25519 AAAA]\n"
NETWORK = {
    "links": [{"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}],
    "networks": [{"id": "n", "type": "ipv4_dhcp", "link": "a"}],
    "services": [],
}


def node(drive, **fields):
    return target(interfaces={"deploy": "direct"}, instance_info={"configdrive": drive}, **fields)


def read(drive, folder, **fields):
    """Return what the instance reads from a config drive of this form."""
    it = node(drive, **fields)
    config_drive.validate(it)
    return cloud_init.read_drive(config_drive.encoded(it), folder)


@pytest.mark.parametrize(
    "drive",
    [
        {"user_data": USER_DATA},
        {"user_data": USER_DATA, "meta_data": {}},
        {"user_data": USER_DATA, "meta_data": None, "vendor_data": {}, "network_data": {}},
        {"user_data": USER_DATA, "meta_data": {"uuid": None, "name": None, "role": "web"}},
    ],
)
def test_a_drive_without_an_identity_gets_that_of_the_node(drive, tmp_path):
    data = read(drive, tmp_path)
    assert (NODE, "n0", USER_DATA) == (data["instance"], data["name"], data["user_data"])
    assert (None, None) == (data["network"], data["vendor_data"])  # as if never sent


def test_a_node_without_a_name_gives_its_uuid_alone(tmp_path):
    data = read({"user_data": USER_DATA}, tmp_path, name=None)
    assert (NODE, None) == (data["instance"], data["name"])


def test_the_identity_that_a_client_sends_stays(tmp_path):
    meta_data = {
        "uuid": "i-1",
        "name": "web",
        "hostname": "web.example.org",
        "public_keys": {"a": "k"},
    }
    data = read({"meta_data": meta_data, "user_data": USER_DATA}, tmp_path)
    assert ("i-1", "web", "web.example.org") == (data["instance"], data["name"], data["hostname"])
    assert ({"a": "k"}, USER_DATA) == (data["keys"], data["user_data"])


@pytest.mark.parametrize(
    ("user_data", "text"),
    [
        ("#!/bin/sh\necho größer 🚀\n", "#!/bin/sh\necho größer 🚀\n"),
        ({"ignition": {"version": "3.4.0"}}, '{"ignition": {"version": "3.4.0"}}'),
        ([1, "two"], '[1, "two"]'),
        ("I2Nsb3VkLWNvbmZpZwo=", "I2Nsb3VkLWNvbmZpZwo="),  # as it is: base64 is not decoded
        (None, ""),
        ("", ""),
        ({}, ""),
    ],
)
def test_user_data_are_written_as_text_or_as_json(user_data, text, tmp_path):
    assert text == read({"user_data": user_data}, tmp_path)["user_data"]


def test_networks_and_vendor_data_are_read(tmp_path):
    drive = {"network_data": NETWORK, "vendor_data": {"cloud-init": "#cloud-config\n"}}
    data = read(drive, tmp_path)
    [interface] = data["network"]["config"]
    assert ("eth0", "#cloud-config\n") == (interface["name"], data["vendor_data"])


@pytest.fixture
def finished(tmp_path):
    """A config drive that another program made."""
    latest = tmp_path / "made/openstack/latest"
    latest.mkdir(parents=True)
    (latest / "meta_data.json").write_text('{"uuid": "i-2"}')
    (latest / "user_data").write_text(USER_DATA)
    image = tmp_path / "made.iso"
    command = ["-as", "mkisofs", "-quiet", "-R", "-V", "config-2", "-o", image, tmp_path / "made"]
    subprocess.run([cloud_init.xorriso(), *command], check=True, timeout=60, capture_output=True)
    return image.read_bytes()


@pytest.mark.parametrize("encode", [base64.b64encode, base64.encodebytes])
def test_a_finished_drive_is_passed_on(finished, encode, tmp_path):
    data = read(encode(gzip.compress(finished)).decode().replace("\n", ""), tmp_path)
    assert ("i-2", USER_DATA) == (data["instance"], data["user_data"])


def test_the_url_of_a_drive_is_passed_on():
    it = node("https://drives.example.org/1")
    config_drive.validate(it)
    assert "https://drives.example.org/1" == config_drive.encoded(it)


def test_an_instance_without_a_drive_gets_none():
    for drive in (None, "", {}):
        config_drive.validate(node(drive))
        assert config_drive.encoded(node(drive)) is None


def packed(content):
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


@pytest.mark.parametrize(
    ("drive", "reason"),
    [
        ({"motd": "hello"}, "unknown part 'motd'"),
        ([1], "must be an object"),
        (7, "must be an object"),
        ({"meta_data": "web"}, "meta_data must be an object"),
        ({"meta_data": [1]}, "meta_data must be an object"),
        ({"network_data": "dhcp"}, "network_data must be an object"),
        ({"vendor_data": [1]}, "vendor_data must be an object"),
        ({"user_data": 7}, "user_data must be a text"),
        ({"user_data": "\ud800"}, "not valid Unicode"),
        ({"meta_data": {"uuid": ""}}, "meta_data/uuid must be a text"),
        ({"meta_data": {"uuid": 7}}, "meta_data/uuid must be a text"),
        ({"meta_data": {"hostname": ["web"]}}, "meta_data/hostname must be a text"),
        ({"meta_data": {"files": [{"path": "/a", "content_path": "/c"}]}}, "cannot carry"),
        ({"meta_data": {"network_config": {"content_path": "/c"}}}, "cannot carry"),
        ({"meta_data": {"random_seed": "a"}}, "random_seed must be base64"),
        ({"meta_data": {"random_seed": 7}}, "random_seed must be base64"),
        ({"meta_data": {"meta": "admin"}}, "meta_data/meta must be an object"),
        ({"user_data": "x" * ((64 << 20) + 1)}, "larger than 64 MiB"),
        ('{"meta_data": {"uuid": "u"}', "is no base64"),
        ("H4sI", "no drive compressed by gzip"),
        (base64.b64encode(b"an image").decode(), "no drive compressed by gzip"),
        (packed(b"an image" * 9)[:-8], "no drive compressed by gzip"),
        (packed(b""), "the drive is empty"),
        (packed(bytes((64 << 20) + 1)), "larger than 64 MiB"),
        ("ftp://drives.example.org/1", "is no http or https URL"),
        ("file:///etc/shadow", "is no http or https URL"),
        ("http://drives.example.org/a drive", "has a space"),
    ],
)
def test_a_drive_that_no_instance_could_read_is_refused(drive, reason):
    it = node(drive)
    with pytest.raises(InvalidDriverInfo, match=rf"^instance_info/configdrive.*{reason}"):
        config_drive.validate(it)
