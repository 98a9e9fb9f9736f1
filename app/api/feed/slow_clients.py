"""
Clients that keep a connection open and receive nothing.

A thread that sends to such a client waits in granian, which has no time limit. The kernel has one.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path
from stat import S_ISSOCK

#: Seconds for which a client may receive nothing while there is something to send.
SILENCE = 60.0


def limit_silence(port: int) -> None:
    """
    Have the kernel close connections to a port of this process whose clients receive nothing.

    This covers the open connections, and those that are accepted later: they inherit the option of
    the listening socket, which granian opens after the start of the process.
    """
    for descriptor in [int(link.name) for link in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError):  # another thread closed it
            if S_ISSOCK(os.fstat(descriptor).st_mode):
                _limit(descriptor, port)


def _limit(descriptor: int, port: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if (
            connection.family in (socket.AF_INET, socket.AF_INET6)
            and connection.getsockname()[1] == port
        ):
            connection.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(SILENCE * 1000)
            )
