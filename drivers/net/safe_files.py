"""
Safe opening of files whose paths come from users: regular files only, without blocking.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path


def is_below(path: str | Path, folders: Iterable[str]) -> bool:
    """Whether a path lies in one of these directories, with links resolved."""
    real_path = Path(os.path.realpath(path))
    return any(real_path.is_relative_to(os.path.realpath(folder)) for folder in folders if folder)


@contextmanager
def opened(path: str | Path) -> Iterator[tuple[BufferedReader, Path]]:
    """
    Open a regular file; yield it and its real path.

    Both checks use the open descriptor, so that a change of the name has no effect on them.

    Raises OSError: the file cannot be opened, or is a FIFO, a device or a directory.
    """
    try:
        # O_NONBLOCK: opening a FIFO would block until its other end is open
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except ValueError as error:  # a NUL in the path
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with os.fdopen(fd, "rb", closefd=False) as file:
            yield file, Path(f"/proc/self/fd/{fd}").readlink()
    finally:
        os.close(fd)
