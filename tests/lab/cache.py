"""
Cache of artifacts that take minutes to build, by a hash of their inputs.

    with kept("ramdisk", "input", "another input") as (folder, made):
        if not made:
            ...  # put everything into the folder
"""

import fcntl
import hashlib
import os
import shutil
from contextlib import contextmanager
from pathlib import Path

#: Entries kept per kind: the present one and the one before.
KEPT = 2


def place():
    """Folder of the cache; `LAB_CACHE` overrides it."""
    override = os.environ.get("LAB_CACHE")
    folder = Path(override) if override else Path("/var/cache/ingot-tests/lab")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def key(*made_of):
    """Hash of files, texts and bytes."""
    summed = hashlib.sha256()
    for item in made_of:
        for part in sorted(item.rglob("*")) if isinstance(item, Path) and item.is_dir() else [item]:
            if isinstance(part, Path):
                if not part.is_file() or "__pycache__" in part.parts:
                    continue
                content = part.read_bytes()
            else:
                content = str(part).encode()
            summed.update(len(content).to_bytes(8, "big") + content)
    return summed.hexdigest()[:12]


@contextmanager
def kept(kind, *made_of):
    """
    Yield (folder, whether it is complete). It is complete once a block has ended without an error.

    One process at a time.
    """
    folder = place() / f"{kind}-{key(*made_of)}"
    with open(place() / f"{kind}.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        ready = folder / ".complete"
        is_complete = ready.exists()
        if not is_complete:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder, is_complete
        ready.touch()
        _forget(kind, folder)


def _forget(kind, present):
    """Remove the oldest entries."""
    folders = [path for path in place().glob(f"{kind}-*") if path != present and path.is_dir()]
    folders.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in folders[KEPT - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)
