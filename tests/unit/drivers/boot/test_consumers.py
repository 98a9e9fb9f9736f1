"""Boot files as their consumers read them: GRUB's own parser, and a reader of boot catalogs."""

import shutil
import subprocess

import pytest

from drivers.boot import esp, iso, scripts
from drivers.images.cache import CachedFile
from tests.support import cloud_init, debian
from tests.support.prerequisites import not_run

LINES = [
    "nofb vga=normal ipa-api-url=http://[2001:db8::1]:6385 boot_method=vmedia",
    "a=\"two words\" b='quoted' c=$d e=${f} g;h |i &j <k >l {m} (n) #o !p ~q *r ?s",
    'ending\\ back\\slash %default% ünïcode= "unbalanced',
    "",
]


def check(text, folder):
    """Run GRUB's check of a script."""
    program = debian.provide(lambda: shutil.which("grub-script-check"), "grub-common")
    if program is None:
        not_run("grub-script-check")
    script = folder / "grub.cfg"
    script.write_text(text)
    process = subprocess.run([program, script], check=False, capture_output=True, text=True)
    return process.returncode, process.stderr


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("line", LINES)
def test_grub_parses_its_configurations(tmp_path, line, network):
    text = scripts.grub("/vmlinuz", "/initrd", line, network=network)
    assert (0, "") == check(text, tmp_path)


@pytest.mark.parametrize("text", [scripts.grub_first(), scripts.LOCAL["grub"]])
def test_grub_parses_the_configurations_of_all_machines(tmp_path, text):
    assert (0, "") == check(text, tmp_path)


def test_grub_refuses_a_broken_configuration(tmp_path):
    assert 0 != check("menuentry {", tmp_path)[0]


@pytest.mark.parametrize(
    ("bios", "uefi", "platforms"),
    [(True, True, ["BIOS", "UEFI"]), (True, False, ["BIOS"]), (False, True, ["UEFI"])],
)
def test_a_medium_has_the_boot_catalog_and_files_that_firmware_and_loaders_look_for(
    tmp_path, bios, uefi, platforms
):
    for name in ("isolinux.bin", "ldlinux.c32", "kernel", "ramdisk"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
    names = ("isolinux.bin", "ldlinux.c32") if bios else ()
    partition = esp.image(b"MZ a loader" * 100, "x86_64") if uefi else b""
    loaders = iso.Loaders({name: tmp_path / name for name in names}, partition, "EFI/BOOT/grub.cfg")
    kernel, ramdisk = (CachedFile(tmp_path / name, "") for name in ("kernel", "ramdisk"))
    content = iso.Content(kernel, ramdisk, LINES[0])
    medium = tmp_path / "boot.iso"
    iso.build(medium, content, loaders)
    command = [cloud_init.xorriso(), "-indev", medium, "-report_el_torito", "plain"]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    images = [line.split() for line in report.splitlines() if "boot img :" in line]
    assert platforms == [words[6] for words in images if words[5].isdigit()]
    cloud_init.extract("/", medium, tmp_path / "files")
    files = tmp_path / "files"
    assert b"kernel" * 1000 == (files / "vmlinuz").read_bytes()
    assert b"ramdisk" * 1000 == (files / "initrd").read_bytes()
    if uefi:
        for place in ("EFI/BOOT/grub.cfg", "boot/grub/grub.cfg"):
            assert (0, "") == check((files / place).read_text(), tmp_path)
        assert partition == (files / "boot/efi.img").read_bytes()
    if bios:
        assert (files / "isolinux/isolinux.cfg").read_text().startswith("default boot")
