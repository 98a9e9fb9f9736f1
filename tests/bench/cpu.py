"""The processor time that processes have used, from /proc."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
#: Linux: the clock of a process is named by its pid and by what it counts.
_SCHEDULED = 2


@dataclass(frozen=True)
class Process:
    """own: seconds, user and system. reaped: those of its children that have ended."""

    parent: int
    own: float
    reaped: float


def processes():
    """pid -> Process, of everything that runs here."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            # what follows the name, which may hold anything, begins with field 3
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        user, system, child_user, child_system = map(int, fields[11:15])
        found[int(path.name)] = Process(
            int(fields[1]), (user + system) / TICKS, (child_user + child_system) / TICKS
        )
    return found


def family(roots):
    """The pids of these processes and all their descendants."""
    known, found = processes(), []
    pids = [pid for pid in roots if pid in known]
    while pids:
        pid = pids.pop()
        found.append(pid)
        pids += [child for child, process in known.items() if process.parent == pid]
    return found


def of_processes(pids):
    """Seconds of these processes, to the microsecond; they live, and end none of their children."""
    return sum(time.clock_gettime(~pid << 3 | _SCHEDULED) for pid in pids)


def of_trees(roots):
    """Seconds of these processes and all their descendants, the dead ones included."""
    known = processes()
    return sum(known[pid].own + known[pid].reaped for pid in family(roots) if pid in known)


def of_roles(pids):
    """role -> seconds, of what the pid file of `ingot up` lists; `up` without its children."""
    return {
        "api": of_trees(pids["api"]),
        "conductors": of_trees(pids["conductors"].values()),
        "beat": of_trees(pids["beat"]),
        "supervisor": processes()[pids["up"]].own,
        "redis": of_trees(pids["redis"]),
    }
