"""
IPMI sessions held by pyghmi in processes of their own: the side that asks.

`drivers.ipmi.child` says what the processes do. Here they are started, asked with a deadline,
and kept for a while, so that a node which is worked on logs in once. Whoever asks has the session
to itself: it is taken out of the kept ones, and put back only if it answered.
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

from drivers.core.errors import HardwareError, Refused, Unexpected, Unreachable
from drivers.ipmi.credentials import PRIVILEGES, Credentials

CHILD = Path(__file__).with_name("child.py")
ERRORS: dict[str, type[HardwareError]] = {
    "unreachable": Unreachable,
    "refused": Refused,
    "unexpected": Unexpected,
}


class Died(Exception):
    """The session's process ended without an answer, before the deadline."""


@dataclass(slots=True)
class Sessions:
    """
    All sessions of this process.

    keep: how many idle sessions are kept; beyond it, the one unused for longest is closed.
    """

    keep: int = 32
    _idle: OrderedDict[Credentials, socket.socket] = field(default_factory=OrderedDict)
    _nursery: subprocess.Popen[bytes] | None = None
    _control: socket.socket | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def raw(
        self, bmc: Credentials, netfn: int, command: int, data: bytes, deadline: float
    ) -> tuple[int, bytes]:
        """
        One IPMI request: its completion code and the bytes of its answer.

        deadline: time.monotonic() after which nobody wants the answer. A session whose process
        died is replaced once, and the request is sent again.

        Raises Unreachable, Refused (login), Unexpected.
        """
        request = {"bmc": _login(bmc), "netfn": netfn, "command": command, "data": list(data)}
        try:
            try:
                return self._ask(self._take(bmc), bmc, request, deadline)
            except Died:
                return self._ask(self._start(), bmc, request, deadline)
        except Died:
            raise Unreachable(
                f"the IPMI session with BMC {bmc.endpoint} broke, and so did a new one"
            ) from None

    def close(self) -> None:
        """End every session, and the process that made them."""
        with self._lock:
            while self._idle:
                self._idle.popitem()[1].close()
            self._end_nursery()

    @property
    def pid(self) -> int | None:
        """The process that all sessions descend from, if it was started."""
        return self._nursery.pid if self._nursery else None

    def _ask(
        self, channel: socket.socket, bmc: Credentials, request: dict[str, Any], deadline: float
    ) -> tuple[int, bytes]:
        answered = False
        try:
            answer = _exchange(channel, request, deadline)
            answered = "error" not in answer
        except TimeoutError:
            raise Unreachable(f"BMC {bmc.endpoint} did not answer in time over IPMI") from None
        finally:
            if answered:
                self._put_back(bmc, channel)
            else:
                channel.close()
        if not answered:
            reason = bmc.mask(answer["message"])
            raise ERRORS[answer["error"]](f"IPMI login to BMC {bmc.endpoint}: {reason}")
        return answer["code"], bytes(answer["data"])

    def _take(self, bmc: Credentials) -> socket.socket:
        with self._lock:
            channel = self._idle.pop(bmc, None)
        return channel or self._start()

    def _put_back(self, bmc: Credentials, channel: socket.socket) -> None:
        with self._lock:
            replaced = self._idle.pop(bmc, None)
            self._idle[bmc] = channel
            oldest = self._idle.popitem(last=False)[1] if len(self._idle) > self.keep else None
        for surplus in (replaced, oldest):
            if surplus is not None:
                surplus.close()

    def _start(self) -> socket.socket:
        """The channel of a new session process, which logs in at its first request."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            if self._control is not None:
                try:
                    socket.send_fds(self._control, [b"+"], [theirs.fileno()])
                except OSError:  # it was killed
                    self._end_nursery()
            if self._control is None:
                control = self._begin_nursery()
                socket.send_fds(control, [b"+"], [theirs.fileno()])
        return ours

    def _begin_nursery(self) -> socket.socket:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.settimeout(5.0)
        with theirs:
            # Its own session, so that Ctrl-C in a terminal leaves the order of the end to us
            self._nursery = subprocess.Popen(
                [sys.executable, "-P", str(CHILD)], stdin=theirs.fileno(), start_new_session=True
            )
        self._control = control
        return control

    def _end_nursery(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._nursery is not None:
            try:
                self._nursery.wait(timeout=5.0)
            except subprocess.TimeoutExpired:
                self._nursery.kill()
                self._nursery.wait()
            self._nursery = None


@cache
def sessions() -> Sessions:
    """The sessions of this process."""
    ours = Sessions()
    atexit.register(ours.close)
    return ours


def _exchange(channel: socket.socket, request: dict[str, Any], deadline: float) -> dict[str, Any]:
    """Send a request and receive its answer. Raises Died, TimeoutError."""
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
        raise Died from None
    if not answer:
        raise Died
    return json.loads(answer)  # type: ignore[no-any-return]


def _login(bmc: Credentials) -> dict[str, Any]:
    return {
        "address": bmc.address,
        "port": bmc.port,
        "username": bmc.username,
        "password": bmc.password,
        "privilege": PRIVILEGES[bmc.privilege] if bmc.privilege else None,
        "cipher_suite": bmc.cipher_suite,
        "kg": bmc.kg.hex() if bmc.kg else None,
    }
