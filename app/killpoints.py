"""
Kill points: named places at which a test makes a process die or stop, to see what survives.

`[DEFAULT]kill_points` holds `[process:]point[:kind]=action` entries: `process` is a conductor's
name, `api` or `beat`; `kind` the kind of the operation; `any` matches all. Actions: `die` (SIGKILL
to itself), `stop` (SIGSTOP to itself), `pause-<seconds>`.

The points, in the order in which a step meets them: committed (API, before the message leaves),
received, claimed, acted, recorded; and `beating`, `reconciling` for what goes on beside.
"""

import os
import signal
import time
from collections.abc import Iterable

POINTS = ("committed", "received", "claimed", "acted", "recorded", "beating", "reconciling")
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
    for armed, wanted, action in _armed:
        if armed != point or wanted not in ("any", kind):
            continue
        if action == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.1)  # the signal may stop another thread first, and this one a moment later
        elif action.startswith("pause-"):
            time.sleep(float(action.removeprefix("pause-")))
