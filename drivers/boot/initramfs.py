"""
Archives that a kernel unpacks into the root of its ramdisk, after the ramdisk itself.

A boot loader hands several files to the kernel as one ramdisk. The format is `newc` of cpio
(Documentation/driver-api/early-userspace/buffer-format.rst of Linux), uncompressed.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

_DIRECTORY, _FILE = 0o040755, 0o100644
_END = "TRAILER!!!"


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files and the directories above them. files: path -> content."""
    parents = {str(parent) for path in files for parent in PurePosixPath(path).parents} - {"."}
    # an existing directory of the ramdisk keeps its contents
    entries = [(path, _DIRECTORY, b"") for path in sorted(parents)]
    entries += [(path, _FILE, content) for path, content in files.items()]
    numbered = enumerate([*entries, (_END, 0, b"")], 1)
    return b"".join(_entry(number, *entry) for number, entry in numbered)


def _entry(number: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b"\0"
    links = 2 if mode == _DIRECTORY else 1
    owner = modified = device = checksum = 0
    fields = (
        number, mode, owner, owner, links, modified, len(content), device, device, device, device,
        len(name), checksum,
    )  # fmt: skip
    header = b"070701" + b"".join(b"%08X" % value for value in fields) + name
    return _padded(header) + _padded(content)


def _padded(part: bytes) -> bytes:
    return part + b"\0" * (-len(part) % 4)
