"""
Processes that do not outlive the one that started them, whichever way it ended.
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
    Be killed when the process `parent`, which forked this one, ends.

    Call it first thing after the fork. An `exec` keeps it; own children need their own.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
