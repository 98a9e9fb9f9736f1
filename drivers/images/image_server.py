"""
What the server of an image tells of it, before a machine is touched for its sake.

A file is looked at only as far as its first bytes. Errors raised: BadImage, Unreachable, and
InvalidDriverInfo for a file that may not be read; they name the URL, without its query, and the
cause.
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

#: What is read of an image to know its format: the volume descriptor of an ISO 9660 image is last.
HEAD = 16 * 2048 + 8
LONGEST_TEXT = 1 << 20
_CHUNK = 1 << 20
#: by what a server knows a version of a file -> how it is asked whether that has changed
_ASKED = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}


@dataclass(frozen=True, slots=True)
class Seen:
    """
    size: of the file, in bytes, if it was told. format: by its first bytes; None when they say
    nothing. written: bytes of disk that it takes, if known.
    """

    size: int | None
    format: str | None
    written: int | None


def look(target: Target, url: str) -> Seen:
    """What an image is, by its size and its first bytes."""
    with _opened(target, url, {"Range": f"bytes=0-{HEAD - 1}"}) as (stream, size):
        return _seen(_read(stream, HEAD, url), size)


def text(target: Target, url: str) -> str:
    """A small text, such as a file of checksums."""
    with _opened(target, url) as (stream, _size):
        found = _read(stream, LONGEST_TEXT + 1, url)
    if len(found) > LONGEST_TEXT:
        raise BadImage(f"{shown(url)} is too long for a file of checksums")
    return found.decode(errors="replace")


def chunks(target: Target, url: str) -> Iterator[bytes]:
    """All of an image."""
    with _opened(target, url) as (stream, _size):
        while chunk := _read(stream, _CHUNK, url):
            yield chunk


def copy(target: Target, url: str, place: Path, known: Mapping[str, str]) -> dict[str, str] | None:
    """
    Write what is at a http or https URL to a file.

    Returns by what the server would know it again, as `known` of the next call; None: it is still
    what is known, and nothing was written. Raises OSError, too.
    """
    asked = {_ASKED[name]: value for name, value in known.items() if name in _ASKED}
    with _answered(target, url, asked) as answer:
        if answer.status_code == HTTPStatus.NOT_MODIFIED:
            return None
        with place.open("wb") as file:
            while chunk := _read(answer.raw, _CHUNK, url):
                file.write(chunk)
            size = _size(answer)
            if size is not None and file.tell() != size:
                raise Unreachable(f"{shown(url)} broke off after {file.tell()} of {size} bytes")
        return {name: answer.headers[name] for name in _ASKED if name in answer.headers}


def name(url: str) -> str:
    """What a file is called there."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def shown(url: str) -> str:
    """A URL as it may be shown: credentials and signatures hide in its other parts."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, parts.path, "", ""))


@contextmanager
def _opened(
    target: Target, url: str, headers: dict[str, str] | None = None
) -> Iterator[tuple[Any, int | None]]:
    """What is at a URL, as something to read bytes from, and its size if it was told."""
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
            raise Unreachable(f"{shown(url)} cannot be had: {cause(error)}") from None
    with answer:
        if not answer.ok:
            wrong = Unreachable if answer.status_code >= 500 else BadImage
            raise wrong(
                f"{shown(url)} cannot be had: the server answered {answer.status_code}"
                f" {answer.reason}"
            )
        yield answer


def _read(stream: Any, most: int, url: str) -> bytes:
    try:
        return bytes(stream.read(most))
    except Exception as error:  # urllib3's own errors: they have no common base with OSError
        raise Unreachable(f"{shown(url)} broke off: {cause(error)}") from None


def _size(answer: requests.Response) -> int | None:
    """Of the whole file, also where only a part of it was sent."""
    whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
    told = whole or answer.headers.get("Content-Length", "")
    return int(told) if told.isdigit() else None


def _seen(head: bytes, size: int | None) -> Seen:
    if head[:4] == b"QFI\xfb":
        return Seen(size, "qcow2", int.from_bytes(head[24:32], "big"))
    for magic, at, name in _MAGIC:
        if head[at : at + len(magic)] == magic:
            return Seen(size, name, size)
    return Seen(size, None, size)


def cause(error: BaseException) -> str:
    """The innermost reason that the system gave."""
    found: str | None = None
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError) and at.strerror:
            found = at.strerror
        at = at.__cause__ or at.__context__
    return found or type(error).__name__


#: (bytes, where, format), the first that fits; an ISO image may have a boot sector, too
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
