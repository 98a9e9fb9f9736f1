"""
Ties between processes: death with the parent, adoption of orphans (Linux only).
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else lambda *_: 0


def die_with_parent(parent: int) -> None:
    """
    Have the kernel kill this process when `parent`, which forked it, ends.

    Call it first after the fork. The setting survives an `exec`; children of this process need
    their own call.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent has ended."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
