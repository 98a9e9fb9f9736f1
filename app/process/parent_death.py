"""
Ties between processes: death with the parent, adoption of orphans (Linux only).

Imports no other module of this project, as `tied` runs it by its path.
"""

import ctypes
import fcntl
import os
import signal
import sys
import termios
from collections.abc import Sequence

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


def tied(command: Sequence[str]) -> list[str]:
    """
    Return a command that runs another one, which the kernel kills when this process ends.

    If its standard input is a terminal, it leads a session with the terminal, so that the kernel
    also ends it when the other side closes.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _launch(parent: int, program: str, *arguments: str) -> None:
    die_with_parent(parent)
    if os.isatty(0):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.execvp(program, [program, *arguments])  # noqa: S606 - there is none


if __name__ == "__main__":
    _launch(int(sys.argv[1]), *sys.argv[2:])
