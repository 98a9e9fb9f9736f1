"""
Runs a program that ends with its parent: `python child.py PARENT PROGRAM ARGUMENT...`.

Imports no other module of this project: it is run by its path.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, program: str, *arguments: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        sys.exit(1)
    os.execvp(program, [program, *arguments])  # noqa: S606 - there is none


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
