"""Disks that are really full: small file systems in memory; they take the right to mount them."""

import os
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.prerequisites import not_allowed

#: Size of most writes; the last bytes are filled with smaller ones.
CHUNK = 1 << 20


class Disk:
    def __init__(self, path):
        self.path = Path(path)
        self._ballast = self.path / "ballast"

    def fill(self):
        """Fill the disk to the last byte; repeat it after space has been freed."""
        for size in (CHUNK, 4096, 1):
            with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
                while True:
                    file.write(b"\0" * size)

    def empty(self):
        self._ballast.unlink()


@contextmanager
def disk(path, megabytes, owner=None):
    """Mount a disk of a size at a path; skip the test if that is not allowed."""
    Path(path).mkdir(parents=True, exist_ok=True)
    options = f"size={megabytes}m,mode=700"
    if owner is not None and not os.geteuid():
        options += f",uid={owner[0]},gid={owner[1]}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "ingot-test", str(path)]
    try:
        subprocess.run(mount, check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        not_allowed("a small disk cannot be mounted: that takes root, with CAP_SYS_ADMIN")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True, timeout=10)
