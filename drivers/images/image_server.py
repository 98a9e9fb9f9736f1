"""
HTTP client of image servers: checks before a machine is touched, and downloads.

`probe` reads only the first bytes of an image. Errors name the URL without its query, and the
cause: BadImage, Unreachable, and InvalidDriverInfo for a file that must not be read.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import requests

from drivers import urls
from drivers.core.errors import BadImage, Unreachable
from drivers.core.target import Target
from drivers.tls import bundle

#: Bytes that identify the format. The volume descriptor of an ISO 9660 image is at the end.
HEAD = 16 * 2048 + 8
LONGEST_TEXT = 1 << 20  # bytes
_CHUNK = 1 << 20
#: Validator of a file in an answer -> header of a conditional request.
_VALIDATORS = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}


@dataclass(frozen=True, slots=True)
class Probe:
    """Size and format of an image."""

    size: int | None  # bytes of the file; None: the server did not report it
    format: str | None  # by the first bytes; None: unknown
    written: int | None  # bytes on a disk, None: unknown


def probe(target: Target, url: str) -> Probe:
    """Return the size and format of an image."""
    with _opened(target, url, {"Range": f"bytes=0-{HEAD - 1}"}) as (stream, size):
        return _probe(_read(stream, HEAD, url), size)


def text(target: Target, url: str) -> str:
    """Return a small text, such as a file of checksums."""
    with _opened(target, url) as (stream, _size):
        found = _read(stream, LONGEST_TEXT + 1, url)
    if len(found) > LONGEST_TEXT:
        raise BadImage(f"{redacted(url)} is too long for a file of checksums")
    return found.decode(errors="replace")


def chunks(target: Target, url: str) -> Iterator[bytes]:
    """Return the content of an image, in chunks."""
    with _opened(target, url) as (stream, _size):
        while chunk := _read(stream, _CHUNK, url):
            yield chunk


def copy(target: Target, url: str, place: Path, known: Mapping[str, str]) -> dict[str, str] | None:
    """
    Download a http or https URL to a file.

    known: validators of a previous call. Returns the new validators; None: the file has not
    changed, and nothing was written.

    Raises OSError: the file cannot be written.
    """
    conditions = {_VALIDATORS[name]: value for name, value in known.items() if name in _VALIDATORS}
    with _answered(target, url, conditions) as answer:
        if answer.status_code == HTTPStatus.NOT_MODIFIED:
            return None
        with place.open("wb") as file:
            while chunk := _read(answer.raw, _CHUNK, url):
                file.write(chunk)
            size = _size(answer)
            if size is not None and file.tell() != size:
                raise Unreachable(f"{redacted(url)} broke off after {file.tell()} of {size} bytes")
        return {name: answer.headers[name] for name in _VALIDATORS if name in answer.headers}


def name(url: str) -> str:
    """Return the file name in a URL."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def redacted(url: str) -> str:
    """Return a URL without credentials and query, for messages."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, parts.path, "", ""))


@contextmanager
def _opened(
    target: Target, url: str, headers: dict[str, str] | None = None
) -> Iterator[tuple[Any, int | None]]:
    """Open a URL for reading bytes; with its size, if known."""
    if urls.is_file(url):
        with urls.opened(target.options, url) as (file, _place):
            yield file, os.fstat(file.fileno()).st_size
        return
    with _answered(target, url, headers) as answer:
        yield answer.raw, _size(answer)


@contextmanager
def _answered(
    target: Target, url: str, headers: Mapping[str, str] | None = None
) -> Iterator[requests.Response]:
    options, info = target.options["DEFAULT"], target.instance_info
    name, password = info.get("image_server_user"), info.get("image_server_password")
    with bundle(options["webserver_verify_ca"]) as verify:
        try:
            answer = requests.get(
                url,
                # identity: the bytes of the file, not those of a compressed transfer
                headers={"Accept-Encoding": "identity", **(headers or {})},
                auth=(name, password) if name and password else None,
                stream=True,
                timeout=float(options["webserver_connection_timeout"]),
                verify=verify,
            )
        except (requests.RequestException, OSError) as error:
            raise Unreachable(f"{redacted(url)} cannot be fetched: {cause(error)}") from None
    with answer:
        if not answer.ok:
            error_class = Unreachable if answer.status_code >= 500 else BadImage
            raise error_class(
                f"{redacted(url)} cannot be fetched: the server answered {answer.status_code}"
                f" {answer.reason}"
            )
        yield answer


def _read(stream: Any, most: int, url: str) -> bytes:
    try:
        return bytes(stream.read(most))
    except Exception as error:  # urllib3's own errors: they have no common base with OSError
        raise Unreachable(f"{redacted(url)} broke off: {cause(error)}") from None


def _size(answer: requests.Response) -> int | None:
    """Return the size of the whole file, also for a partial answer."""
    whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
    length = whole or answer.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _probe(head: bytes, size: int | None) -> Probe:
    if head[:4] == b"QFI\xfb":
        return Probe(size, "qcow2", int.from_bytes(head[24:32], "big"))
    for magic, at, name in _MAGIC:
        if head[at : at + len(magic)] == magic:
            return Probe(size, name, size)
    return Probe(size, None, size)


def cause(error: BaseException) -> str:
    """Return the innermost error text of the system."""
    found: str | None = None
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, OSError) and current.strerror:
            found = current.strerror
        current = current.__cause__ or current.__context__
    return found or type(error).__name__


#: (bytes, offset, format), first match wins: an ISO image may have a boot sector, too.
_MAGIC = (
    (b"CD001", 16 * 2048 + 1, "iso"),
    (b"EFI PART", 512, "gpt"),
    (b"KDMV", 0, "vmdk"),
    (b"vhdxfile", 0, "vhdx"),
    (b"conectix", 0, "vpc"),
    (b"<<< Oracle VM VirtualBox Disk Image >>>", 0, "vdi"),
    (b"\x1f\x8b", 0, "gzip"),
    (b"\xfd7zXZ\0", 0, "xz"),
    (b"\x55\xaa", 510, "raw"),
)
