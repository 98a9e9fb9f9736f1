"""A private network in which packets are really dropped; it takes the right to create one."""

import ctypes
import os
import subprocess
from contextlib import contextmanager

from tests.support.prerequisites import not_allowed

CLONE_NEWNET = 0x40000000
#: All packets go to class 1, except those that a filter sends to class 2, which drops them.
RULES = (
    "ip link set lo up",
    "tc qdisc add dev lo root handle 1: htb default 1 r2q 100000",
    "tc class add dev lo parent 1: classid 1:1 htb rate 10gbit",
    "tc class add dev lo parent 1: classid 1:2 htb rate 10gbit",
    "tc qdisc add dev lo parent 1:2 bfifo limit 1",
)


@contextmanager
def private():
    """Give this thread, and its children, a private loopback; skip the test if that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    ours = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET):
            not_allowed(f"no private network: {os.strerror(ctypes.get_errno())}")
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
    """From now on drop all packets from or to a port of the private loopback."""
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
