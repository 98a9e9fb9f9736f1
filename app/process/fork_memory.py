"""Memory that forks share with their parent."""

import ctypes
import gc
import mmap
import re
from contextlib import suppress
from pathlib import Path


def share() -> None:
    """
    Prepare the memory of this process for forks, so that these copy fewer of its pages.

    Garbage collections leave out all present objects, whose headers they would write to. glibc
    returns free pages of its heap, and the process its pages of libraries, most of which only its
    imports have used.
    """
    gc.freeze()
    with suppress(OSError, AttributeError):  # other C libraries and systems lack the functions
        libc = ctypes.CDLL(None)
        libc.malloc_trim(0)
        for start, end in _unchanged_pages_of_files():
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


#: First line of a read-only mapping of a file in /proc/PID/smaps.
_READ_ONLY = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-[-x]p \S+ \S+ [1-9]")


def _unchanged_pages_of_files() -> list[tuple[int, int]]:
    """
    Return the addresses, start and end, of the read-only mappings of files, as libraries have.

    Their pages are the files', and return on access: mappings are left out that have pages of
    their own, such as relocated addresses.
    """
    ranges = []
    mapping = None
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line[0] in "0123456789abcdef":
            mapping = _READ_ONLY.match(line)
        elif mapping and line.startswith("Anonymous:") and line.split()[1] == "0":
            ranges.append((int(mapping[1], 16), int(mapping[2], 16)))
    return ranges
