"""
ISO 9660 images with Rock Ridge, which keeps the full names of files.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from drivers.core.errors import BadImage

#: Platform of EFI in a boot catalog.
_EFI = 0xEF


class Tree:
    """Directory tree of a new image; the short names of ISO 9660 are derived from the full ones."""

    def __init__(self, iso: object) -> None:
        self._iso: Any = iso
        self._directories = {"/"}
        self._open: list[BytesIO] = []  # pycdlib reads them in `write`
        self._has_catalog = False

    def add(self, name: str, content: Path | bytes) -> None:
        """Add a file, and the directories above it."""
        self._add_parents(name)
        short, rock = _short(name, file=True), name.rpartition("/")[2]
        if isinstance(content, Path):
            self._iso.add_file(str(content), short, rr_name=rock)
            return
        file = BytesIO(content)
        self._open.append(file)
        self._iso.add_fp(file, len(content), short, rr_name=rock)

    def boot(self, name: str, *, efi: bool) -> None:
        """Make a file bootable (El Torito), for EFI or for BIOS."""
        is_first = not self._has_catalog
        self._has_catalog = True
        options: dict[str, object] = {"efi": True, "platform_id": _EFI} if efi else {
            "boot_info_table": True, "boot_load_size": 4,
        }  # fmt: skip
        if is_first:
            options |= {"bootcatfile": "/BOOT.CAT;1", "rr_bootcatname": "boot.cat"}
        self._iso.add_eltorito(_short(name, file=True), **options)

    def write(self, file: BinaryIO) -> None:
        self._iso.write_fp(file)

    def _add_parents(self, name: str) -> None:
        parts = name.strip("/").split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            path = "/" + "/".join(parts[:depth])
            if path not in self._directories:
                self._directories.add(path)
                self._iso.add_directory(_short(path, file=False), rr_name=parts[depth - 1])


@contextmanager
def new_image(label: str, publisher: str = "") -> Iterator[Tree]:
    """
    Create an empty image. label: the volume's. publisher: name of its publisher.

    Raises BadImage: pycdlib cannot make the image.
    """
    # here: only conductors need it
    import pycdlib
    from pycdlib.pycdlibexception import PyCdlibException

    iso = pycdlib.PyCdlib()
    try:
        iso.new(interchange_level=3, rock_ridge="1.09", vol_ident=label, pub_ident_str=publisher)
        yield Tree(iso)
    except PyCdlibException as error:
        raise BadImage(f"{label}: the image could not be made: {error}") from error
    finally:
        iso.close()


def _short(name: str, *, file: bool) -> str:
    """Convert a path to ISO 9660: upper case letters, digits and underscores."""
    *folders, last_name = name.strip("/").split("/")
    stem, dot, suffix = last_name.rpartition(".") if file else (last_name, "", "")
    if not dot:
        stem, suffix = last_name, ""
    parts = [*(_allowed(folder) for folder in folders), _allowed(stem)]
    return "/" + "/".join(parts) + (f".{_allowed(suffix)};1" if file else "")


def _allowed(part: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", part.upper())[:27]
