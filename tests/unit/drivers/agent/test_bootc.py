"""Deploy interfaces bootc and autodetect: fields, and choice."""

import pytest

from drivers.agent.autodetect import Autodetect
from drivers.agent.bootc import Bootc
from drivers.builtin import HARDWARE_TYPES
from drivers.core.errors import InvalidDriverInfo
from drivers.core.registry import load
from tests.unit.drivers.machines import target

CONTAINER = "oci://registry.example.org/os/server:v1"
ISO, IMAGE = {"boot_iso": "http://images/x.iso"}, {"image_source": "http://images/disk.raw"}
RAMDISK = {"kernel": "http://images/k", "ramdisk": "http://images/r"}


@pytest.mark.parametrize(
    ("info", "field"),
    [
        ({}, "image_source: deploy_interface bootc needs oci://"),
        (IMAGE, "image_source: deploy_interface bootc needs oci://"),
        ({"image_source": "oci://x"}, "image_source: .*oci://HOST"),
        ({"image_source": CONTAINER, "bootc_authorized_keys": ["x"]}, "bootc_authorized_keys"),
        ({"image_source": CONTAINER, "bootc_tpm2_luks": "yes"}, "bootc_tpm2_luks"),
        ({"image_source": CONTAINER, "configdrive": 7}, "configdrive"),
    ],
)
def test_a_wrong_field_of_a_container_is_named(info, field):
    with pytest.raises(InvalidDriverInfo, match=field):
        Bootc().validate(target(interfaces={"deploy": "bootc"}, instance_info=info))


@pytest.mark.parametrize(
    "info", [{}, {"bootc_authorized_keys": "ssh-rsa x", "bootc_tpm2_luks": True}]
)
def test_a_container_needs_its_reference_only(info):
    info = {"image_source": CONTAINER, **info}
    Bootc().validate(target(interfaces={"deploy": "bootc"}, instance_info=info))


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ({}, "autodetect"),
        (IMAGE, "autodetect"),
        (IMAGE | RAMDISK, "autodetect"),
        ({"kernel": "http://images/k"}, "autodetect"),
        (ISO, "ramdisk"),
        (RAMDISK, "ramdisk"),
    ],
)
def test_autodetect_is_direct_or_ramdisk(info, name):
    drivers = load(HARDWARE_TYPES)
    driver = drivers.driver("redfish", {"deploy": "autodetect"}, info)
    assert name == driver.deploy.name
    assert isinstance(driver.deploy, Autodetect) == (name == "autodetect")


def test_autodetect_names_the_interface_that_settings_disable():
    drivers = load(HARDWARE_TYPES, enabled_interfaces={"deploy": ["autodetect", "direct"]})
    with pytest.raises(InvalidDriverInfo, match=r"deploy_interface: .*: ramdisk"):
        drivers.driver("redfish", {"deploy": "autodetect"}, ISO)
