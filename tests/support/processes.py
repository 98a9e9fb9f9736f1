"""What processes there are, as /proc tells."""

from contextlib import suppress
from pathlib import Path


def state(pid):
    """The letter of a process's state; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def alive(pid):
    """Whether it is there, and not only waits for its parent to hear of its end."""
    return state(pid) not in ("Z", "")


def children(pid):
    """Those that live, whichever of its threads has started them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            letter, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and letter != "Z":
                found.append(int(stat.parent.name))
    return found


def marked(mark):
    """Every process that has `mark`, NAME=value, in its environment; Redis overwrites its own."""
    return _those(lambda path: mark in (path / "environ").read_text().split("\0"))


def inside(folder):
    """Every process whose working directory is in a folder."""
    return _those(lambda path: (path / "cwd").readlink().is_relative_to(folder))


def _those(fits):
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if fits(path):
                found.add(int(path.name))
    return found
