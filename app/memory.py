"""
Memory of processes that fork: preparation for the forks, and release of libraries' pages.

See docs/architecture.md, "What an idle service costs".
"""

import ctypes
import gc
import re
import sys
from contextlib import suppress
from pathlib import Path

_MADV_DONTNEED = 4
#: First line of a mapping in `smaps`: its address, end and permissions, and the file, if any.
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) [^/]*(/?)")


def share() -> None:
    """
    Prepare the memory of this process for forks, so that these copy fewer of its pages.

    Garbage collections leave out all present objects, whose headers they would write to. The cache
    of types' attributes is emptied: it refers to the names that imports have looked up, and a fork
    would write to each of these when it replaces the entry. glibc returns free pages of its heap.
    """
    gc.freeze()
    sys._clear_type_cache()
    with suppress(OSError, AttributeError):  # other C libraries lack the function
        ctypes.CDLL(None).malloc_trim(0)


def release_libraries() -> None:
    """
    Unmap the resident pages of libraries' code and constants; the next access maps them again.

    For a process that has imported all modules and hardly runs any of their code. Linux only.
    """
    with suppress(OSError, AttributeError):
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        with Path("/proc/self/smaps").open() as mappings:
            for line in mappings:
                if found := _MAPPING.match(line):
                    constant = found[4] and "w" not in found[3]
                    start, end = int(found[1], 16), int(found[2], 16)
                # a page that the linker has written to would be lost
                elif constant and line.split() == ["Anonymous:", "0", "kB"]:
                    madvise(start, end - start, _MADV_DONTNEED)
