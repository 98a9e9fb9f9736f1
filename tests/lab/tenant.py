"""
Systems of tenants: disk images that boot with BIOS and UEFI, and print their name to the console.

Built without mounts: one partition, an EFI system partition that a BIOS can boot, too.
"""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.lab import cache
from tests.lab.ramdisk import needed, run

HERE = Path(__file__).with_name("tenant")
MODULES = (
    "virtio_pci", "virtio_blk", "virtio_net", "virtio_scsi", "sd_mod", "ata_piix", "ahci",
    "isofs", "vfat", "nls_cp437", "nls_iso8859-1", "nls_ascii",
)  # fmt: skip
MIB = 1 << 20
PARTITION = 40  # MiB
ARGUMENTS = "console=ttyS0 quiet"
SYSLINUX = f"""SERIAL 0 115200
DEFAULT system
LABEL system
 KERNEL /vmlinuz
 INITRD /initrd
 APPEND {ARGUMENTS}
"""
GRUB = f"""search --no-floppy --set=root --file /vmlinuz
linux /vmlinuz {ARGUMENTS}
initrd /initrd
boot
"""


@dataclass(frozen=True, slots=True)
class Image:
    """A disk image."""

    path: Path  # qcow2 or raw

    @property
    def sha256(self):
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def build(ramdisk, system, say):
    """
    Build the images of a system of this name: (qcow2, raw).

    ramdisk: source of the kernel.
    """
    made_of = (HERE, Path(__file__), ramdisk.kernel, system)
    with cache.kept(f"tenant-{system}", *made_of) as (folder, made):
        qcow2, raw = folder / f"{system}.qcow2", folder / f"{system}.raw"
        if not made:
            say(f"building the image of the {system} system")
            work = folder / "work"
            work.mkdir()
            _ramdisk_of_tenant(ramdisk, system, work)
            _disk(ramdisk, work, raw)
            run("qemu-img", "convert", "-c", "-O", "qcow2", str(raw), str(qcow2))
            shutil.rmtree(work)
    return Image(qcow2), Image(raw)


def _ramdisk_of_tenant(ramdisk, system, work):
    root = work / "root"
    for name in ("bin", "proc", "sys", "dev", "modules"):
        (root / name).mkdir(parents=True)
    debian = ramdisk.modules.parents[3]
    shutil.copy(debian / "usr/bin/busybox", root / "bin/busybox")
    order = []
    for path in needed(debian, ramdisk.modules.name, MODULES):
        shutil.copy(debian / path.lstrip("/"), root / "modules")
        order.append(Path(path).name)
    (root / "modules.order").write_text("\n".join(order))
    (root / "system").write_text(system)
    shutil.copy(HERE / "init", root / "init")
    shutil.copy(HERE.with_name("ramdisk") / "lease", root / "lease")
    pack = "find . | cpio -o -H newc --quiet -R 0:0 | gzip -6 > ../initrd"
    run("bash", "-o", "pipefail", "-c", pack, cwd=root)


def _disk(ramdisk, work, raw):
    (work / "syslinux.cfg").write_text(SYSLINUX)
    (work / "grub.cfg").write_text(GRUB)
    modules = "part_gpt part_msdos fat search linux normal boot"
    run(
        "grub-mkstandalone", "-O", "x86_64-efi", "-o", "boot.efi", "--locales=", "--fonts=",
        "--themes=", f"--modules={modules}", f"--install-modules={modules} echo",
        "boot/grub/grub.cfg=grub.cfg", cwd=work,
    )  # fmt: skip
    with (work / "partition").open("wb") as partition:
        partition.truncate(PARTITION * MIB)
    run("mkfs.vfat", "-F", "32", "-s", "1", "-n", "SYSTEM", "partition", cwd=work)
    run("mmd", "-i", "partition", "::/EFI", "::/EFI/BOOT", cwd=work)
    for source, place in (
        (ramdisk.kernel, "vmlinuz"),
        ("initrd", "initrd"),
        ("syslinux.cfg", "syslinux.cfg"),
        ("boot.efi", "EFI/BOOT/BOOTX64.EFI"),
    ):
        run("mcopy", "-i", "partition", str(source), f"::/{place}", cwd=work)
    run("syslinux", "--install", "partition", cwd=work)
    with raw.open("wb") as disk:
        disk.truncate((PARTITION + 2) * MIB)
    run(
        "sgdisk", "-n", f"1:2048:+{PARTITION}M", "-t", "1:EF00", "-c", "1:system",
        "-A", "1:set:2", str(raw),
    )  # fmt: skip
    with raw.open("r+b") as disk:
        disk.write(Path("/usr/lib/syslinux/mbr/gptmbr.bin").read_bytes()[:440])
        disk.seek(MIB)
        with (work / "partition").open("rb") as partition:
            shutil.copyfileobj(partition, disk)
