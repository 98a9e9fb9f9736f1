"""
Vital signs of a role, for systemd and for probes of containers, which start it again.

A role gives a sign when it has done some of its work: a conductor a heartbeat, a beat a tick, a
server an answer to a request of its own. Nothing gives signs by a timer alone, so a process that
lives but no longer works goes silent. systemd hears them by its protocol of notifications
(https://www.freedesktop.org/software/systemd/man/sd_notify.html), if NOTIFY_SOCKET names its
socket; probes ask the role's exporter, which shares the memory of the last sign.

Only the process that called `begin` gives signs: those that it forks or starts would speak in its
name.
"""

import mmap
import os
import socket
import struct
import time
from collections.abc import MutableMapping

from app.config.settings import Settings
from app.observe import log

seldom = log.RateLimited(log.get(__name__))

#: Variables of systemd's protocol; they are removed, as child processes are not asked.
VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")
#: Seconds between two requests of a server to itself.
REQUEST_INTERVAL = 10.0
#: Seconds without a sign after which the answer to a probe is that the role does not work. Every
#: role gives several signs in this time; a conductor with a longer heartbeat_interval, one.
SILENCE = 60.0
#: Most characters of a status.
LONGEST = 200


class VitalSigns:
    """
    The signs of one role.

    environ: that of the process; its variables of systemd are removed.
    """

    _FORM = struct.Struct("dB")  # monotonic time of the last sign, whether it is ready

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        address, owner, timeout = (environ.pop(name, "") for name in VARIABLES)
        self._pid = os.getpid()
        self._address = address
        #: Seconds without a sign after which systemd ends this process, if it does.
        self.patience: float | None = None
        if timeout.isdigit() and owner in ("", str(self._pid)):
            self.patience = int(timeout) / 1e6
        self._memory = mmap.mmap(-1, self._FORM.size)
        self._status = ""
        self._is_stopping = False
        self._set(is_ready=False)

    def _set(self, *, is_ready: bool) -> None:
        self._memory[:] = self._FORM.pack(time.monotonic(), is_ready)

    def are_noted(self, settings: Settings) -> bool:
        """Whether this is the process of the signs, and systemd or a probe notes them."""
        is_asked = bool(self._address) or settings.metrics.port is not None
        return is_asked and os.getpid() == self._pid

    @property
    def is_ready(self) -> bool:
        """Whether the role has given a sign, and does not stop."""
        return bool(self._FORM.unpack(self._memory[:])[1])

    @property
    def silence(self) -> float:
        """Seconds since the last sign, or since the start."""
        return float(time.monotonic() - self._FORM.unpack(self._memory[:])[0])

    def work(self, status: str) -> None:
        """Give a sign: the role has just worked. The first one says that it is ready."""
        if os.getpid() != self._pid:
            return
        lines = [] if self.is_ready or self._is_stopping else ["READY=1"]
        self._set(is_ready=not self._is_stopping)
        if self.patience:
            lines.append("WATCHDOG=1")
        self._send(*lines, *self._changed(status))

    def report(self, status: str) -> None:
        """Describe the role, without a sign of work."""
        if os.getpid() == self._pid:
            self._send(*self._changed(status))

    def stop(self, status: str) -> None:
        """Say that the role stops; its work until then gives signs as before."""
        if os.getpid() == self._pid:
            self._is_stopping = True
            self._set(is_ready=False)
            self._send("STOPPING=1", *self._changed(status))

    def _changed(self, status: str) -> list[str]:
        """Return the line of a status that is not the last one; a status is one line itself."""
        status = " ".join(status.split())[:LONGEST]
        changed, self._status = status != self._status, status
        return [f"STATUS={status}"] if changed else []

    def _send(self, *lines: str) -> None:
        if not lines or not self._address:
            return
        # "@" stands for the NUL of an abstract address
        path = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)  # a full socket delays no heartbeat
                sock.sendto("\n".join(lines).encode(), path)
        except (OSError, ValueError) as error:  # ValueError: NUL in the address
            seldom.warning("systemd.not_notified", detail=str(error))


_current: VitalSigns | None = None


def begin(environ: MutableMapping[str, str]) -> None:
    """Let this process give signs, and those that it forks read them."""
    global _current  # noqa: PLW0603 - a process has one role
    _current = VitalSigns(environ)


def are_noted(settings: Settings) -> bool:
    """Whether this process gives signs that systemd or a probe of its exporter notes."""
    return _current is not None and _current.are_noted(settings)


def current() -> VitalSigns | None:
    """Return the signs of this process or of the one that forked it, if there are any."""
    return _current


def work(status: str) -> None:
    """As VitalSigns.work, if this process gives signs."""
    if _current is not None:
        _current.work(status)


def report(status: str) -> None:
    """As VitalSigns.report, if this process gives signs."""
    if _current is not None:
        _current.report(status)


def stop(status: str) -> None:
    """As VitalSigns.stop, if this process gives signs."""
    if _current is not None:
        _current.stop(status)
