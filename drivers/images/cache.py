"""
Cache of kernels, ramdisks and boot loaders, for the next machines that boot them.

The files lie in `[pxe]instance_master_path`: KEY is the content of a URL, KEY.json its checksum and
validators. Each use asks the server whether the file has changed; a server without validators sends
the file again. A copy with further hard links is in use, and is not evicted.
"""

import fcntl
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from drivers import urls
from drivers.core.errors import BadImage
from drivers.core.target import Target
from drivers.images import image_server

_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A local file with the content of a URL."""

    path: Path
    sha256: str  # hexadecimal


def get(target: Target, url: str) -> CachedFile:
    """
    Return the content of a http, https or file URL as a local file.

    Raises BadImage: the file cannot be fetched, read or stored.
    Raises Unreachable: the server does not answer.
    Raises InvalidDriverInfo: the file must not be published.
    """
    try:
        if urls.is_file(url):
            with urls.opened(target.options, url) as (file, path):
                return CachedFile(path, _sha256(file))
        folder = Path(target.options["pxe"]["instance_master_path"])
        folder.mkdir(parents=True, exist_ok=True)
        key = hashlib.sha256(url.encode()).hexdigest()
        with _locked(folder / f"{key}.lock"):
            return _fetched(target, url, folder / key)
    except OSError as error:
        raise BadImage(f"{error.filename or url}: {error.strerror}") from error


def put(source: Path, place: Path) -> None:
    """Put a copy of a file at another path: a hard link if possible. Raises OSError."""
    part = unfinished(place)
    part.unlink(missing_ok=True)  # left by a killed process with the same number
    try:
        os.link(source, part)
    except OSError:  # another file system, or no support for hard links
        shutil.copyfile(source, part)
    part.replace(place)


def unfinished(place: Path) -> Path:
    """Return the temporary path of a file that this thread writes."""
    return place.with_name(f".{place.name}.{os.getpid()}-{threading.get_ident()}.part")


def evict(folder: Path, size: int, ttl: int) -> int:
    """
    Remove copies that were not used for `ttl` minutes, then the oldest ones.

    The oldest ones are removed until the rest has at most `size` MiB. Copies in use stay. Returns
    the number of removed copies.
    """
    kept = sorted(
        (path.stat().st_mtime, path)
        for path in folder.glob("*")
        if path.suffix == "" and _is_copy(path)
    )
    left = sum(path.stat().st_size for _, path in kept)
    gone = 0
    for used, path in kept:
        facts = path.stat()
        old = time.time() - used > ttl * 60
        if facts.st_nlink > 1 or not (old or left > size * _MEBIBYTE):
            continue
        with _locked(path.with_suffix(".lock")):
            path.with_suffix(".json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        left -= facts.st_size
        gone += 1
    return gone


def _fetched(target: Target, url: str, place: Path) -> CachedFile:
    facts = place.with_suffix(".json")
    known: dict[str, str] = {}
    if place.exists():
        with suppress(OSError, ValueError):
            known = json.loads(facts.read_text())
    part = place.with_suffix(".part")
    validators = image_server.copy(target, url, part, known.get("validators") or {})  # type: ignore[arg-type]
    if validators is None:
        os.utime(place)
        return CachedFile(place, known["sha256"])
    with part.open("rb") as file:
        checksum = _sha256(file)
    facts.unlink(missing_ok=True)  # before the content changes: it must never describe another one
    part.replace(place)
    described = {"url": urls.redacted(url), "sha256": checksum, "validators": validators}
    facts.write_text(json.dumps(described))
    return CachedFile(place, checksum)


def _sha256(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _is_copy(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, among all threads and processes."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
