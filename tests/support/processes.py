"""Processes of this machine, from /proc."""

from contextlib import suppress
from pathlib import Path


def state(pid):
    """Letter of a process's state; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def alive(pid):
    """Whether a process exists and is no zombie."""
    return state(pid) not in ("Z", "")


def children(pid):
    """Living children of a process, of all its threads."""
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            letter, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and letter != "Z":
                pids.append(int(stat.parent.name))
    return pids


def marked(mark):
    """Pids of processes with `mark`, NAME=value, in their environment; Redis overwrites its own."""
    return _those(lambda path: mark in (path / "environ").read_text().split("\0"))


def inside(folder):
    """Pids of processes whose working directory is in a folder."""
    return _those(lambda path: (path / "cwd").readlink().is_relative_to(folder))


def logging_to(path):
    """Pids of processes whose standard error is a file."""
    return _those(lambda process: (process / "fd/2").readlink() == Path(path))


def _those(fits):
    pids = set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if fits(path):
                pids.add(int(path.name))
    return pids
