"""Memory that forks share with their parent."""

import ctypes
import gc
import sys
from contextlib import suppress


def share() -> None:
    """
    Prepare the memory of this process for forks, so that these copy fewer of its pages.

    Garbage collections leave out all present objects, whose headers they would write to. The cache
    of types' attributes is emptied: it refers to the names that imports have looked up, and a fork
    would write to each of these when it replaces the entry. glibc returns free pages of its heap.
    """
    gc.freeze()
    sys._clear_type_cache()
    _fill_gaps()
    with suppress(OSError, AttributeError):  # other C libraries lack the function
        ctypes.CDLL(None).malloc_trim(0)


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
