"""Validation refuses the inputs that a flow would refuse without asking a machine."""

import pytest

from drivers.core.errors import InvalidDriverInfo
from tests.unit.drivers.machines import OPTIONS, target

IMAGE = {"image_source": "http://images/disk.raw", "image_checksum": "a" * 64}
WEB = {**OPTIONS, "deploy": {**OPTIONS["deploy"], "http_url": None, "http_root": "/tmp"}}


def refused(node, kind):
    with pytest.raises(InvalidDriverInfo) as raised:
        node.driver.by_kind[kind].validate(node)
    return str(raised.value)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"instance_info": {"image_disk_format": "vmdk"}}, "instance_info/image_disk_format"),
        ({"instance_info": {"image_disk_format": ["raw"]}}, "instance_info/image_disk_format"),
        ({"instance_info": {"ephemeral_format": 4}}, "instance_info/ephemeral_format"),
        ({"instance_info": {"preserve_ephemeral": "maybe"}}, "instance_info/preserve_ephemeral"),
        ({"instance_info": {"preserve_ephemeral": [1]}}, "instance_info/preserve_ephemeral"),
        ({"instance_info": {"swap_mb": float("inf")}}, "instance_info/swap_mb"),
        ({"properties": {"memory_mb": "8 GiB"}}, "properties/memory_mb"),
        ({"properties": {"memory_mb": [8]}}, "properties/memory_mb"),
        ({"driver_info": {"image_no_proxy": ["localhost"]}}, "driver_info/image_no_proxy"),
        ({"driver_info": {"agent_verify_ca": "/secret/ca.pem"}}, "driver_info/agent_verify_ca"),
    ],
)
def test_a_deployment(fields, complaint):
    options = {
        **OPTIONS,
        "conductor": {**OPTIONS["conductor"], "verify_ca_allowed_paths": ("/etc",)},
    }
    info = IMAGE | fields.get("instance_info", {})
    node = target(
        interfaces={"deploy": "direct"}, options=options, **{**fields, "instance_info": info}
    )
    assert refused(node, "deploy").startswith(complaint)


@pytest.mark.parametrize("value", [True, False, "true", "False", None])
def test_flags_have_two_values(value):
    info = IMAGE | {"preserve_ephemeral": value}
    node = target(interfaces={"deploy": "direct"}, instance_info=info)
    node.driver.deploy.validate(node)


def test_an_installer_without_a_web_server_for_its_kickstart_file():
    info = {name: f"http://mirror/{name}" for name in ("kernel", "ramdisk", "stage2")}
    info["image_source"] = "http://mirror/root.squashfs"
    node = target(interfaces={"deploy": "anaconda", "boot": "pxe"}, options=WEB, instance_info=info)
    assert "[deploy]http_url is not set" in refused(node, "deploy")


@pytest.mark.parametrize(
    ("driver_info", "complaint"),
    [
        ({}, "deploy_kernel and deploy_ramdisk are required"),
        ({"rescue_kernel": "http://images/k"}, "driver_info/rescue_ramdisk is required"),
        ({"rescue_kernel": "k", "rescue_ramdisk": "r"}, "driver_info/rescue_kernel"),
    ],
)
def test_a_rescue_without_an_image_to_boot(driver_info, complaint):
    """The tenant's machine would be off by then."""
    node = target(
        interfaces={"rescue": "agent", "boot": "ipxe"},
        driver_info=driver_info,
        provision_state="active",
        options={**OPTIONS, "deploy": {**OPTIONS["deploy"], "http_url": "http://conductor"}},
    )
    assert complaint in refused(node, "rescue")


def test_a_rescue_with_its_own_images_needs_no_others():
    node = target(
        interfaces={"rescue": "agent", "boot": "ipxe"},
        driver_info={"rescue_kernel": "http://images/k", "rescue_ramdisk": "http://images/r"},
        provision_state="active",
        options={**OPTIONS, "deploy": {**OPTIONS["deploy"], "http_url": "http://conductor"}},
    )
    node.driver.rescue.validate(node)
