"""
Configuration files and scripts of boot loaders: kernel, ramdisk and command line.

Each one retries for a while, then ends in a way that lets the firmware try its next boot device.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.images import script_text

#: First file that iPXE, or GRUB, loads from the network.
FIRST, GRUB_FIRST = "boot.ipxe", "grub/grub.cfg"
#: Characters with a meaning in GRUB's shell.
_SPECIAL = re.compile(r"[^\w@%+=:,./\[\]-]")
#: An argument of a kernel. GRUB itself quotes an argument with spaces.
_ARGUMENT = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
#: Attempts of iPXE to fetch its files; the pause grows by a second after each.
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Volume:
    """An iSCSI volume, as iPXE opens it."""

    url: str
    username: str = ""  # empty: no authentication
    password: str = ""


def isolinux(kernel: str, ramdisks: Sequence[str], command_line: str) -> str:
    """Return the configuration of isolinux, and the common part of pxelinux's."""
    return (
        "default boot\nprompt 0\ntimeout 1\n\n"
        f"label boot\n  kernel {kernel}\n  initrd {','.join(ramdisks)}\n  append {command_line}\n"
    )


def pxelinux(kernel: str, ramdisk: str, command_line: str) -> str:
    """Return pxelinux's configuration. `ipappend` tells the kernel its boot network interface."""
    return f"{isolinux(kernel, [ramdisk], command_line)}  ipappend 2\n"


def grub(kernel: str, ramdisks: Sequence[str], command_line: str, *, network: bool = False) -> str:
    """Return GRUB's configuration. network: GRUB passes its network interface to the kernel."""
    line = " ".join(_quoted(word.replace('"', "")) for word in _ARGUMENT.findall(command_line))
    if network:
        line += " BOOTIF=${net_default_mac}"
    return f"set timeout=0\nlinux {kernel} {line}\ninitrd {' '.join(ramdisks)}\nboot\n"


def ipxe(kernel: str, ramdisk: str, command_line: str, timeout: int = 0) -> str:
    """Return an iPXE script. timeout: seconds per file; 0: iPXE's default."""
    limit = f"--timeout {timeout * 1000} " if timeout else ""
    arguments = f"{command_line} BOOTIF=${{mac}} initrd=ramdisk"
    return (
        "#!ipxe\n\nset tries:int32 0\n\n:boot\nimgfree\n"
        f"kernel {limit}{kernel} {arguments} || goto again\n"
        f"initrd {limit}--name ramdisk {ramdisk} || goto again\n"
        f"boot || goto again\n{_retry('boot')}"
    )


def ipxe_image(url: str) -> str:
    """Return an iPXE script that boots an image as a disk."""
    return f"#!ipxe\n\nset tries:int32 0\n\n:boot\nsanboot {url} || goto again\n{_retry('boot')}"


def ipxe_volumes(volumes: Sequence[Volume], initiator: str | None) -> str:
    """Return an iPXE script that attaches volumes and boots the first one."""
    lines = ["#!ipxe", "", "set tries:int32 0"]
    if initiator:
        lines.append(f"set initiator-iqn {initiator}")
    lines += ["", ":boot"]
    for number, volume in enumerate(volumes):
        lines += _credentials(volume)
        lines.append(f"sanhook --drive {0x80 + number:#x} {volume.url} || goto again")
    if len(volumes) > 1:
        lines += _credentials(volumes[0])
    lines.append("sanboot --no-describe --drive 0x80 || goto again")
    return "\n".join(lines) + f"\n{_retry('boot')}"


def ipxe_first(root: str) -> str:
    """Return the first iPXE script: it tries the file of each of the machine's MAC addresses."""
    return (
        "#!ipxe\n\nset number:int32 0\n\n"
        f"chain --autofree {root}/${{mac:hexhyp}} && exit 0 ||\n\n"
        ":next\nisset ${net${number}/mac} || goto none\n"
        f"chain --autofree {root}/${{net${{number}}/mac:hexhyp}} && exit 0 ||\n"
        "inc number\ngoto next\n\n"
        ":none\necho There is no boot file for this machine.\nexit 1\n"
    )


def grub_first(path: str = "") -> str:
    """
    Return the first configuration of GRUB after a network boot.

    path: of the folder with the machines' configurations, on the server.
    """
    return f"set timeout=0\nconfigfile {path}/${{net_default_mac}}.conf\n"


#: Loader -> configuration that boots the machine's disk.
LOCAL: Mapping[str, str] = {
    "ipxe": "#!ipxe\n\niseq ${platform} pcbios && sanboot --no-describe --drive 0x80 ||\nexit 1\n",
    "pxelinux": "default boot\nprompt 0\n\nlabel boot\n  localboot 0\n",
    "grub": "exit\n",
}


def volume(properties: Mapping[str, Any], field: str) -> Volume:
    """
    Read an iSCSI volume from the properties of a volume target. field: the target, for errors.

    Multipath volumes have lists: target_portals, target_iqns, target_luns.

    Raises InvalidDriverInfo: names the missing or wrong property.
    """

    def one(name: str) -> Any:
        value = properties.get(name, properties.get(f"{name}s"))
        if isinstance(value, list | tuple):
            value = value[0] if value else None
        if value is None or value == "":
            raise InvalidDriverInfo(f"{field}: properties/{name} is required and missing")
        return value

    portal, iqn = str(one("target_portal")), str(one("target_iqn"))
    try:
        lun = int(one("target_lun"))
    except (TypeError, ValueError):
        raise InvalidDriverInfo(f"{field}: properties/target_lun is not a number") from None
    names = ("auth_username", "auth_password")
    login = [str(properties.get(name) or "") for name in names]
    for name, text in zip(
        ("target_portal", "target_iqn", *names), (portal, iqn, *login), strict=True
    ):
        script_text.word(text, f"{field}: properties/{name}")
    host, _, port = portal.rpartition(":") if re.search(r"[^:]:\d+$", portal) else (portal, "", "")
    return Volume(f"iscsi:{host}::{port}:{lun:x}:{iqn}", *login)


def _credentials(volume: Volume) -> list[str]:
    return [f"set username {volume.username}".strip(), f"set password {volume.password}".strip()]


def _retry(label: str) -> str:
    return (
        f"\n:again\niseq ${{tries}} {_ATTEMPTS} && goto failed ||\ninc tries\n"
        f"echo No answer: try ${{tries}} of {_ATTEMPTS} follows\nsleep ${{tries}}\ngoto {label}\n\n"
        ":failed\necho Giving up\nexit 1\n"
    )


def _quoted(word: str) -> str:
    """Quote a word for GRUB, if needed."""
    if not _SPECIAL.search(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"
