"""
Images and other files of image servers: checks before a machine is touched, and downloads.

`probe` reads only the first bytes of an image. Errors name the URL without its query, and the
cause: BadImage, Unreachable, and InvalidDriverInfo for a file or address that must not be read.
"""

import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivers.core.errors import BadImage, Unreachable
from drivers.core.target import Target
from drivers.images import references
from drivers.net import fetch, urls

#: Bytes that identify the format. The volume descriptor of an ISO 9660 image is at the end.
HEAD = 16 * 2048 + 8
LONGEST_TEXT = 1 << 20  # bytes
_CHUNK = _MEBIBYTE = 1 << 20
#: Validator of a file in an answer -> header of a conditional request.
_VALIDATORS = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}


@dataclass(frozen=True, slots=True)
class Probe:
    """Size and format of an image."""

    size: int | None  # bytes of the file; None: the server did not report it
    format: str | None  # by the first bytes; None: unknown
    written_bytes: int | None  # bytes on a disk, if known


def probe(target: Target, url: str) -> Probe:
    """Return the size and format of an image."""
    with _opened(target, url, {"Range": f"bytes=0-{HEAD - 1}"}) as source:
        return _probe(source.read(HEAD), source.size)


def text(target: Target, url: str) -> str:
    """Return a small text, such as a file of checksums."""
    with fetch.opened(target, url) as source:
        content = source.read(LONGEST_TEXT + 1)
    if len(content) > LONGEST_TEXT:
        raise BadImage(f"{urls.redacted(url)} is too long for a text: more than 1 MiB")
    return content.decode(errors="replace")


def copy(
    target: Target, url: str, path: Path, validators: Mapping[str, str], digest: Any = None
) -> dict[str, str] | None:
    """
    Download a URL to a file. After an error the file does not exist.

    validators: from a previous call. digest: hash object that is updated with the content.
    Returns the new validators, or None if the file has not changed, and nothing was written.

    Raises OSError: the file cannot be written.
    """
    conditions = {
        _VALIDATORS[name]: value for name, value in validators.items() if name in _VALIDATORS
    }
    try:
        with _opened(target, url, conditions) as source:
            if source.not_modified:
                return None
            _write(target, source, path, digest)
            return {name: source.headers[name] for name in _VALIDATORS if name in source.headers}
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _opened(
    target: Target, url: str, headers: Mapping[str, str]
) -> AbstractContextManager[fetch.Source]:
    """Open a URL or an image of Glance."""
    if references.scheme_of(url) == references.GLANCE:
        from drivers.images import glance  # keystoneauth takes half a second

        return glance.opened(target, url, headers)
    return fetch.opened(target, url, headers)


def _write(target: Target, source: fetch.Source, path: Path, digest: Any) -> None:
    spare = int(target.options["conductor"]["fetch_min_free_space"]) * _MEBIBYTE
    with path.open("wb") as file:
        needed_bytes = source.size or 0
        while True:
            if shutil.disk_usage(path).free < needed_bytes - file.tell() + spare:
                raise BadImage(
                    f"{urls.redacted(source.url)} would leave less than {spare // _MEBIBYTE} MiB"
                    f" free in {path.parent} ([conductor]fetch_min_free_space)"
                )
            if not (chunk := source.read(_CHUNK)):
                break
            file.write(chunk)
            if digest is not None:
                digest.update(chunk)
        if source.size is not None and file.tell() != source.size:
            raise Unreachable(
                f"{urls.redacted(source.url)} broke off after {file.tell()} of {source.size} bytes"
            )


def _probe(head: bytes, size: int | None) -> Probe:
    if head[:4] == b"QFI\xfb":
        return Probe(size, "qcow2", int.from_bytes(head[24:32], "big"))
    for magic, offset, name in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return Probe(size, name, size)
    return Probe(size, None, size)


#: (bytes, offset, format), first match wins: an ISO image may have a boot sector, too.
_MAGIC = (
    (b"CD001", 16 * 2048 + 1, "iso"),
    (b"EFI PART", 512, "gpt"),
    (b"KDMV", 0, "vmdk"),
    (b"vhdxfile", 0, "vhdx"),
    (b"conectix", 0, "vpc"),
    (b"<<< Oracle VM VirtualBox Disk Image >>>", 0, "vdi"),
    (b"# Disk DescriptorFile", 0, "vmdk"),
    (b"QED\0", 0, "qed"),
    # archives and compressed files: written as they are, they would be no disk
    (b"\x1f\x8b", 0, "gzip"),
    (b"\x1f\x9d", 0, "compress"),
    (b"\xfd7zXZ\0", 0, "xz"),
    (b"\x5d\0\0", 0, "lzma"),
    (b"LZIP", 0, "lzip"),
    (b"BZh", 0, "bzip2"),
    (b"\x28\xb5\x2f\xfd", 0, "zstd"),
    (b"\x04\x22\x4d\x18", 0, "lz4"),
    (b"\x02\x21\x4c\x18", 0, "lz4"),  # of its older format
    *((bytes((number,)) + b"\x2a\x4d\x18", 0, "zstd") for number in range(0x50, 0x60)),
    (b"PK\3\4", 0, "zip"),
    (b"7z\xbc\xaf\x27\x1c", 0, "7z"),
    (b"ustar", 257, "tar"),
    (b"\x55\xaa", 510, "raw"),
)
