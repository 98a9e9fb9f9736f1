"""
The image that a BMC shows to its machine as a CD: a kernel, a ramdisk, and two boot loaders.

Legacy BIOS starts isolinux, UEFI the loader on an EFI system partition; both find the kernel, the
ramdisk and the same command line on the CD. What a loader is made of comes from the host of the
conductor: the settings name the files, by default those of Debian's packages.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from drivers.boot import cache, esp, ramdisks, scripts
from drivers.errors import BadImage
from drivers.target import Target

#: By this name the agent knows the CD that it was booted from.
LABEL = "VMEDIA_BOOT_ISO"
#: (setting of [DEFAULT], Debian's package) of what legacy BIOS boots.
_BIOS = (("isolinux_bin", "isolinux"), ("ldlinux_c32", "syslinux-common"))


@dataclass(frozen=True, slots=True)
class Content:
    """What is booted, and what else lies beside it: path -> content."""

    kernel: Path
    ramdisk: Path
    command_line: str
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Loaders:
    """
    What starts the kernel. isolinux: its files, name -> path; empty: no legacy BIOS boots this.
    esp: an EFI system partition; empty: no UEFI boots this. config: what the loader on it reads.
    """

    isolinux: Mapping[str, Path]
    esp: bytes
    config: str

    def summed(self) -> str:
        """A text that is another for other loaders."""
        about = (sorted(map(str, self.isolinux.values())), self.config)
        return f"{about} {hashlib.sha256(self.esp).hexdigest()}"


def loaders(target: Target, mode: str) -> Loaders:
    """
    What there is; mode: the one of `bios` and `uefi` that must not be missing.

    Raises BadImage that names the setting, Unreachable, InvalidDriverInfo.
    """
    options = target.options["DEFAULT"]
    missing: dict[str, str] = {}
    isolinux: dict[str, Path] = {}
    if ramdisks.architecture(target) == "x86_64":
        for name, package in _BIOS:
            path = Path(options[name])
            if path.is_file():
                isolinux[path.name] = path
            else:
                missing.setdefault(
                    "bios", f"[DEFAULT]{name}: {path} is missing (Debian: {package})"
                )
    else:
        missing["bios"] = f"legacy BIOS is unknown on {ramdisks.architecture(target)}"
    partition = b""
    try:
        partition = _partition(target)
    except BadImage as error:
        missing["uefi"] = str(error)
    if mode in missing:
        raise BadImage(f"no image can be made that boots in {mode} mode: {missing[mode]}")
    config = str(options["grub_config_path"])
    return Loaders({} if "bios" in missing else isolinux, partition, config)


def build(place: Path, content: Content, found: Loaders) -> None:
    """Write the image to a file, which is there only when it is complete. Raises BadImage."""
    import pycdlib  # here, as only conductors need it, and only when they boot machines this way
    from pycdlib.pycdlibexception import PyCdlibException

    part = cache.unfinished(place)
    iso = pycdlib.PyCdlib()
    try:
        iso.new(interchange_level=3, rock_ridge="1.09", vol_ident=LABEL)
        tree = _Tree(iso)
        if found.isolinux:
            _add_isolinux(tree, found, content.command_line)
        if found.esp:
            _add_esp(tree, found, content.command_line)
        for name, text in content.files.items():
            tree.add(f"/{name}", text)
        tree.add("/vmlinuz", content.kernel)
        tree.add("/initrd", content.ramdisk)
        iso.write(str(part))
        part.replace(place)
    except (PyCdlibException, OSError) as error:
        raise BadImage(f"{place}: the image could not be made: {error}") from error
    finally:
        iso.close()
        part.unlink(missing_ok=True)


def _add_isolinux(tree: "_Tree", found: Loaders, command_line: str) -> None:
    for name, path in found.isolinux.items():
        tree.add(f"/isolinux/{name}", path)
    config = scripts.isolinux("/vmlinuz", "/initrd", command_line)
    tree.add("/isolinux/isolinux.cfg", config.encode())
    first = next(iter(found.isolinux))
    tree.boot(f"/isolinux/{first}", efi=False)


def _add_esp(tree: "_Tree", found: Loaders, command_line: str) -> None:
    config = scripts.grub("/vmlinuz", "/initrd", command_line).encode()
    # /.disk/info is how loaders made for CDs know theirs
    for name in dict.fromkeys((f"/{found.config.strip('/')}", "/boot/grub/grub.cfg")):
        tree.add(name, config)
    tree.add("/.disk/info", f"{LABEL}\n".encode())
    tree.add("/boot/efi.img", found.esp)
    tree.boot("/boot/efi.img", efi=True)


def _partition(target: Target) -> bytes:
    """
    The EFI system partition: as the node or the settings name it, else made of the loader that the
    settings name. Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    conductor, default = target.options["conductor"], target.options["DEFAULT"]
    arch = ramdisks.architecture(target)
    url = (
        target.driver_info.get("bootloader")
        or conductor["bootloader_by_arch"].get(arch)
        or conductor["bootloader"]
    )
    if url:
        return cache.get(target, str(url)).path.read_bytes()
    if default["esp_image"]:
        return _read("[DEFAULT]esp_image", default["esp_image"])
    loader = default["efi_loader_by_arch"].get(arch)
    if loader is None or arch not in esp.LOADER:
        raise BadImage(f"[DEFAULT]efi_loader_by_arch: there is none for {arch}")
    return esp.image(_read(f"[DEFAULT]efi_loader_by_arch of {arch}", loader), arch)


def _read(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadImage(
            f"{setting}: {path}: {error.strerror} (Debian: grub-efi-amd64-bin or -arm64-bin)"
        ) from error


class _Tree:
    """The files of an image by their whole names; ISO 9660's own are made of them."""

    def __init__(self, iso: object) -> None:
        self._iso: Any = iso
        self._made = {"/"}
        self._held: list[BytesIO] = []
        self._catalogued = False

    def add(self, name: str, content: Path | bytes) -> None:
        self._parents(name)
        short, rock = _short(name, file=True), name.rpartition("/")[2]
        if isinstance(content, Path):
            self._iso.add_file(str(content), short, rr_name=rock)
            return
        file = BytesIO(content)
        self._held.append(file)
        self._iso.add_fp(file, len(content), short, rr_name=rock)

    def boot(self, name: str, *, efi: bool) -> None:
        """This file starts the machine."""
        first = not self._catalogued
        self._catalogued = True
        about: dict[str, object] = {"efi": True} if efi else {
            "boot_info_table": True, "boot_load_size": 4,
        }  # fmt: skip
        if first:
            about |= {"bootcatfile": "/BOOT.CAT;1", "rr_bootcatname": "boot.cat"}
        self._iso.add_eltorito(_short(name, file=True), **about)

    def _parents(self, name: str) -> None:
        parts = name.strip("/").split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            path = "/" + "/".join(parts[:depth])
            if path not in self._made:
                self._made.add(path)
                self._iso.add_directory(_short(path, file=False), rr_name=parts[depth - 1])


def _short(name: str, *, file: bool) -> str:
    """A path as ISO 9660 allows it: upper case, letters, digits and underscores."""
    *folders, last = name.strip("/").split("/")
    stem, dot, suffix = last.rpartition(".") if file else (last, "", "")
    if not dot:
        stem, suffix = last, ""
    parts = [*(_allowed(each) for each in folders), _allowed(stem)]
    return "/" + "/".join(parts) + (f".{_allowed(suffix)};1" if file else "")


def _allowed(part: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", part.upper())[:27]
