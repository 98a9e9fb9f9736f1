"""Boot images for BMCs: their contents, and their use as virtual media."""

import hashlib
import struct
from dataclasses import replace

import pytest

from drivers.boot import esp
from drivers.builtin import HARDWARE_TYPES
from drivers.core.bmc import Bmcs
from drivers.core.errors import BadImage, InvalidDriverInfo
from drivers.core.registry import load
from drivers.core.target import Agent
from drivers.images import cache, files
from drivers.simulator.simulator import running
from tests.unit.drivers.machines import KERNEL, OPTIONS, RAMDISK, on, target


@pytest.fixture(scope="module")
def fleet():
    with running(machines=1) as simulator:
        yield simulator


@pytest.fixture
def options(tmp_path):
    loaders = {name: tmp_path / name for name in ("isolinux.bin", "ldlinux.c32", "grub.efi")}
    for name, path in loaders.items():
        path.write_bytes(name.encode() * 1000)
    (tmp_path / "ca.pem").write_text("authorities")
    changes = {
        "DEFAULT": {
            "isolinux_bin": str(loaders["isolinux.bin"]),
            "ldlinux_c32": str(loaders["ldlinux.c32"]),
            "efi_loader_by_arch": {"x86_64": str(loaders["grub.efi"])},
            "grub_config_path": "EFI/BOOT/grub.cfg",
        },
        "api": {"public_endpoint": "http://service:6385/"},
        "agent": {"api_ca_file": str(tmp_path / "ca.pem")},
        "deploy": {"http_root": str(tmp_path / "www"), "http_url": "http://conductor:8080"},
        "pxe": {"instance_master_path": str(tmp_path / "kept")},
    }
    return {group: {**values, **changes.get(group, {})} for group, values in OPTIONS.items()}


@pytest.fixture
def node(fleet, images, options):
    machine = fleet.machines[0]
    return target(
        "redfish",
        registry=load(HARDWARE_TYPES, ["redfish"], bmcs=Bmcs(trip_after=100)),
        options=options,
        driver_info=machine.driver_info()
        | {"deploy_kernel": f"{images.url}/kernel", "deploy_ramdisk": f"{images.url}/ramdisk"},
    )


def medium(node):
    """Path of the image that is inserted into the BMC."""
    (folder,) = files.published_folders(node.options, node.uuid)
    return folder / "boot.iso"


def boots(path):
    """Return (platform, first bytes of the loader) of each entry of the boot catalog."""
    image = path.read_bytes()
    sector = lambda number: image[number * 2048 : (number + 1) * 2048]  # noqa: E731
    catalog = sector(struct.unpack_from("<I", sector(17), 0x47)[0])
    entries = [(catalog[1], catalog[32:64])]
    entries += [(catalog[65], catalog[96:128])] if catalog[64] in (0x90, 0x91) else []
    return [(kind, sector(struct.unpack_from("<I", entry, 8)[0])) for kind, entry in entries]


def test_an_image_holds_kernel_ramdisk_arguments_and_token_for_both_kinds_of_firmware(node, fleet):
    node.driver.boot.validate(node)
    node.driver.boot.prepare_ramdisk(node)
    path, token = medium(node), node.reports["agent_token"]
    isolinux, grub, ca, tls_settings = on(
        path, "/isolinux/isolinux.cfg", "/EFI/BOOT/grub.cfg",
        "/etc/ironic-python-agent/ironic.crt", "/etc/ironic-python-agent.d/ironic-tls.conf",
    )  # fmt: skip
    assert [KERNEL, RAMDISK] == on(path, "/vmlinuz", "/initrd")
    line = (
        f"nofb vga=normal ipa-api-url=http://service:6385 ipa-agent-token={token}"
        " boot_method=vmedia ir_pub_id="
    )
    assert f"  append {line}" in isolinux.decode()
    assert f"linux /vmlinuz {line}" in grub.decode()
    assert (b"authorities", b"cafile = /etc/ironic-python-agent/ironic.crt") == (
        ca, tls_settings.splitlines()[1],
    )  # fmt: skip
    (bios, loader), (uefi, partition) = boots(path)
    assert (0, 0xEF) == (bios, uefi)
    assert loader.startswith(b"isolinux")  # its table follows
    assert b"FAT16" == partition[54:59]
    url = fleet.machines[0].media["Cd"]
    assert url == f"http://conductor:8080/{path.relative_to(node.options['deploy']['http_root'])}"
    assert token not in url


def test_an_image_is_built_once_for_a_token_and_removed_after_use(node, fleet):
    boot = node.driver.boot
    boot.prepare_ramdisk(node)
    token = node.reports["agent_token"]
    again = replace(node, agent=Agent(token=token, pregenerated=True), reports={})
    build_time = medium(node).stat().st_mtime_ns
    boot.prepare_ramdisk(again)
    assert (token, build_time) == (again.reports["agent_token"], medium(node).stat().st_mtime_ns)
    boot.prepare_ramdisk(replace(node, reports={}))  # the token is no longer recorded
    assert medium(node).parent.name
    boot.clean_up_ramdisk(node)
    assert [] == files.published_folders(node.options)
    assert "" == fleet.machines[0].media["Cd"]


def test_an_inspection_gets_the_url_of_its_report(node):
    node.options["inspector"]["extra_kernel_params"] = "ipa-inspection-collectors=default,logs"
    inspecting = replace(node, provision_state="inspecting")
    node.driver.boot.prepare_ramdisk(inspecting)
    (grub,) = on(medium(node), "/boot/grub/grub.cfg")
    assert b"ipa-inspection-collectors=default,logs ipa-api-url=" in grub
    assert b"ipa-inspection-callback-url=http://service:6385/v1/continue_inspection" in grub


def test_a_prepared_image_gets_no_token(node, fleet):
    driver_info = {**node.driver_info, "rescue_iso": "http://x/rescue.iso"}
    earlier_agent = Agent(token="of another medium", pregenerated=True)
    rescuing = replace(
        node, driver_info=driver_info, provision_state="rescuing", agent=earlier_agent
    )
    node.driver.boot.prepare_ramdisk(rescuing)
    assert None is rescuing.reports["agent_token"]
    assert ([], "http://x/rescue.iso") == (
        files.published_folders(node.options), fleet.machines[0].media["Cd"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("info", "line"),
    [
        ({}, "nofb vga=normal"),
        ({"driver_info": "quiet %default%"}, "quiet nofb vga=normal"),
        ({"driver_info": "a", "instance_info": "b"}, "b"),
    ],
)
def test_arguments_of_the_instance_go_before_those_of_the_node(node, info, line):
    fields = {
        place: {**getattr(node, place), "kernel_append_params": arguments}
        for place, arguments in info.items()
    }
    node.driver.boot.prepare_ramdisk(replace(node, **fields))
    (isolinux,) = on(medium(node), "/isolinux/isolinux.cfg")
    assert f"append {line} ipa-api-url=" in isolinux.decode()


@pytest.mark.parametrize(
    ("info", "complaint"),
    [
        ({"kernel_append_params": "a\nb"}, "driver_info/kernel_append_params"),
        ({"deploy_ramdisk": None}, "driver_info/deploy_ramdisk is required"),
        ({"deploy_kernel": "ftp://x/k"}, "driver_info/deploy_kernel"),
        ({"external_http_url": "x"}, "external_http_url"),
    ],
)
def test_a_node_without_the_files_of_an_image_is_refused_by_validation(node, info, complaint):
    with pytest.raises(InvalidDriverInfo, match=complaint):
        node.driver.boot.validate(replace(node, driver_info={**node.driver_info, **info}))


@pytest.mark.parametrize(
    ("setting", "mode", "complaint"),
    [
        ("isolinux_bin", "bios", r"\[DEFAULT\]isolinux_bin: .*isolinux"),
        ("efi_loader_by_arch", "uefi", r"\[DEFAULT\]efi_loader_by_arch of x86_64"),
    ],
)
def test_a_missing_loader_is_named_when_the_machine_needs_it(node, setting, mode, complaint):
    default = node.options["DEFAULT"]
    default[setting] = {"x86_64": "/none"} if setting.startswith("efi") else "/none"
    other = "uefi" if mode == "bios" else "bios"

    def booting(mode):
        properties = {"capabilities": f"boot_mode:{mode}"}
        return replace(node, properties=properties, reports={})

    node.driver.boot.prepare_ramdisk(booting(other))
    assert 1 == len(boots(medium(node)))
    with pytest.raises(BadImage, match=complaint):
        node.driver.boot.prepare_ramdisk(booting(mode))


def test_a_ramdisk_instance_keeps_its_image_while_it_exists(node, images):
    info = {"kernel": f"{images.url}/kernel", "ramdisk": f"{images.url}/ramdisk"}
    it = replace(
        node,
        driver=load(HARDWARE_TYPES, ["redfish"]).driver("redfish", {"deploy": "ramdisk"}),
        instance_info={**info, "ramdisk_kernel_arguments": "root=live"},
    )
    it.driver.deploy.validate(it)
    it.driver.boot.prepare_instance(it)
    assert ["instance"] == [
        files.use_of(folder) for folder in files.published_folders(it.options, it.uuid)
    ]
    assert b"append root=/dev/ram0 root=live\n" in on(medium(it), "/isolinux/isolinux.cfg")[0]
    it.driver.boot.clean_up_instance(it)
    assert [] == files.published_folders(it.options)


def test_uefi_finds_the_loader_on_the_partition():
    """Follow the clusters from the root directory, as firmware does."""
    loader = bytes(range(256)) * 9000
    image = esp.image(loader, "x86_64")
    size, per_cluster, reserved, fats, entries = struct.unpack_from("<HBHBH", image, 11)
    fat_sectors = struct.unpack_from("<H", image, 22)[0]
    root = (reserved + fats * fat_sectors) * size
    data = root + entries * 32

    def entry(at, name):
        offset = next(p for p in range(at, at + 32 * 16, 32) if image[p : p + 11] == name)
        return struct.unpack_from("<H", image, offset + 26)[0], image[offset + 28 : offset + 32]

    place = lambda cluster: data + (cluster - 2) * per_cluster * size  # noqa: E731
    efi, _ = entry(root, b"EFI        ")
    boot, _ = entry(place(efi), b"BOOT       ")
    cluster, length = entry(place(boot), b"BOOTX64 EFI")
    read = b""
    while cluster < 0xFFF8:
        read += image[place(cluster) : place(cluster) + per_cluster * size]
        cluster = struct.unpack_from("<H", image, reserved * size + cluster * 2)[0]
    assert loader == read[: struct.unpack("<I", length)[0]]


def test_a_copy_is_fetched_again_only_after_a_change(node, images):
    url = f"{images.url}/kernel"
    copy = cache.get(node, url)
    assert hashlib.sha256(KERNEL).hexdigest() == copy.sha256
    images.files["/kernel"] = b"another"
    assert b"another" == cache.get(node, url).path.read_bytes()


def test_unused_copies_are_removed_by_age_and_size(tmp_path):
    for name in ("old", "linked", "new"):
        (tmp_path / name).write_bytes(bytes(1 << 20))
    (tmp_path / "elsewhere").mkdir()
    cache.put(tmp_path / "linked", tmp_path / "elsewhere" / "kernel")
    assert 0 == cache.evict(tmp_path, size=3, ttl=60)
    assert 2 == cache.evict(tmp_path, size=0, ttl=60)
    assert ["linked"] == [
        path.name for path in tmp_path.iterdir() if path.is_file() and not path.suffix
    ]
