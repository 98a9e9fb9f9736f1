"""
Kill points: named places at which a test makes a process die or stop, to see what survives.

`[DEFAULT]kill_points` holds `[process:]point[:kind]=action` entries: `process` is a conductor's
name, `api` or `beat`; `kind` the kind of the operation; `any` matches all. Actions: `die` (SIGKILL
to itself), `stop` (SIGSTOP to itself), `pause-<seconds>`. `die-/a/file` and `stop-/a/file` happen
once, however many processes get there: to the one that creates the file, in a folder that is there.

The points, in the order in which a step meets them:

    handed_out   whoever hands out: the row says so, and is not committed
    committed    it is, and the message has not left
    sent         it has
    received     the conductor has taken the message
    leased       it has the node's lease, and has claimed nothing
    claimed      the step is claimed, and nothing was ordered
    acted        the machine was told, and nothing is written
    freed        the lease is given back, and nothing is written; not after every step
    recorded     what came of the step is written
    followed     the next link of the chain is sent
    waking       the conductor's waker has found that a wait is over
    called       the API has noted a heartbeat, and has woken nobody
    reconciling  the reconciler begins to look
    decided      it knows what is to be done, and has done nothing
    admitting    where operations queue: one has come, or has ended and left its slot
    admitted     one may begin, and nothing was sent
    beating      beat is about to send what is due
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

POINTS = (
    "handed_out", "committed", "sent", "received", "leased", "claimed", "acted", "freed",
    "recorded", "followed", "waking", "called", "reconciling", "decided", "admitting", "admitted",
    "beating",
)  # fmt: skip
_armed: list[tuple[str, str, str]] = []


def arm(entries: Iterable[str], process: str) -> None:
    """Keep the entries that are meant for this process. Raises ValueError for what is no point."""
    _armed.clear()
    for entry in entries:
        name, _, action = entry.partition("=")
        parts = name.split(":")
        if len(parts) == 1:
            parts = ["any", *parts]
        who, point, kind = (*parts, "any")[:3]
        if point not in POINTS:
            raise ValueError(f"kill point {point!r}: there are {', '.join(POINTS)}")
        if who in ("any", process):
            _armed.append((point, kind, action))


def reach(point: str, kind: str = "any") -> None:
    """Do here what a test has asked for; nothing at all in production."""
    for armed, wanted, what in _armed:
        if armed != point or wanted not in ("any", kind):
            continue
        action, _, more = what.partition("-")
        if action == "pause":
            time.sleep(float(more))
        elif more and not _is_first(more):
            continue
        elif action == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.1)  # the signal may stop another thread first, and this one a moment later


def _is_first(path: str) -> bool:
    """Whether this call has created the file; not where its folder is missing."""
    with suppress(FileExistsError, FileNotFoundError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        return True
    return False
