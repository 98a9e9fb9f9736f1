"""
Copies of kernels, ramdisks and boot loaders, kept for the next machine that boots them.

They lie in `[pxe]instance_master_path`: KEY is what was at a URL, KEY.json what is known of it. The
server is asked each time whether its file has changed since; one that cannot tell sends it again.
A copy that is linked from elsewhere is in use, and stays.
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
class Kept:
    """path: where a copy lies. sha256: of its content, in hex."""

    path: Path
    sha256: str


def get(target: Target, url: str) -> Kept:
    """
    What is at a http, https or file URL, as a file of this host.

    Raises BadImage, Unreachable, InvalidDriverInfo (a file that may not be handed out).
    """
    try:
        if urls.is_file(url):
            with urls.opened(target.options, url) as (file, path):
                return Kept(path, _sum(file))
        folder = Path(target.options["pxe"]["instance_master_path"])
        folder.mkdir(parents=True, exist_ok=True)
        key = hashlib.sha256(url.encode()).hexdigest()
        with _locked(folder / f"{key}.lock"):
            return _fetched(target, url, folder / key)
    except OSError as error:
        raise BadImage(f"{error.filename or url}: {error.strerror}") from error


def put(source: Path, place: Path) -> None:
    """Have a file in another place, too: by a link where that can be. Raises OSError."""
    part = unfinished(place)
    part.unlink(missing_ok=True)  # who had this number before us was killed
    try:
        os.link(source, part)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, part)
    part.replace(place)


def unfinished(place: Path) -> Path:
    """Where a file is written before it takes its place: for this thread alone."""
    return place.with_name(f".{place.name}.{os.getpid()}-{threading.get_ident()}.part")


def evict(folder: Path, size: int, ttl: int) -> int:
    """
    Remove copies that nobody has used for `ttl` minutes, and then the oldest until all together
    have at most `size` MiB; those in use stay. Returns how many went.
    """
    kept = sorted(
        (path.stat().st_mtime, path) for path in folder.glob("*") if path.suffix == "" and _is(path)
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


def _fetched(target: Target, url: str, place: Path) -> Kept:
    facts = place.with_suffix(".json")
    known: dict[str, str] = {}
    if place.exists():
        with suppress(OSError, ValueError):
            known = json.loads(facts.read_text())
    part = place.with_suffix(".part")
    validators = image_server.copy(target, url, part, known.get("validators") or {})  # type: ignore[arg-type]
    if validators is None:
        os.utime(place)
        return Kept(place, known["sha256"])
    with part.open("rb") as file:
        checksum = _sum(file)
    facts.unlink(missing_ok=True)  # it never describes another content
    part.replace(place)
    described = {"url": image_server.shown(url), "sha256": checksum, "validators": validators}
    facts.write_text(json.dumps(described))
    return Kept(place, checksum)


def _sum(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _is(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One at a time, of all threads and processes."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
