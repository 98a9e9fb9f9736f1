"""
ISO image that a BMC presents to its machine as a CD: kernel, ramdisk, and two boot loaders.

Legacy BIOS starts isolinux, UEFI the loader on an EFI system partition. Both read the kernel, the
ramdisk and one command line from the CD. The files of the loaders come from the conductor's host:
settings name them, by default the files of Debian's packages.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from drivers.boot import esp, initramfs, ramdisks, scripts
from drivers.core.errors import BadImage
from drivers.core.target import Target
from drivers.images import cache, iso9660
from drivers.images.cache import CachedFile
from drivers.images.iso9660 import Tree
from drivers.net import urls

#: Volume label by which the agent recognizes the CD that it was booted from.
LABEL = "VMEDIA_BOOT_ISO"
_KERNEL, _RAMDISK, _ROOT_FILES = "/vmlinuz", "/initrd", "/root-files"
#: Files for legacy BIOS: option of [DEFAULT], Debian's package.
_BIOS = (("isolinux_bin", "isolinux"), ("ldlinux_c32", "syslinux-common"))


@dataclass(frozen=True, slots=True)
class Content:
    """Kernel, ramdisk and other files of an image."""

    kernel: CachedFile
    ramdisk: CachedFile
    command_line: str
    files: Mapping[str, bytes] = field(default_factory=dict)  # path -> content
    #: files that the kernel adds to its ramdisk, path below its root -> content
    root_files: Mapping[str, bytes] = field(default_factory=dict)
    label: str = LABEL  # of the volume
    publisher: str = ""  # of the volume

    @property
    def ramdisks(self) -> list[str]:
        """Paths on the CD of the files that make up the kernel's ramdisk, in order."""
        return [_RAMDISK, *([_ROOT_FILES] if self.root_files else [])]

    def digest(self) -> str:
        """Return a text that differs for other contents."""
        attributes = (self.command_line, self.files, self.root_files, self.label, self.publisher)
        return f"{self.kernel.sha256} {self.ramdisk.sha256} {attributes}"


@dataclass(frozen=True, slots=True)
class Loaders:
    """Boot loaders of an image."""

    isolinux: Mapping[str, Path]  # file name -> path; empty: no support for legacy BIOS
    esp: bytes  # image of an EFI system partition; empty: no support for UEFI
    config: str  # path on the CD of the configuration that the loader on the ESP reads

    def digest(self) -> str:
        """Return a text that differs for other loaders."""
        attributes = (sorted(map(str, self.isolinux.values())), self.config)
        return f"{attributes} {hashlib.sha256(self.esp).hexdigest()}"


def loaders(target: Target, mode: str) -> Loaders:
    """
    Return the available loaders. mode: `bios` or `uefi`, whose loader is required.

    Raises BadImage: the required loader is missing; names the setting.
    Raises Unreachable, InvalidDriverInfo: the image of the partition cannot be fetched.
    """
    options = target.options["DEFAULT"]
    reasons: dict[str, str] = {}
    isolinux: dict[str, Path] = {}
    if ramdisks.architecture(target) == "x86_64":
        for name, package in _BIOS:
            path = Path(options[name])
            if path.is_file():
                isolinux[path.name] = path
            else:
                reasons.setdefault(
                    "bios", f"[DEFAULT]{name}: {path} is missing (Debian: {package})"
                )
    else:
        reasons["bios"] = f"legacy BIOS does not exist on {ramdisks.architecture(target)}"
    partition = b""
    try:
        partition = _partition(target)
    except BadImage as error:
        reasons["uefi"] = str(error)
    if mode in reasons:
        raise BadImage(f"no image can be made that boots in {mode} mode: {reasons[mode]}")
    config = str(options["grub_config_path"])
    return Loaders({} if "bios" in reasons else isolinux, partition, config)


def partition_url(target: Target) -> str | None:
    """
    Return the URL of an image of an EFI system partition, if the node or a setting has one.

    Raises InvalidDriverInfo: the URL is malformed, or the file must not be read.
    """
    conductor, arch = target.options["conductor"], ramdisks.architecture(target)
    for group_name, url in (
        ("driver_info/bootloader", target.driver_info.get("bootloader")),
        (f"[conductor]bootloader_by_arch of {arch}", conductor["bootloader_by_arch"].get(arch)),
        ("[conductor]bootloader", conductor["bootloader"]),
    ):
        if url:
            return urls.readable(target.options, url, group_name)
    return None


def build(path: Path, content: Content, loaders: Loaders) -> None:
    """Write the image to a file, atomically. Raises BadImage."""
    part = cache.unfinished(path)
    try:
        with iso9660.new_image(content.label, content.publisher) as tree:
            if loaders.isolinux:
                _add_isolinux(tree, loaders, content)
            if loaders.esp:
                _add_esp(tree, loaders, content)
            for name, text in content.files.items():
                tree.add(f"/{name}", text)
            tree.add(_KERNEL, content.kernel.path)
            tree.add(_RAMDISK, content.ramdisk.path)
            if content.root_files:
                tree.add(_ROOT_FILES, initramfs.archive(content.root_files))
            with part.open("wb") as file:
                tree.write(file)
        cache.complete(part, path)
    except OSError as error:
        raise BadImage(f"{path}: the image could not be made: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _add_isolinux(tree: Tree, loaders: Loaders, content: Content) -> None:
    for name, path in loaders.isolinux.items():
        tree.add(f"/isolinux/{name}", path)
    config = scripts.isolinux(_KERNEL, content.ramdisks, content.command_line)
    tree.add("/isolinux/isolinux.cfg", config.encode())
    first_loader = next(iter(loaders.isolinux))
    tree.boot(f"/isolinux/{first_loader}", efi=False)


def _add_esp(tree: Tree, loaders: Loaders, content: Content) -> None:
    config = scripts.grub(_KERNEL, content.ramdisks, content.command_line).encode()
    # loaders made for CDs recognize their CD by /.disk/info
    for name in dict.fromkeys((f"/{loaders.config.strip('/')}", "/boot/grub/grub.cfg")):
        tree.add(name, config)
    tree.add("/.disk/info", f"{LABEL}\n".encode())
    tree.add("/boot/efi.img", loaders.esp)
    tree.boot("/boot/efi.img", efi=True)


def _partition(target: Target) -> bytes:
    """
    Return the EFI system partition.

    It is the image that the node or the settings name, or is built from the loader in the settings.

    Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    default, arch = target.options["DEFAULT"], ramdisks.architecture(target)
    url = partition_url(target)
    if url:
        return cache.get(target, url).path.read_bytes()
    if default["esp_image"]:
        return _read("[DEFAULT]esp_image", default["esp_image"])
    loader = default["efi_loader_by_arch"].get(arch)
    if loader is None or arch not in esp.LOADER:
        raise BadImage(f"[DEFAULT]efi_loader_by_arch: there is no loader for {arch}")
    return esp.image(_read(f"[DEFAULT]efi_loader_by_arch of {arch}", loader), arch)


def _read(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadImage(
            f"{setting}: {path}: {error.strerror} (Debian: grub-efi-amd64-bin or -arm64-bin)"
        ) from error
