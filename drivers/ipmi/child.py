"""
The process that speaks IPMI: a nursery that forks one small process for each BMC session.

pyghmi cannot be given a deadline, hangs when it logs in twice to one BMC, and runs all sessions of
a process through one event loop, where a BMC that does not answer holds up the others. So each
session has a process to itself. The nursery imports pyghmi once, stays single-threaded and forks
(under a millisecond and a few MB each); what a session may take is enforced by the kernel,
which ends its process by SIGALRM at the deadline of a request whatever pyghmi does at that time.
No BMC can delay another.

Run as a program, with a Unix socket (SOCK_SEQPACKET) as standard input. Each message on it
carries one file descriptor, the channel of a new session. Over a channel go JSON objects:

    {"bmc": {address, port, username, password, privilege, cipher_suite, kg},
     "netfn": int, "command": int, "data": [int, ...], "seconds": float}
    {"code": int, "data": [int, ...]}                 the BMC's answer and its completion code
    {"error": "unreachable" | "refused" | "unexpected", "message": str}    there is no session

A session that breaks, or is not used for IDLE seconds, ends its process, which closes the channel.
The nursery ends when its standard input closes, and the sessions end with the nursery.

Imports nothing of Ingot's: it runs by its path, wherever that is.
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

#: Seconds; below the 29 s after which pyghmi wants to send keepalives, which needs an event loop.
IDLE = 20.0
GRACE = 2
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class Sha1Session(Session):
    """A session that offers cipher suite 3 at once, where pyghmi offers 17 first."""

    def _initsession(self) -> None:
        super()._initsession()
        self.attemptedhash = 1


def without_threads() -> None:
    """
    Let pyghmi read its sockets where it waits for them, and not in a thread.

    A packet that its thread takes just before somebody waits for it is noticed only when the
    timer of a retransmission runs out, half a second or more later.
    """

    def wait(timeout: float, _address: Any = None, _events: Any = None) -> None:
        select.select(pyghmi_io.iosockets, (), (), max(timeout, 0))
        pyghmi_io._io_graball(pyghmi_io.iosockets, {})

    pyghmi_io._io_wait = wait
    pyghmi_io.iothread = threading.main_thread()  # anything but None: it is not started
    pyghmi_io.iothreadready = True


def nursery(control: socket.socket) -> None:
    """Fork a session for each channel that arrives, until the other side is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    gc.freeze()  # keeps the garbage collector of a session from copying shared pages
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
            except BaseException:  # nothing may return into the nursery's loop
                traceback.print_exc()
            finally:
                os._exit(0)
        for channel in channels:
            os.close(channel)
    signal.alarm(GRACE)  # sessions see their channels close and log out
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def serve(channel: socket.socket) -> None:
    """Answer requests about one BMC over one session, until it breaks or nobody wants it."""
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
            except Exception as error:  # pyghmi lets through whatever an odd answer causes
                channel.send(json.dumps(failure(error)).encode())
                return
        try:
            answer = session.raw_command(
                netfn=request["netfn"], command=request["command"], data=request["data"]
            )
        except IpmiException:
            return
        if answer["code"] == 0xFFFF:  # pyghmi's own code for silence
            return
        reply = {"code": answer["code"], "data": list(answer.get("data", ()))}
        channel.send(json.dumps(reply).encode())
        signal.setitimer(signal.ITIMER_REAL, 0)
    if session is not None:
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        session.logout()


def login(bmc: dict[str, Any]) -> Session:
    """A session with the BMC; whatever pyghmi raises."""
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
    # Offered SHA-256, it answered in SHA-1 without a word (virtualbmc and pyghmi's own server do).
    # pyghmi would wait for the login that just failed; nobody else has a session in this process.
    for known in (Session.bmc_handlers, Session.initting_sessions, Session.waiting_sessions):
        known.clear()
    return Sha1Session(**arguments)


def failure(error: Exception) -> dict[str, str]:
    """What to answer when there is no session because of `error`."""
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
    nursery(standard_input)
