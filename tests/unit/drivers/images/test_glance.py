"""Images of Glance: requests, rights of projects, and refusals before a machine boots."""

import hashlib
import json

import pytest

from app.config.settings import Settings
from drivers.agent import image
from drivers.core.errors import BadImage, HardwareError, InvalidDriverInfo, Refused, Unreachable
from drivers.images import cache, instance
from tests.support import glance, keystone
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import OPTIONS, target

DISK = bytes(510) + b"\x55\xaa" + bytes(1 << 18)
MD5 = hashlib.md5(DISK).hexdigest()
UNKNOWN = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def images():
    with glance.serving() as images:
        yield images


@pytest.fixture
def node(images, tmp_path):
    """Factory of targets with an image of Glance; changes: group__name=value."""

    def make(source, record=None, changed=None, **info):
        options = {group: dict(values) for group, values in OPTIONS.items()}
        options["glance"] |= images.settings | {"num_retries": 1}
        options["deploy"] |= {"http_url": "http://conductor", "http_root": str(tmp_path / "root")}
        options["pxe"] |= {"instance_master_path": str(tmp_path / "masters")}
        options["conductor"] |= {"fetch_min_free_space": 0}
        for name, value in (changed or {}).items():
            group, _, key = name.partition("__")
            options[group][key] = value
        return target(
            interfaces={"deploy": "direct"},
            instance_info={"image_source": source, **info},
            options=options,
            record={"owner": None, "lessee": None, **(record or {})},
        )

    return make


def prepared(node):
    """Return the facts that the step `prepare` records, and the agent's parameters after it."""
    image.validate(node)
    facts = image.facts(node)
    examination = image.examine(image.described(node, facts))
    prepared_node = target(
        instance_info=node.instance_info, options=node.options,
        driver_internal_info={image.FACTS: facts, image.EXAMINED: examination},
    )  # fmt: skip
    return facts, image.image_info(prepared_node)


@pytest.mark.parametrize("form", ["{}", "glance://{}", "GLANCE://{}"])
def test_the_agent_gets_the_conductors_copy_and_the_hash_of_glance(images, node, tmp_path, form):
    uuid = images.add(DISK)
    facts, info = prepared(node(form.format(uuid)))
    (url,) = info["urls"]
    served = tmp_path / "root" / url.removeprefix("http://conductor/")
    assert DISK == served.read_bytes()
    assert ("sha512", hashlib.sha512(DISK).hexdigest(), "raw", uuid) == (
        info["os_hash_algo"], info["os_hash_value"], info["disk_format"], info["id"],
    )  # fmt: skip
    assert images.url not in json.dumps([facts, info])


def test_no_token_leaves_the_conductor(images, node):
    images.token = "ours"
    uuid = images.add(DISK)
    with keystone.serving() as service:
        changed = {
            "glance__auth_type": "password", "glance__auth_url": service.url,
            "glance__username": "ingot", "glance__password": keystone.PASSWORD,
        }  # fmt: skip
        facts, info = prepared(node(uuid, changed=changed))
    assert {"ours"} == {token for _, token in images.request_log}
    assert "ours" not in json.dumps([facts, info])


def test_no_token_follows_a_redirect(images, node):
    received = []

    class Thief(Handler):
        def do_GET(self):
            received.append(self.headers.get("X-Auth-Token"))
            self.answer(200, DISK)

    uuid = images.add(DISK)
    with serving(Thief) as thief:
        images.redirect = f"{thief.url}/disk"
        with pytest.raises(BadImage, match=f"Glance answered 302 .* for image {uuid}"):
            prepared(node(uuid))
    assert [] == received


def test_wrong_credentials_are_told_without_the_password(images, node):
    uuid = images.add(DISK)
    with keystone.serving() as service:
        changed = {
            "glance__auth_type": "password", "glance__auth_url": service.url,
            "glance__username": "ingot", "glance__password": "a wrong one",
        }  # fmt: skip
        with pytest.raises(Refused, match="Keystone refused a token for Glance") as refused:
            prepared(node(uuid, changed=changed))
    assert "a wrong one" not in str(refused.value)


@pytest.mark.parametrize(
    ("record", "error", "reason"),
    [
        ({"status": "queued"}, BadImage, "'queued' in Glance, not active"),
        ({"status": "deactivated"}, BadImage, "not active"),
        ({"size": 7}, BadImage, "7 bytes by its record"),
        ({"disk_format": "vmdk"}, BadImage, "'vmdk' may not be deployed"),
        ({"disk_format": "qcow2"}, BadImage, "is gpt|is raw"),
        ({"img_type": "tarball"}, BadImage, "neither whole-disk nor partition"),
        ({"kernel_id": ["x"]}, BadImage, "not a short text"),
        ({"os_hash_algo": "sha512", "os_hash_value": "0" * 128}, BadImage, "does not have the"),
        ({"os_hash_algo": None, "os_hash_value": None}, BadImage, "by md5 alone"),
        ({"os_hash_algo": "crc32", "checksum": None}, BadImage, "no checksum in its service"),
        ({"id": UNKNOWN}, HardwareError, "another image"),
    ],
)
def test_an_image_that_cannot_be_deployed_is_refused(images, node, record, error, reason):
    uuid = images.add(DISK, uuid="99999999-2222-3333-4444-555555555555")
    images.records[uuid] |= record
    with pytest.raises(error, match=reason):
        prepared(node(uuid))


@pytest.mark.parametrize(
    ("failures", "error", "reason"),
    [
        ([404], BadImage, "there is no such image"),
        ([403], Refused, r"credentials of \[glance\] may not read it"),
        ([503, 503], Unreachable, "answered 503"),
        ([500], Unreachable, "answered 500"),
    ],
)
def test_errors_of_glance_have_their_kinds(images, node, failures, error, reason):
    uuid = images.add(DISK)
    images.failures = failures
    with pytest.raises(error, match=reason):
        prepared(node(uuid))


def test_a_glance_that_is_away_for_a_moment_is_asked_again(images, node):
    uuid = images.add(DISK)
    images.failures = [503]
    assert prepared(node(uuid))
    assert [f"/v2/images/{uuid}"] * 2 == [path for path, _ in images.request_log[:2]]


def test_a_glance_without_answer_is_unreachable(images, node):
    lost_node = node(UNKNOWN, changed={"glance__endpoint_override": "http://127.0.0.1:1"})
    with pytest.raises(Unreachable, match=f"Glance did not answer about image {UNKNOWN}"):
        prepared(lost_node)


@pytest.mark.parametrize(
    ("record", "node_of", "allowed"),
    [
        ({"visibility": "private", "owner": "p1"}, {}, True),
        ({"visibility": "private", "owner": "p1"}, {"lessee": "p1"}, True),
        ({"visibility": "private", "owner": "p1"}, {"owner": "p1", "lessee": "p2"}, True),
        ({"visibility": "private", "owner": "p1"}, {"lessee": "p2"}, False),
        ({"visibility": "public", "owner": "p1"}, {"lessee": "p2"}, True),
        ({"visibility": "community", "owner": "p1"}, {"lessee": "p2"}, True),
        ({"visibility": "shared", "owner": "p1"}, {"lessee": "accepted"}, True),
        ({"visibility": "shared", "owner": "p1"}, {"lessee": "pending"}, False),
        ({"visibility": "shared", "owner": "p1"}, {"lessee": "p3"}, False),
        ({"visibility": None, "owner": None}, {"lessee": "p2"}, False),
    ],
)
def test_a_node_of_a_project_gets_the_images_of_its_project_alone(
    images, node, record, node_of, allowed
):
    uuid = images.add(DISK, **record)
    images.members[uuid] = [("accepted", "accepted"), ("pending", "pending")]
    if allowed:
        assert prepared(node(uuid, node_of))
        return
    with pytest.raises(BadImage, match="neither public nor of the project"):
        prepared(node(uuid, node_of))
    assert f"/v2/images/{uuid}/file" not in [path for path, _ in images.request_log]


def test_md5_is_used_only_where_settings_allow_it(images, node):
    uuid = images.add(DISK, os_hash_algo=None, os_hash_value=None)
    _, info = prepared(node(uuid, changed={"agent__allow_md5_checksum": True}))
    assert ("md5", MD5) == (info["os_hash_algo"], info["os_hash_value"])


def test_stated_fields_take_precedence(images, node):
    uuid = images.add(DISK, os_hash_value="0" * 128, disk_format="qcow2")
    stated = {"image_checksum": hashlib.sha256(DISK).hexdigest(), "image_disk_format": "raw"}
    _, info = prepared(node(uuid, **stated))
    assert ("sha256", "raw") == (info["os_hash_algo"], info["disk_format"])


@pytest.mark.parametrize(
    "properties", [{"kernel_id": UNKNOWN, "ramdisk_id": UNKNOWN}, {"img_type": "partition"}]
)
def test_properties_make_an_image_that_of_a_partition(images, node, properties):
    uuid = images.add(DISK, **properties)
    _, info = prepared(node(uuid, root_gb=2))
    assert ("partition", 2048) == (info["image_type"], info["root_mb"])
    with pytest.raises(BadImage, match="root_gb is required"):
        prepared(node(uuid))


def test_facts_of_another_image_are_ignored(images, node):
    partition, disk = images.add(DISK, img_type="partition"), images.add(DISK)
    facts, _ = prepared(node(partition, root_gb=2))
    changed_node = target(
        instance_info={"image_source": disk}, driver_internal_info={image.FACTS: facts}
    )  # fmt: skip
    assert image.is_whole_disk(changed_node)


def test_a_kernel_and_a_ramdisk_come_from_glance(images, node):
    kernel, ramdisk = images.add(b"a kernel"), images.add(b"a ramdisk")
    booted = node("http://images/x", kernel=kernel, ramdisk=f"glance://{ramdisk}")
    pair = instance.kernel_and_ramdisk(booted)
    assert [b"a kernel", b"a ramdisk"] == [
        cache.get(booted, url).path.read_bytes() for url in (pair.kernel, pair.ramdisk)
    ]


@pytest.mark.parametrize(
    ("source", "changed", "reason"),
    [
        ("glance://disk", {}, "not glance:// and the UUID"),
        (f"glance://{UNKNOWN}/../x", {}, "not glance:// and the UUID"),
        ("disk", {}, "neither a URL nor the UUID"),
        (UNKNOWN, {"glance__endpoint_override": None}, r"set \[glance\]auth_url"),
        (UNKNOWN, {"deploy__http_url": None}, r"\[deploy\]http_url is not set"),
    ],
)
def test_what_validate_can_know_without_glance(images, node, source, changed, reason):
    with pytest.raises(InvalidDriverInfo, match=reason):
        image.validate(node(source, changed=changed))
    assert [] == images.request_log


def test_settings_have_ironics_names():
    assert {"auth_url", "endpoint_override", "num_retries"} <= set(Settings().options()["glance"])
