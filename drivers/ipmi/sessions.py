"""
Transport over pyghmi: a pool of sessions, each in a process of its own.

`drivers.ipmi.child` is the program of these processes. A session is kept for a while after a
request, so that an operation on a node logs in once. A request takes its session out of the pool,
and returns it only after an answer, so that no two requests share a session.
"""

import atexit
import json
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from drivers.core.errors import HardwareError, LoginRefused, Unexpected, Unreachable
from drivers.ipmi.credentials import PRIVILEGES, Credentials
from drivers.net.child_environment import without_settings

CHILD = Path(__file__).with_name("child.py")
ERRORS: dict[str, type[HardwareError]] = {
    "unreachable": Unreachable,
    "refused": LoginRefused,
    "unexpected": Unexpected,
}
#: Messages (network function, command) that are sent once: power commands, as the first one may
#: have been carried out. The client looks at the power state then.
ONCE = frozenset({(0x00, 0x02)})


class SessionDied(Exception):
    """The session's process ended without an answer, before the deadline."""


@dataclass(slots=True)
class Sessions:
    """All sessions of this process."""

    keep: int = 32  # most idle sessions; the one unused for longest is closed
    #: channels of idle sessions, the one unused for longest first
    _idle: OrderedDict[Credentials, socket.socket] = field(default_factory=OrderedDict)
    _fork_server: subprocess.Popen[bytes] | None = None
    _control: socket.socket | None = None  # to the fork server
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def raw(
        self, bmc: Credentials, netfn: int, command: int, data: bytes, deadline: float
    ) -> tuple[int, bytes]:
        """
        Send an IPMI request; return its completion code and the data of its answer.

        deadline: `time.monotonic()` at which the request fails. If the session's process died, the
        request is sent once more, over a new session, unless it is one of `ONCE`.

        Raises Unreachable, Unexpected.
        Raises LoginRefused.
        """
        request = {"bmc": _login(bmc), "netfn": netfn, "command": command, "data": list(data)}
        try:
            try:
                return self._ask(self._take(bmc), bmc, request, deadline)
            except SessionDied:
                if (netfn, command) in ONCE:
                    raise
                return self._ask(self._start(), bmc, request, deadline)
        except SessionDied:
            raise Unreachable(f"the IPMI session with BMC {bmc.endpoint} broke") from None

    def forget(self, bmc: Credentials) -> None:
        """End the idle session with these credentials, if there is one."""
        with self._lock:
            channel = self._idle.pop(bmc, None)
        if channel is not None:
            channel.close()

    def close(self) -> None:
        """End all sessions and the fork server."""
        with self._lock:
            while self._idle:
                self._idle.popitem()[1].close()
            self._end_fork_server()

    @property
    def pid(self) -> int | None:
        """Process id of the fork server; None if it was not started."""
        return self._fork_server.pid if self._fork_server else None

    def _ask(
        self, channel: socket.socket, bmc: Credentials, request: dict[str, Any], deadline: float
    ) -> tuple[int, bytes]:
        is_answered = False
        try:
            answer = _exchange(channel, request, deadline)
            is_answered = "error" not in answer
        except TimeoutError:
            raise Unreachable(f"BMC {bmc.endpoint} did not answer in time over IPMI") from None
        finally:
            if is_answered:
                self._put_back(bmc, channel)
            else:
                channel.close()
        if not is_answered:
            reason = bmc.mask(answer["message"])
            raise ERRORS[answer["error"]](f"IPMI login to BMC {bmc.endpoint}: {reason}")
        return answer["code"], bytes(answer["data"])

    def _take(self, bmc: Credentials) -> socket.socket:
        with self._lock:
            channel = self._idle.pop(bmc, None)
        return channel or self._start()

    def _put_back(self, bmc: Credentials, channel: socket.socket) -> None:
        with self._lock:
            replaced_channel = self._idle.pop(bmc, None)
            self._idle[bmc] = channel
            oldest_channel = (
                self._idle.popitem(last=False)[1] if len(self._idle) > self.keep else None
            )
        for unused_channel in (replaced_channel, oldest_channel):
            if unused_channel is not None:
                unused_channel.close()

    def _start(self) -> socket.socket:
        """Start a session process, which logs in at its first request; return its channel."""
        parent_socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_socket, self._lock:
            if self._control is not None:
                try:
                    socket.send_fds(self._control, [b"+"], [child_socket.fileno()])
                except OSError:  # the fork server was killed
                    self._end_fork_server()
            if self._control is None:
                control = self._start_fork_server()
                socket.send_fds(control, [b"+"], [child_socket.fileno()])
        return parent_socket

    def _start_fork_server(self) -> socket.socket:
        control, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.settimeout(5.0)
        with child_socket:
            # in a process group of its own: Ctrl-C in a terminal must not end it before `close`
            self._fork_server = subprocess.Popen(
                [sys.executable, "-P", str(CHILD)],
                stdin=child_socket.fileno(),
                start_new_session=True,
                env=without_settings(),
            )
        self._control = control
        return control

    def _end_fork_server(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._fork_server is not None:
            try:
                self._fork_server.wait(timeout=5.0)
            except subprocess.TimeoutExpired:
                self._fork_server.kill()
                self._fork_server.wait()
            self._fork_server = None


@cache
def sessions() -> Sessions:
    """The sessions of this process."""
    session_pool = Sessions()
    atexit.register(session_pool.close)
    return session_pool


def _exchange(channel: socket.socket, request: dict[str, Any], deadline: float) -> dict[str, Any]:
    """
    Send a request over a channel, and receive its answer.

    Raises SessionDied, TimeoutError.
    """
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    try:
        channel.settimeout(seconds)
        channel.send(json.dumps({**request, "seconds": seconds}).encode())
        answer = channel.recv(65536)
    except TimeoutError:
        raise
    except OSError:
        raise SessionDied from None
    if not answer:
        raise SessionDied
    return json.loads(answer)  # type: ignore[no-any-return]


def _login(bmc: Credentials) -> dict[str, Any]:
    return {
        "address": bmc.peer or bmc.address,
        "port": bmc.port,
        "username": bmc.username,
        "password": bmc.password,
        "privilege": PRIVILEGES[bmc.privilege] if bmc.privilege else None,
        "cipher_suite": bmc.cipher_suite,
        "kg": bmc.kg.hex() if bmc.kg else None,
    }
