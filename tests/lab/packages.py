"""Debian 12 packages that the lab needs."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

#: Required file or program (without a slash) -> packages that have it.
NEEDED = {
    "qemu-system-x86_64": ("qemu-system-x86", "seabios", "ipxe-qemu"),
    "qemu-img": ("qemu-utils",),
    "/usr/share/OVMF/OVMF_VARS_4M.ms.fd": ("ovmf",),
    "/usr/lib/shim/shimx64.efi.signed": ("shim-signed",),
    "/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed": ("grub-efi-amd64-signed",),
    "libvirtd": ("libvirt-daemon",),
    "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so": (
        "libvirt-daemon-driver-qemu",
    ),
    "virsh": ("libvirt-clients",),
    "/usr/include/libvirt/libvirt.h": ("libvirt-dev", "pkg-config", "gcc", "libc6-dev"),
    f"{sysconfig.get_path('include')}/Python.h": ("python3-dev",),
    "debootstrap": ("debootstrap",),
    "ipmi_sim": ("openipmi",),
    "ipmitool": ("ipmitool",),
    "xorriso": ("xorriso",),
    "/usr/lib/ISOLINUX/isolinux.bin": ("isolinux", "syslinux", "syslinux-common"),
    "/usr/lib/syslinux/modules/bios/ldlinux.c32": ("syslinux-common",),
    "syslinux": ("syslinux",),
    "mcopy": ("mtools",),
    "mkfs.vfat": ("dosfstools",),
    "sgdisk": ("gdisk",),
    "parted": ("parted",),
    "zstd": ("zstd",),
    "cpio": ("cpio",),
    "grub-mkimage": ("grub-common",),
    "/usr/lib/grub/x86_64-efi/modinfo.sh": ("grub-efi-amd64-bin",),
    "busybox": ("busybox-static",),
    "dnsmasq": ("dnsmasq-base",),
    "ip": ("iproute2",),
}
#: Programs for administrators are not on every user's path.
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def program(name):
    """Path of a program; None when it is missing."""
    return shutil.which(name, path=_PATH)


def missing():
    """Packages to install, sorted."""
    names = set()
    for path, packages in NEEDED.items():
        if not (Path(path).exists() if "/" in path else program(path)):
            names.update(packages)
    return sorted(names)


def install(say):
    """Install missing packages, after announcing them. Raises LookupError if that is impossible."""
    names = missing()
    if not names:
        return
    if os.geteuid() != 0 or not program("apt-get"):
        raise LookupError(f"install these packages of Debian 12, then try again: {names}")
    say(f"installing {len(names)} packages of Debian: {', '.join(names)}")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["install", "-y", "--no-install-recommends", *names]
    for arguments in (["update"], install):
        command = ["apt-get", "-qq", *arguments]
        result = subprocess.run(
            command, env=environ, check=False, capture_output=True, text=True, timeout=900
        )
        if result.returncode and arguments is install:
            raise LookupError(f"apt-get could not install them: {result.stderr[-500:]}")
