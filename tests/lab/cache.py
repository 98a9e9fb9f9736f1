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
    named = os.environ.get("LAB_CACHE")
    found = Path(named) if named else Path("/var/cache/ingot-tests/lab")
    found.mkdir(parents=True, exist_ok=True)
    return found


def key(*made_of):
    """Hash of files, texts and bytes."""
    summed = hashlib.sha256()
    for each in made_of:
        for part in sorted(each.rglob("*")) if isinstance(each, Path) and each.is_dir() else [each]:
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
        made = ready.exists()
        if not made:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder, made
        ready.touch()
        _forget(kind, folder)


def _forget(kind, present):
    """Remove the oldest entries."""
    others = [path for path in place().glob(f"{kind}-*") if path != present and path.is_dir()]
    others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for each in others[KEPT - 1 :]:
        shutil.rmtree(each, ignore_errors=True)
