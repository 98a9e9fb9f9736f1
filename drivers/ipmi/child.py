"""
The IPMI fork server: forks one small process for each BMC session of pyghmi.

pyghmi has no deadlines, hangs on a second login to a BMC, and runs all sessions of a process in one
event loop, where a silent BMC delays the others. Therefore each session has its own process, and no
BMC can delay another. The fork server imports pyghmi once, stays single-threaded and forks (under a
millisecond and a few MB each). The kernel enforces the deadline of a request: SIGALRM ends the
session's process, also if pyghmi hangs.

Run as a program, with a Unix socket (SOCK_SEQPACKET) as standard input. Each message on it
carries one file descriptor, the channel of a new session. Requests and answers on a channel are
JSON objects:

    {"bmc": {address, port, username, password, privilege, cipher_suite, kg},
     "netfn": int, "command": int, "data": [int, ...], "seconds": float}
    {"code": int, "data": [int, ...]}                 the BMC's completion code and answer
    {"error": "unreachable" | "refused" | "unexpected", "message": str}    the login failed

A session process ends, and closes its channel, when the session breaks or is idle for IDLE seconds.
The fork server ends when its standard input closes, and its session processes end with it.

Imports no other module of this project: it is run by its path.
"""

import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import threading
import traceback
from typing import Any

from pyghmi.exceptions import IpmiException
from pyghmi.ipmi.private import session as pyghmi_io
from pyghmi.ipmi.private.session import Session

#: Seconds until an idle session ends. Less than the 29 s after which pyghmi sends keepalives, which
#: need its event loop.
IDLE = 20.0
GRACE = 2  # seconds for logouts
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class Sha1Session(Session):
    """A session that starts with cipher suite 3; pyghmi's own starts with 17."""

    def _initsession(self) -> None:
        super()._initsession()
        self.attemptedhash = 1


def without_threads() -> None:
    """
    Make pyghmi read its sockets in the waiting thread, and not in a thread of its own.

    A packet that pyghmi's thread reads just before the wait is noticed only when the
    retransmission timer expires, half a second or more later.
    """

    def wait(timeout: float, _address: object = None, _events: object = None) -> None:
        select.select(pyghmi_io.iosockets, (), (), max(timeout, 0))
        pyghmi_io._io_graball(pyghmi_io.iosockets, {})

    pyghmi_io._io_wait = wait
    pyghmi_io.iothread = threading.main_thread()  # not None, so that pyghmi starts no thread
    pyghmi_io.iothreadready = True


def fork_server(control: socket.socket) -> None:
    """Fork a session process for each channel received, until the control socket closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    gc.freeze()  # so that garbage collection in a session copies no shared pages
    own_pid = os.getpid()
    while True:
        message, channels, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            break
        if os.fork() == 0:
            try:
                LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                control.close()
                if os.getppid() == own_pid:
                    serve(socket.socket(fileno=channels[0]))
            except BaseException:  # a child must not return to the fork server's loop
                traceback.print_exc()
            finally:
                os._exit(0)
        for channel in channels:
            os.close(channel)
    signal.alarm(GRACE)  # meanwhile sessions see their channels close, and log out
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def serve(channel: socket.socket) -> None:
    """Answer the requests of a channel over one session, until it breaks or is idle too long."""
    channel.settimeout(IDLE)
    session = None
    while True:
        try:
            message = channel.recv(65536)
        except TimeoutError:
            message = b""
        if not message:
            break
        request = json.loads(message)
        signal.setitimer(signal.ITIMER_REAL, max(request["seconds"], 0.001))
        if session is None:
            try:
                session = login(request["bmc"])
            except Exception as error:  # pyghmi may raise anything on a malformed answer
                channel.send(json.dumps(failure(error)).encode())
                return
        try:
            answer = session.raw_command(
                netfn=request["netfn"], command=request["command"], data=request["data"]
            )
        except IpmiException:
            return
        if answer["code"] == 0xFFFF:  # pyghmi's code for a missing answer
            return
        reply = {"code": answer["code"], "data": list(answer.get("data", ()))}
        channel.send(json.dumps(reply).encode())
        signal.setitimer(signal.ITIMER_REAL, 0)
    if session is not None:
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        session.logout()


def login(bmc: dict[str, Any]) -> Session:
    """
    Log in to a BMC.

    Raises Exception: pyghmi's errors are of many types.
    """
    kind = Sha1Session if bmc["cipher_suite"] == 3 else Session
    arguments = {
        "bmc": bmc["address"],
        "port": bmc["port"],
        "userid": bmc["username"],
        "password": bmc["password"],
        "privlevel": bmc["privilege"],
        "kg": bytes.fromhex(bmc["kg"]) if bmc["kg"] else None,
    }
    try:
        return kind(**arguments)
    except struct.error:
        if bmc["cipher_suite"] is not None:
            raise
    # The BMC answered an offer of SHA-256 with SHA-1 (as virtualbmc and pyghmi's own server do).
    # Without this, pyghmi would wait for the failed login. This process has no other session.
    for session_table in (
        Session.bmc_handlers,
        Session.initting_sessions,
        Session.waiting_sessions,
    ):
        session_table.clear()
    return Sha1Session(**arguments)


def failure(error: Exception) -> dict[str, str]:
    """Return the answer to a request whose login failed with `error`."""
    reason = str(error)
    if isinstance(error, OSError):
        kind = "unreachable"
    elif not isinstance(error, IpmiException):
        kind, reason = "unexpected", f"{type(error).__name__}: {reason}"
    elif reason in ("None", "", "timeout", "Session no longer connected"):
        kind, reason = "unreachable", "no answer"
    elif "Insufficient resources" in reason or "transmit" in reason:
        kind = "unreachable"
    else:
        kind = "refused"
    return {"error": kind, "message": reason}


if __name__ == "__main__":
    os.dup2(2, 1)  # pyghmi prints
    without_threads()
    standard_input = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    fork_server(standard_input)
