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


def put(source: Path, path: Path) -> None:
    """
    Put a copy of a file at another path: a hard link if possible. An equal file stays.

    Raises OSError.
    """
    if path.is_file() and filecmp.cmp(source, path, shallow=False):
        return
    part = unfinished(path)
    part.unlink(missing_ok=True)  # left by a killed process with the same number
    try:
        os.link(source, part)
    except OSError:  # another file system, or no support for hard links
        shutil.copyfile(source, part)
    complete(part, path)


def complete(part: Path, path: Path) -> None:
    """
    Give a finished file its name. Its content is on the disk first, so that a loss of power cannot
    leave a part of it under this name. Raises OSError.
    """
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


def unfinished(path: Path) -> Path:
    """Return the temporary path of a file that this thread writes."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")


def evict(folder: Path, size: int, ttl: int) -> int:
    """
    Remove copies that were not used for `ttl` minutes, then the oldest ones.

    The oldest ones are removed until the rest has at most `size` MiB. Copies in use stay. Returns
    the number of removed copies.
    """
    cached_files = sorted(
        (_used_at(path), path) for path in folder.glob("*") if path.suffix == "" and _is_copy(path)
    )
    total_size = sum(path.stat().st_size for _, path in cached_files)
    removed_count = 0
    for used_at, path in cached_files:
        facts = path.stat()
        is_old = time.time() - used_at > ttl * 60
        if facts.st_nlink > 1 or not (is_old or total_size > size * _MEBIBYTE):
            continue
        with _locked(path.with_suffix(".lock")):
            path.with_suffix(".json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        total_size -= facts.st_size
        removed_count += 1
    return removed_count


@dataclass(frozen=True, slots=True)
class _Facts:
    """Record of a copy: KEY.json."""

    sha256: str
    validators: Mapping[str, str]


def _fetched(target: Target, url: str, path: Path) -> CachedFile:
    record = path.with_suffix(".json")
    facts = _read_facts(record)
    if facts is not None and not _is_whole(path, facts):
        logger.warning("cache.damaged", extra={"url": urls.redacted(url), "copy": str(path)})
        facts = None
    part = path.with_suffix(".part")
    validators = image_server.copy(target, url, part, facts.validators if facts else {})
    if validators is None and facts is not None:
        os.utime(record)
        return CachedFile(path, facts.sha256)
    if validators is None:
        raise Unexpected(f"{urls.redacted(url)}: the server sent no content for a new copy")
    with part.open("rb") as file:
        checksum = _sha256(file)
    record.unlink(missing_ok=True)  # before the content changes: it must never describe another one
    complete(part, path)
    record_facts = {"url": urls.redacted(url), "sha256": checksum, "validators": validators}
    record.write_text(json.dumps(record_facts))
    _WHOLE[path] = _state(path)
    return CachedFile(path, checksum)


def _read_facts(record: Path) -> _Facts | None:
    """Return the record of a copy, unless it is missing or damaged."""
    try:
        facts = json.loads(record.read_text())
        validators = dict(facts["validators"])
        if all(isinstance(text, str) for text in (facts["sha256"], *validators.values())):
            return _Facts(facts["sha256"], validators)
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return None


#: Copy -> the state of the file when this process compared it with its record.
_WHOLE: dict[Path, tuple[int, ...]] = {}


def _is_whole(path: Path, facts: _Facts) -> bool:
    """
    Return whether a copy has the content of its record: a loss of power, a full disk or a person
    may have changed it.

    It is read once per process, and again after each change of its size or time.
    """
    try:
        state = _state(path)
        if _WHOLE.get(path) == state:
            return True
        with path.open("rb") as file:
            is_intact = _sha256(file) == facts.sha256
    except OSError:
        return False
    if is_intact:
        _WHOLE[path] = state
    return is_intact


def _state(path: Path) -> tuple[int, ...]:
    file_status = path.stat()
    return file_status.st_dev, file_status.st_ino, file_status.st_size, file_status.st_mtime_ns


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
