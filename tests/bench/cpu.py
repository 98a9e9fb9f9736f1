"""CPU time of processes, from /proc."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
#: Linux derives the clock id of a process from its pid and the kind of clock.
_SCHEDULED = 2


@dataclass(frozen=True)
class Process:
    """CPU time of a process, in seconds."""

    parent: int  # pid
    used: float  # user and system
    reaped: float  # of children that have ended


def processes():
    """Return pid -> Process, of all running processes."""
    table = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            # the fields after the name, which may contain anything, begin with field 3
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        user, system, child_user, child_system = map(int, fields[11:15])
        table[int(path.name)] = Process(
            int(fields[1]), (user + system) / TICKS, (child_user + child_system) / TICKS
        )
    return table


def family(roots):
    """The pids of these processes and all their descendants."""
    table, members = processes(), []
    pids = [pid for pid in roots if pid in table]
    while pids:
        pid = pids.pop()
        members.append(pid)
        pids += [child for child, process in table.items() if process.parent == pid]
    return members


def of_processes(pids):
    """Return the CPU seconds of these processes, to the microsecond; no child of theirs may end."""
    return sum(time.clock_gettime(~pid << 3 | _SCHEDULED) for pid in pids)


def of_trees(roots):
    """Return the CPU seconds of these processes and all their descendants, including dead ones."""
    table = processes()
    return sum(table[pid].used + table[pid].reaped for pid in family(roots) if pid in table)


def of_roles(pids):
    """role -> CPU seconds of the processes in the pid file of `ingot up`; `up` without children."""
    return {
        "api": of_trees(pids["api"]),
        "conductors": of_trees(pids["conductors"].values()),
        "beat": of_trees(pids["beat"]),
        "supervisor": processes()[pids["up"]].used,
        "redis": of_trees(pids["redis"]),
    }
