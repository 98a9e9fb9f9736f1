"""A network of our own, in which packets are really dropped: for whoever may have one."""

import ctypes
import os
import subprocess
from contextlib import contextmanager

from tests.support.prerequisites import not_allowed

CLONE_NEWNET = 0x40000000
#: All packets go to class 1, but for those that a filter leads to class 2, which has room for none.
RULES = (
    "ip link set lo up",
    "tc qdisc add dev lo root handle 1: htb default 1 r2q 100000",
    "tc class add dev lo parent 1: classid 1:1 htb rate 10gbit",
    "tc class add dev lo parent 1: classid 1:2 htb rate 10gbit",
    "tc qdisc add dev lo parent 1:2 bfifo limit 1",
)


@contextmanager
def private():
    """This thread, and what it starts, has a loopback of its own; or the honest word that not."""
    libc = ctypes.CDLL(None, use_errno=True)
    ours = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET):
            not_allowed(f"no network of our own: {os.strerror(ctypes.get_errno())}")
        try:
            _lay()
            yield
        finally:
            libc.setns(ours, CLONE_NEWNET)
    finally:
        os.close(ours)


def _lay():
    try:
        for rule in RULES:
            _run(rule)
    except (OSError, subprocess.SubprocessError) as error:
        not_allowed(f"packets cannot be dropped: {error}")


def drop(port):
    """From now on no packet from or to a port of the private loopback arrives."""
    for end in ("dport", "sport"):
        _run(
            f"tc filter add dev lo parent 1: protocol ip prio 1 u32 match ip {end} {port} 0xffff"
            " flowid 1:2"
        )


def drop_none():
    _run("tc filter del dev lo parent 1:")


def _run(command):
    paths = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    subprocess.run(command.split(), check=True, capture_output=True, timeout=10, env=paths)
