"""
What one machine fetches to boot: files in folders that the site's servers hand out.

    ROOT/nodes/UUID/USE-SECRET/...    the files, for as long as they are of use
    ROOT/SUBDIR/MAC -> ../nodes/...    by which a machine finds them that knows only its addresses

ROOT is `[deploy]http_root` or `[pxe]tftp_root`. USE is "ramdisk" (the agent, while an operation
needs it), "image" (which that agent writes to a disk), "kickstart" (which an installer reads) or
"instance" (for as long as there is one). Servers list no folders, so who does not know the secret
finds nothing. What lies under a MAC address names the rest: whoever can reach the server and knows
the address of a machine reads what that machine reads.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from drivers.core.errors import BadImage
from drivers.core.target import Options, Target
from drivers.images.cache import unfinished

FOLDER = "nodes"
RAMDISK, INSTANCE, KICKSTART, IMAGE = "ramdisk", "instance", "kickstart", "image"
_USES = frozenset({RAMDISK, INSTANCE, KICKSTART, IMAGE})
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Where a root keeps links to the files of machines, by the setting of [pxe] that names it.
_LINKS = "pxe_config_subdir"


def http_root(options: Options) -> Path:
    return Path(options["deploy"]["http_root"])


def tftp_root(options: Options) -> Path:
    return Path(options["pxe"]["tftp_root"])


def found(target: Target, root: Path, use: str) -> Path | None:
    """The folder for a use, if there is one."""
    return next((root / FOLDER / target.uuid).glob(f"{use}-*"), None)


def folder(target: Target, root: Path, use: str, secret: str) -> Path:
    """The folder for a use, empty unless it was made before; any other for that use is gone."""
    mine = root / FOLDER / target.uuid / f"{use}-{secret}"
    with told():
        mine.mkdir(parents=True, exist_ok=True)
    for other in mine.parent.glob(f"{use}-*"):
        if other != mine:
            remove(target.options, other)
    return mine


def write(place: Path, text: str) -> None:
    """Write a text, unless it is there already; readers see all of it or nothing."""
    with told():
        if place.is_file() and not place.is_symlink() and place.read_text() == text:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        part = unfinished(place)
        part.write_text(text)
        part.replace(place)


def link(place: Path, to: Path) -> None:
    """Have a file under another name, too, which is relative: servers may know another root."""
    with told():
        place.parent.mkdir(parents=True, exist_ok=True)
        part = unfinished(place)
        part.unlink(missing_ok=True)
        part.symlink_to(os.path.relpath(to, place.parent))
        part.replace(place)


def withdraw(target: Target, *uses: str) -> None:
    """Nothing of these uses is handed out any more."""
    for mine in held(target.options, target.uuid):
        if use_of(mine) in uses:
            remove(target.options, mine)


def held(options: Options, node: str = "*") -> list[Path]:
    """The folders of a node, or of all; nothing else that may lie there."""
    return [
        mine
        for root in {options["deploy"]["http_root"], options["pxe"]["tftp_root"]} - {""}
        for mine in (Path(root) / FOLDER).glob(f"{node}/*-*")
        if use_of(mine) in _USES and _UUID.fullmatch(node_of(mine))
    ]


def node_of(mine: Path) -> str:
    return mine.parent.name


def use_of(mine: Path) -> str:
    return mine.name.partition("-")[0]


def remove(options: Options, mine: Path) -> None:
    """One folder, after the links to what is in it."""
    root = mine.parents[2]
    for place in (root, root / _subdir(options)):
        for each in place.glob("*") if place.is_dir() else ():
            if (
                each.is_symlink()
                and Path(os.path.normpath(each.parent / each.readlink())).parent == mine
            ):
                each.unlink(missing_ok=True)
    shutil.rmtree(mine, ignore_errors=True)
    with suppress(OSError):  # something else of the node is of use
        mine.parent.rmdir()


def links(options: Options, root: Path, macs: Iterable[str], names: str) -> Iterator[Path]:
    """Where a machine looks; names: with {mac}, its address with hyphens."""
    for mac in macs:
        yield root / names.format(
            subdir=_subdir(options), mac=mac.lower().replace(":", "-"), colons=mac.lower()
        )


@contextmanager
def told() -> Iterator[None]:
    """What cannot be written is told with its name. Raises BadImage."""
    try:
        yield
    except OSError as error:
        raise BadImage(f"{error.filename or 'boot files'}: {error.strerror}") from error


def _subdir(options: Options) -> str:
    return str(options["pxe"][_LINKS])
