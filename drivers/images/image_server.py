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
from typing import Protocol

from drivers.core.errors import BadImage, Unreachable
from drivers.core.target import Target
from drivers.images import formats, services
from drivers.images.formats import Format
from drivers.net import fetch, urls

LONGEST_TEXT = 1 << 20  # bytes
_CHUNK = _MEBIBYTE = 1 << 20
#: Validator of a file in an answer -> header of a conditional request.
_VALIDATORS = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}


class Digest(Protocol):
    """Hash object of `hashlib`."""

    def update(self, data: bytes, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Probe:
    """Size and format of an image."""

    size: int | None  # bytes of the file; None: the server did not report it
    format: Format


def probe(target: Target, url: str) -> Probe:
    """Return the size and format of an image."""
    with _opened(target, url, {"Range": f"bytes=0-{formats.HEAD - 1}"}) as source:
        return Probe(source.size, formats.identify(source.read(formats.HEAD)))


def text(target: Target, url: str) -> str:
    """Return a small text, such as a file of checksums."""
    with fetch.opened(target, url) as source:
        content = source.read(LONGEST_TEXT + 1)
    if len(content) > LONGEST_TEXT:
        raise BadImage(f"{urls.redacted(url)} is too long for a text: more than 1 MiB")
    return content.decode(errors="replace")


def copy(
    target: Target,
    url: str,
    path: Path,
    validators: Mapping[str, str],
    digest: Digest | None = None,
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
    """Open a URL, or an image of an image service."""
    service = services.of(url)
    return (fetch if service is None else service).opened(target, url, headers)


def _write(target: Target, source: fetch.Source, path: Path, digest: Digest | None) -> None:
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
