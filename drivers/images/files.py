"""
Boot files of each machine, in folders that the site's web and TFTP servers publish.

    ROOT/nodes/UUID/USE-SECRET/...    the files, as long as they are needed
    ROOT/SUBDIR/MAC -> ../nodes/...    links for machines that know only their MAC addresses

ROOT is `[deploy]http_root` or `[pxe]tftp_root`. USE is "ramdisk" (the agent, during an operation),
"image" (for the agent to write), "kickstart" (for an installer) or "instance" (as long as the
instance exists).

Servers do not list folders, so files under USE-SECRET can be read only by clients that know the
secret. Files under a MAC address name the secret paths: a client that reaches the server and knows
a machine's MAC address can read all that the machine reads.
"""

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from drivers.core.errors import BadImage
from drivers.core.target import Nic, Options, Target
from drivers.images.cache import unfinished

FOLDER = "nodes"
RAMDISK, INSTANCE, KICKSTART, IMAGE = "ramdisk", "instance", "kickstart", "image"
USES = frozenset({RAMDISK, INSTANCE, KICKSTART, IMAGE})
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Hardware types of ARP, hexadecimal. A port with extra/client-id is one of InfiniBand.
_ETHERNET, _INFINIBAND = "01", "20"
_READ_BY_ALL = 0o444
#: Option of [pxe] with the folder of the links, below ROOT.
_LINKS = "pxe_config_subdir"


def http_root(options: Options) -> Path:
    return Path(options["deploy"]["http_root"])


def tftp_root(options: Options) -> Path:
    return Path(options["pxe"]["tftp_root"])


def folder_of(target: Target, root: Path, use: str) -> Path | None:
    """Return the folder of a use, if it exists."""
    return next((root / FOLDER / target.uuid).glob(f"{use}-*"), None)


def folder(target: Target, root: Path, use: str, secret: str) -> Path:
    """Return the folder of a use and secret. Creates it; removes other folders of the use."""
    folder_path = root / FOLDER / target.uuid / f"{use}-{secret}"
    with naming_errors():
        folder_path.mkdir(parents=True, exist_ok=True)
    for other_folder in folder_path.parent.glob(f"{use}-*"):
        if other_folder != folder_path:
            remove(target.options, other_folder)
    return folder_path


def write(path: Path, text: str) -> None:
    """Write a text atomically, unless the file has this text already."""
    with naming_errors():
        if path.is_file() and not path.is_symlink() and path.read_text() == text:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part = unfinished(path)
        part.write_text(text)
        part.replace(path)


def let_tftp_read(options: Options, *paths: Path) -> None:
    """
    Let the TFTP server of a conductor read those of these files that lie below its root.

    As root, dnsmasq serves only files that all users may read; their folders stay private.
    Raises BadImage.
    """
    if os.geteuid() != 0 or not options["dhcp_server"]["backend"]:
        return
    root = tftp_root(options)
    with naming_errors():
        for path in paths:
            mode = stat.S_IMODE(path.stat().st_mode)
            if path.is_relative_to(root) and mode | _READ_BY_ALL != mode:
                path.chmod(mode | _READ_BY_ALL)


def link(link_path: Path, link_target: Path) -> None:
    """Create a relative symbolic link atomically: the servers may see the root at another path."""
    with naming_errors():
        link_path.parent.mkdir(parents=True, exist_ok=True)
        part = unfinished(link_path)
        part.unlink(missing_ok=True)
        part.symlink_to(os.path.relpath(link_target, link_path.parent))
        part.replace(link_path)


def withdraw(target: Target, *uses: str) -> None:
    """Remove the folders of these uses."""
    for folder_path in published_folders(target.options, target.uuid):
        if use_of(folder_path) in uses:
            remove(target.options, folder_path)


def published_folders(options: Options, node: str = "*") -> list[Path]:
    """Return the folders of a node, or of all nodes. Other files below the roots are ignored."""
    return [
        folder_path
        for root in {options["deploy"]["http_root"], options["pxe"]["tftp_root"]} - {""}
        for folder_path in (Path(root) / FOLDER).glob(f"{node}/*-*")
        if use_of(folder_path) in USES and _UUID.fullmatch(node_of(folder_path))
    ]


def node_of(folder_path: Path) -> str:
    return folder_path.parent.name


def use_of(folder_path: Path) -> str:
    return folder_path.name.partition("-")[0]


def remove(options: Options, folder_path: Path) -> None:
    """Remove a folder; first the links into it."""
    root = folder_path.parents[2]
    for folder in (root, root / _subdir(options)):
        for entry in folder.glob("*") if folder.is_dir() else ():
            if (destination := _destination_of(entry)) and destination.parent == folder_path:
                entry.unlink(missing_ok=True)
    shutil.rmtree(folder_path, ignore_errors=True)
    with suppress(OSError):  # not empty: the node has other folders
        folder_path.parent.rmdir()


def _destination_of(entry: Path) -> Path | None:
    """Return where a link leads; None: it is none, or another operation has removed it since."""
    try:
        return Path(os.path.normpath(entry.parent / entry.readlink()))
    except OSError:
        return None


def links(options: Options, root: Path, nics: Iterable[Nic], names: str) -> Iterator[Path]:
    """
    Return the paths of a machine's links.

    names: template with {subdir}, {type} (the hardware type of ARP), {mac} (with hyphens) and
    {colons} (MAC with colons).
    """
    for nic in nics:
        mac = nic.address.lower()
        yield root / names.format(
            subdir=_subdir(options),
            type=_INFINIBAND if nic.extra.get("client-id") else _ETHERNET,
            mac=mac.replace(":", "-"),
            colons=mac,
        )


@contextmanager
def naming_errors() -> Iterator[None]:
    """Re-raise OSError as BadImage with the path."""
    try:
        yield
    except OSError as error:
        raise BadImage(f"{error.filename or 'boot files'}: {error.strerror}") from error


def _subdir(options: Options) -> str:
    return str(options["pxe"][_LINKS])
