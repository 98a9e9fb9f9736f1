"""
Runs a program in a terminal: `python terminal.py PARENT PROGRAM ARGUMENT...`, standard input being
the terminal.

The program leads a session with this terminal, so that the kernel ends it when the other side
closes; and the kernel kills it when the process PARENT ends. Imports no other module of this
project: it is run by its path.
"""

import ctypes
import fcntl
import os
import signal
import sys
import termios

PR_SET_PDEATHSIG = 1


def main(parent: int, program: str, *arguments: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        sys.exit(1)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.execvp(program, [program, *arguments])  # noqa: S606 - there is none


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
