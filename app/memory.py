"""Memory that forks share with their parent."""

import ctypes
import gc
import mmap
import re
import sys
from contextlib import suppress
from pathlib import Path


def share() -> None:
    """
    Prepare the memory of this process for forks, so that these copy fewer of its pages.

    Garbage collections leave out all present objects, whose headers they would write to. The cache
    of types' attributes is emptied: it refers to the names that imports have looked up, and a fork
    would write to each of these when it replaces the entry. glibc returns free pages of its heap,
    and the process its pages of libraries, most of which only its imports have used.
    """
    gc.freeze()
    sys._clear_type_cache()
    _fill_gaps()
    with suppress(OSError, AttributeError):  # other C libraries and systems lack the functions
        libc = ctypes.CDLL(None)
        libc.malloc_trim(0)
        for start, end in _unchanged_pages_of_files():
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


#: Objects that fill the gaps between others.
_FILLING: list[bytes] = []
#: The interpreter's own allocator: the distance of its sizes, its largest one, and the bytes of a
#: pool, which has blocks of one size.
_STEP, _LARGEST, _POOL = 16, 512, 16 << 10
#: Most objects of a size, several times the usual number.
_MOST = 2000


def _fill_gaps() -> None:
    """
    Fill the gaps between objects, so that forks put new objects on pages of their own.

    The gaps of a size are filled as soon as half a pool of new blocks has followed one another.
    Other allocators than the interpreter's own never do this.
    """
    empty = sys.getsizeof(b"")
    for size in range(empty // _STEP * _STEP + _STEP, _LARGEST + 1, _STEP):
        following = last = 0
        for _ in range(_MOST):
            block = bytes(size - empty)
            _FILLING.append(block)
            following = following + 1 if id(block) == last + size else 0
            last = id(block)
            if following > _POOL // size // 2:
                break


#: A line of /proc/PID/smaps that begins a read-only mapping of a file.
_READ_ONLY = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-[-x]p \S+ \S+ [1-9]")


def _unchanged_pages_of_files() -> list[tuple[int, int]]:
    """
    Return the addresses, start and end, of the read-only mappings of files, as libraries have.

    Their pages are the files', and return on access: mappings are left out that have pages of
    their own, such as relocated addresses.
    """
    found = []
    mapping = None
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line[0] in "0123456789abcdef":
            mapping = _READ_ONLY.match(line)
        elif mapping and line.startswith("Anonymous:") and line.split()[1] == "0":
            found.append((int(mapping[1], 16), int(mapping[2], 16)))
    return found
