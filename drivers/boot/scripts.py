"""
What boot loaders read: texts that name a kernel, a ramdisk and a command line.

Each says: try again for a while, then give up in a way that lets the firmware go on.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.images import words

#: What every machine loads first that boots iPXE, or GRUB, from the network.
FIRST, GRUB_FIRST = "boot.ipxe", "grub/grub.cfg"
#: What a shell like that of GRUB would take for more than a letter.
_SPECIAL = re.compile(r"[^\w@%+=:,./\[\]-]")
#: An argument of a kernel; GRUB puts the quotes around one with spaces by itself.
_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
#: How often iPXE fetches a file, each time a second later, until it gives up.
_TRIES = 10


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume as iPXE opens it; username and password: empty for none."""

    url: str
    username: str = ""
    password: str = ""


def isolinux(kernel: str, ramdisk: str, command_line: str) -> str:
    """isolinux.cfg, or the file of a machine that pxelinux reads (with `ipappend`)."""
    return (
        "default boot\nprompt 0\ntimeout 1\n\n"
        f"label boot\n  kernel {kernel}\n  initrd {ramdisk}\n  append {command_line}\n"
    )


def pxelinux(kernel: str, ramdisk: str, command_line: str) -> str:
    """The same, and the kernel is told which interface it was booted from."""
    return f"{isolinux(kernel, ramdisk, command_line)}  ipappend 2\n"


def grub(kernel: str, ramdisk: str, command_line: str, *, network: bool = False) -> str:
    """network: GRUB came over the network, and the kernel is told over which interface."""
    line = " ".join(_quoted(word.replace('"', "")) for word in _WORD.findall(command_line))
    if network:
        line += " BOOTIF=${net_default_mac}"
    return f"set timeout=0\nlinux {kernel} {line}\ninitrd {ramdisk}\nboot\n"


def ipxe(kernel: str, ramdisk: str, command_line: str, timeout: int = 0) -> str:
    """timeout: seconds for one file; 0: as iPXE likes."""
    limit = f"--timeout {timeout * 1000} " if timeout else ""
    arguments = f"{command_line} BOOTIF=${{mac}} initrd=ramdisk"
    return (
        "#!ipxe\n\nset tries:int32 0\n\n:boot\nimgfree\n"
        f"kernel {limit}{kernel} {arguments} || goto again\n"
        f"initrd {limit}--name ramdisk {ramdisk} || goto again\n"
        f"boot || goto again\n{_again('boot')}"
    )


def ipxe_image(url: str) -> str:
    """An image booted as a disk."""
    return f"#!ipxe\n\nset tries:int32 0\n\n:boot\nsanboot {url} || goto again\n{_again('boot')}"


def ipxe_volumes(volumes: Sequence[Volume], initiator: str | None) -> str:
    """Volumes over the network, the first of which is booted."""
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
    return "\n".join(lines) + f"\n{_again('boot')}"


def ipxe_first(root: str) -> str:
    """What every machine reads first: it looks for the file of each of its addresses."""
    return (
        "#!ipxe\n\nset number:int32 0\n\n"
        f"chain --autofree {root}/${{mac:hexhyp}} && exit 0 ||\n\n"
        ":next\nisset ${net${number}/mac} || goto none\n"
        f"chain --autofree {root}/${{net${{number}}/mac:hexhyp}} && exit 0 ||\n"
        "inc number\ngoto next\n\n"
        ":none\necho Nothing is to be booted here from the network.\nexit 1\n"
    )


def grub_first() -> str:
    """What every machine reads first that boots GRUB from the network."""
    return "set timeout=0\nconfigfile /${net_default_mac}.conf\n"


#: loader -> a file that sends the machine on to its own disk
LOCAL: Mapping[str, str] = {
    "ipxe": "#!ipxe\n\niseq ${platform} pcbios && sanboot --no-describe --drive 0x80 ||\nexit 1\n",
    "pxelinux": "default boot\nprompt 0\n\nlabel boot\n  localboot 0\n",
    "grub": "exit\n",
}


def volume(properties: Mapping[str, Any], where: str) -> Volume:
    """
    An iSCSI volume, by the properties of a volume target. Raises InvalidDriverInfo.

    One that is reached by several ways has them as target_portals, target_iqns, target_luns.
    """

    def one(name: str) -> Any:
        value = properties.get(name, properties.get(f"{name}s"))
        if isinstance(value, list | tuple):
            value = value[0] if value else None
        if value is None or value == "":
            raise InvalidDriverInfo(f"{where}: properties/{name} is required and missing")
        return value

    portal, iqn = str(one("target_portal")), str(one("target_iqn"))
    try:
        lun = int(one("target_lun"))
    except (TypeError, ValueError):
        raise InvalidDriverInfo(f"{where}: properties/target_lun is no number") from None
    names = ("auth_username", "auth_password")
    login = [str(properties.get(name) or "") for name in names]
    for name, text in zip(
        ("target_portal", "target_iqn", *names), (portal, iqn, *login), strict=True
    ):
        words.word(text, f"{where}: properties/{name}")
    host, _, port = portal.rpartition(":") if re.search(r"[^:]:\d+$", portal) else (portal, "", "")
    return Volume(f"iscsi:{host}::{port}:{lun:x}:{iqn}", *login)


def _credentials(volume: Volume) -> list[str]:
    return [f"set username {volume.username}".strip(), f"set password {volume.password}".strip()]


def _again(label: str) -> str:
    return (
        f"\n:again\niseq ${{tries}} {_TRIES} && goto failed ||\ninc tries\n"
        f"echo No answer: try ${{tries}} of {_TRIES} follows\nsleep ${{tries}}\ngoto {label}\n\n"
        ":failed\necho Giving up\nexit 1\n"
    )


def _quoted(word: str) -> str:
    """A word as GRUB takes it for itself."""
    if not _SPECIAL.search(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"
