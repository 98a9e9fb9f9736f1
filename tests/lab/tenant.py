"""
Systems of tenants: disk images that boot with BIOS and UEFI, and print their name to the console.

Built without mounts: one partition, an EFI system partition that a BIOS can boot, too. Shim, GRUB and
kernel are those that Debian has signed for Secure Boot.
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
    "isofs", "vfat", "nls_cp437", "nls_iso8859-1", "nls_ascii", "efivarfs",
)  # fmt: skip
#: Boot loaders that Debian signs; the first one is also signed by Microsoft, whose keys firmware has.
SHIM = Path("/usr/lib/shim/shimx64.efi.signed")
SIGNED_GRUB = Path("/usr/lib/grub/x86_64-efi-signed")
MIB = 1 << 20
PARTITION = 40  # MiB
ARGUMENTS = "console=ttyS0 quiet"
#: Of the tenant's user root.
PASSWORD = "open-sesame"
SYSLINUX = f"""SERIAL 0 115200
DEFAULT system
LABEL system
 KERNEL /vmlinuz
 INITRD /initrd
 APPEND {ARGUMENTS}
"""
GRUB = f"""linux /vmlinuz {ARGUMENTS}
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
    with cache.kept(f"tenant-{system}", *made_of) as (folder, is_complete):
        qcow2, raw = folder / f"{system}.qcow2", folder / f"{system}.raw"
        if not is_complete:
            say(f"building the image of the {system} system")
            work = folder / "work"
            work.mkdir()
            _ramdisk_of_tenant(ramdisk, system, work)
            _disk(ramdisk, work, raw)
            run("qemu-img", "convert", "-c", "-O", "qcow2", str(raw), str(qcow2))
            shutil.rmtree(work)
    return Image(qcow2), Image(raw)


def signed_partition(folder):
    """Make an EFI system partition for a CD: shim, and GRUB, which looks for /.disk/info on the CD."""
    path = folder / "signed-esp.img"
    with path.open("wb") as partition:
        partition.truncate(8 * MIB)
    run("mkfs.vfat", "-F", "12", str(path))
    run("mmd", "-i", str(path), "::/EFI", "::/EFI/BOOT")
    for source, name in ((SHIM, "BOOTX64.EFI"), (SIGNED_GRUB / "gcdx64.efi.signed", "grubx64.efi")):
        run("mcopy", "-i", str(path), str(source), f"::/EFI/BOOT/{name}")
    return path


def network_grub(folder):
    """Make a GRUB that boots over HTTP: the one that Debian signs has no HTTP."""
    path = folder / "grub-http.efi"
    modules = ("efinet", "http", "tftp", "normal", "configfile", "linux", "echo", "test")
    run("grub-mkimage", "-O", "x86_64-efi", "-p", "/grub", "-o", str(path), *modules)
    return path


def _ramdisk_of_tenant(ramdisk, system, work):
    root = work / "root"
    for name in ("bin", "proc", "sys", "dev", "etc", "modules"):
        (root / name).mkdir(parents=True)
    debian = ramdisk.modules.parents[3]
    shutil.copy(debian / "usr/bin/busybox", root / "bin/busybox")
    order = []
    for path in needed(debian, ramdisk.modules.name, MODULES):
        shutil.copy(debian / path.lstrip("/"), root / "modules")
        order.append(Path(path).name)
    (root / "modules.order").write_text("\n".join(order))
    (root / "system").write_text(system)
    password = run("openssl", "passwd", "-6", PASSWORD).decode().strip()
    (root / "etc/passwd").write_text(f"root:{password}:0:0:root:/:/bin/sh\n")
    shutil.copy(HERE / "init", root / "init")
    shutil.copy(HERE.with_name("ramdisk") / "lease", root / "lease")
    pack = "find . | cpio -o -H newc --quiet -R 0:0 | gzip -6 > ../initrd"
    run("bash", "-o", "pipefail", "-c", pack, cwd=root)


def _disk(ramdisk, work, raw):
    (work / "syslinux.cfg").write_text(SYSLINUX)
    (work / "grub.cfg").write_text(GRUB)
    with (work / "partition").open("wb") as partition:
        partition.truncate(PARTITION * MIB)
    run("mkfs.vfat", "-F", "32", "-s", "1", "-n", "SYSTEM", "partition", cwd=work)
    run("mmd", "-i", "partition", "::/EFI", "::/EFI/BOOT", "::/EFI/debian", cwd=work)
    for source, place in (
        (ramdisk.kernel, "vmlinuz"),
        ("initrd", "initrd"),
        ("syslinux.cfg", "syslinux.cfg"),
        (SHIM, "EFI/BOOT/BOOTX64.EFI"),
        (SIGNED_GRUB / "grubx64.efi.signed", "EFI/BOOT/grubx64.efi"),
        ("grub.cfg", "EFI/debian/grub.cfg"),
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
