"""Boot interface, boot mode, secure boot, architecture and kind of instance: each cell by `validate`."""

from itertools import product

import pytest

from drivers.builtin import INTERFACES
from drivers.core import capabilities
from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import VolumeConnector, VolumeTarget
from tests.unit.drivers.machines import target

UEFI, BIOS = "uefi", "bios"
#: Boot interface -> boot modes, and the instances that it boots beside those on a disk.
TABLE = {
    "fake": ({UEFI, BIOS}, set()),
    "ipxe": ({UEFI, BIOS}, {"iso", "ramdisk", "installer", "volume"}),
    "http-ipxe": ({UEFI}, {"iso", "ramdisk", "installer", "volume"}),
    "pxe": ({UEFI, BIOS}, {"ramdisk", "installer"}),
    "http": ({UEFI}, {"ramdisk", "installer"}),
    "redfish-virtual-media": ({UEFI, BIOS}, {"iso", "ramdisk"}),
    "idrac-redfish-virtual-media": ({UEFI, BIOS}, {"iso", "ramdisk"}),
    "redfish-https": ({UEFI}, {"iso", "ramdisk"}),
}
#: Management interface -> whether it changes secure boot.
MANAGEMENT = {
    "redfish": True,
    "idrac-redfish": True,
    "fake": True,
    "ipmitool": False,
    "noop": False,
}
PAIR = {"kernel": "http://images/kernel", "ramdisk": "http://images/ramdisk"}
#: Kind of instance -> deploy interface, storage interface, instance_info.
KINDS = {
    "disk": ("direct", "noop", {}),
    "iso": ("ramdisk", "noop", {"boot_iso": "http://images/a.iso"}),
    "ramdisk": ("ramdisk", "noop", PAIR),
    "installer": (
        "anaconda", "noop",
        {**PAIR, "image_source": "http://images/tree", "stage2": "http://images/stage2"},
    ),
    "volume": ("direct", "external", {}),
}  # fmt: skip


def node(interfaces, **fields):
    return target("fake-hardware", interfaces, **fields)


def refusal(check, it):
    """Return the error of a check, or ""."""
    try:
        check(it)
    except InvalidDriverInfo as error:
        return str(error)
    return ""


def test_the_table_has_all_boot_interfaces():
    assert set(INTERFACES["boot"]) == set(TABLE)


@pytest.mark.parametrize("place", ["properties", "instance_info"])
@pytest.mark.parametrize("boot", TABLE)
def test_each_boot_mode_secure_boot_and_management_interface(boot, place):
    for mode, secure, management in product((None, UEFI, BIOS), (False, True), MANAGEMENT):
        requested = {} if mode is None else {"boot_mode": mode}
        fields = {place: {"capabilities": requested}}
        if secure:
            instance = {"secure_boot": "true", **(requested if place == "instance_info" else {})}
            fields["instance_info"] = {"capabilities": instance}
        it = node({"boot": boot, "management": management}, **fields)
        cell = (boot, mode, secure, management)
        message = refusal(it.driver.boot.validate, it)
        if secure and mode == BIOS:
            assert "secure_boot needs boot_mode uefi" in message, cell
        elif mode is not None and mode not in TABLE[boot][0]:
            assert f"{place}/capabilities: boot_mode {mode}" in message, cell
            assert f"boot_interface {boot} boots in uefi only" in message, cell
        elif secure and not MANAGEMENT[management]:
            assert f"management_interface {management} cannot change it" in message, cell
        else:
            assert "boot_mode" not in message, cell
            assert "secure_boot" not in message, cell


@pytest.mark.parametrize("boot", TABLE)
@pytest.mark.parametrize(
    ("architecture", "has_bios"),
    [("x86_64", True), ("i686", True), ("ppc64le", True), (None, True), ("aarch64", False),
     ("arm64", False)],
)  # fmt: skip
def test_no_arm_machine_has_a_legacy_bios(boot, architecture, has_bios):
    for mode in (UEFI, BIOS):
        it = node(
            {"boot": boot},
            properties={"cpu_arch": architecture, "capabilities": {"boot_mode": mode}},
        )
        is_right = mode in TABLE[boot][0] and (mode == UEFI or has_bios)
        assert is_right is (not refusal(capabilities.validate, it)), (boot, architecture, mode)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("boot", TABLE)
def test_each_kind_of_instance(boot, kind):
    deploy, storage, info = KINDS[kind]
    it = node(
        {"boot": boot, "deploy": deploy, "storage": storage},
        instance_info=info,
        volume_targets=(VolumeTarget("v", "iscsi", "1", 0),) if kind == "volume" else (),
        volume_connectors=(VolumeConnector("c", "iqn", "iqn.2026-01.test:c"),),
    )
    check = it.driver.storage.validate if kind == "volume" else it.driver.deploy.validate
    message = refusal(check, it)
    is_bootable = kind == "disk" or kind in TABLE[boot][1]
    assert is_bootable is (f"boot_interface {boot} cannot" not in message), (boot, kind, message)
