"""
Cache of kernels, ramdisks and boot loaders, for the next machines that boot them.

The files lie in `[pxe]instance_master_path`: KEY is the content of a URL, KEY.json its checksum and
validators, and its time is that of the last use. Each use asks the server whether the file has
changed; a server without validators sends the file again, and so does a server whose copy here is
damaged: the answer "not changed" is about the server's file, not about the copy. A copy with
further hard links is in use, and is not evicted.
"""

import fcntl
import filecmp
import hashlib
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from drivers.core.errors import BadImage, Unexpected
from drivers.core.target import Target
from drivers.images import image_server
from drivers.net import urls

logger = logging.getLogger(__name__)
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
    """
    Put a copy of a file at another path: a hard link if possible. An equal file stays.

    Raises OSError.
    """
    if place.is_file() and filecmp.cmp(source, place, shallow=False):
        return
    part = unfinished(place)
    part.unlink(missing_ok=True)  # left by a killed process with the same number
    try:
        os.link(source, part)
    except OSError:  # another file system, or no support for hard links
        shutil.copyfile(source, part)
    complete(part, place)


def complete(part: Path, place: Path) -> None:
    """
    Give a finished file its name. Its content is on the disk first, so that a loss of power cannot
    leave a part of it under this name. Raises OSError.
    """
    with part.open("rb") as file:
        os.fsync(file.fileno())
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
        (_used_at(path), path) for path in folder.glob("*") if path.suffix == "" and _is_copy(path)
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


@dataclass(frozen=True, slots=True)
class _Facts:
    """Record of a copy: KEY.json."""

    sha256: str
    validators: Mapping[str, str]


def _fetched(target: Target, url: str, place: Path) -> CachedFile:
    record = place.with_suffix(".json")
    facts = _read_facts(record)
    if facts is not None and not _is_whole(place, facts):
        logger.warning("cache.damaged", extra={"url": urls.redacted(url), "copy": str(place)})
        facts = None
    part = place.with_suffix(".part")
    validators = image_server.copy(target, url, part, facts.validators if facts else {})
    if validators is None and facts is not None:
        os.utime(record)
        return CachedFile(place, facts.sha256)
    if validators is None:
        raise Unexpected(f"{urls.redacted(url)}: the server sent no content for a new copy")
    with part.open("rb") as file:
        checksum = _sha256(file)
    record.unlink(missing_ok=True)  # before the content changes: it must never describe another one
    complete(part, place)
    described = {"url": urls.redacted(url), "sha256": checksum, "validators": validators}
    record.write_text(json.dumps(described))
    _WHOLE[place] = _state(place)
    return CachedFile(place, checksum)


def _read_facts(record: Path) -> _Facts | None:
    """Return the record of a copy; None if there is none, or it is damaged."""
    try:
        facts = json.loads(record.read_text())
        validators = dict(facts["validators"])
        if all(isinstance(text, str) for text in (facts["sha256"], *validators.values())):
            return _Facts(facts["sha256"], validators)
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return None


#: Copy -> the state of the file in which this process has compared it with its record.
_WHOLE: dict[Path, tuple[int, ...]] = {}


def _is_whole(place: Path, facts: _Facts) -> bool:
    """
    Return whether a copy has the content of its record: a loss of power, a full disk or a person
    may have changed it.

    It is read once per process, and again after each change of its size or time.
    """
    try:
        state = _state(place)
        if _WHOLE.get(place) == state:
            return True
        with place.open("rb") as file:
            whole = _sha256(file) == facts.sha256
    except OSError:
        return False
    if whole:
        _WHOLE[place] = state
    return whole


def _state(place: Path) -> tuple[int, ...]:
    found = place.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _sha256(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _used_at(path: Path) -> float:
    """Return the time of a copy's last use."""
    record = path.with_suffix(".json")
    return (record if record.exists() else path).stat().st_mtime


def _is_copy(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, among all threads and processes."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
