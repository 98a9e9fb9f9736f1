"""
Opening files whose names come from elsewhere: regular files only, and never waiting for one.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path


@contextmanager
def opened(place: str | Path) -> Iterator[tuple[BufferedReader, Path]]:
    """
    Open a file, and say where it really lies.

    Both facts are those of the open descriptor, whatever becomes of the name meanwhile. Raises
    OSError, also for a FIFO, a device or a directory.
    """
    try:
        # O_NONBLOCK: to open a FIFO would wait for its other end
        fd = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except ValueError as error:  # a NUL
        raise OSError(errno.EINVAL, str(error), str(place)) from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(place))
        with os.fdopen(fd, "rb", closefd=False) as file:
            yield file, Path(f"/proc/self/fd/{fd}").readlink()
    finally:
        os.close(fd)
