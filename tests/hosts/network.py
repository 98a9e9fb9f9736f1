"""
The network: each host is a network namespace with one card, and all cards are on one bridge.

Faults are set for a path, the direction from one host to another: it is cut, loses packets, or is
slow. The sender of a cut path has a wrong hardware address for the receiver, so its packets vanish
as on a broken line; on a lossy or slow path it has the address of the wire (`tests.hosts.wire`).
"""

import ctypes
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.hosts import isolation
from tests.support.fleet import ROOT

NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000
#: Number and name of the host that judges: the bridge itself.
OUTSIDE = "outside"
#: Network of the BMCs, all of which are on the host `machines`.
BMCS = "198.18"
NOWHERE = "02:00:00:00:ff:ff"


def address(number):
    return f"10.77.0.{number}"


def card(number):
    """Hardware address of a host."""
    return f"02:00:00:00:00:{number:02x}"


def wired(sender, receiver):
    """Hardware address of the wire for the packets from one host to another, by their numbers."""
    return f"02:00:00:01:{sender:02x}:{receiver:02x}"


def enter(host):
    """Move this thread, and the processes that it starts, to a host."""
    descriptor = os.open(NAMESPACES / host, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"no host {host}")
    finally:
        os.close(descriptor)


class Network:
    """The hosts and their paths. hosts: names; the judge is one more host, `OUTSIDE`."""

    def __init__(self, hosts, seed):
        self.numbers = {name: number for number, name in enumerate(hosts, 1)} | {OUTSIDE: 254}
        self._seed, self._wire, self._faulty = seed, None, {}

    def address(self, host):
        return address(self.numbers[host])

    def lay(self):
        """Create all hosts. The isolated process calls it once."""
        NAMESPACES.mkdir(parents=True, exist_ok=True)
        isolation.mount_memory(NAMESPACES)
        _ip(
            "link set lo up",
            "link add bridge type bridge stp_state 0",
            f"link set bridge address {card(self.numbers[OUTSIDE])} up",
            f"address add {self.address(OUTSIDE)}/24 dev bridge",
            "tuntap add dev wire mode tap",
            "link set wire master bridge up",
        )
        for host, number in self.numbers.items():
            if host == OUTSIDE:
                continue
            _ip(
                f"netns add {host}",
                f"link add card{number} type veth peer name card netns {host}",
                f"link set card{number} master bridge up",
            )
            _ip(
                "link set lo up",
                f"link set card address {card(number)} up",
                f"address add {address(number)}/24 dev card",
                host=host,
            )
        if "machines" in self.numbers:
            _ip(f"route add local {BMCS}.0.0/16 dev lo", host="machines")
        for host in self.numbers:
            other_hosts = [name for name in self.numbers if name != host]
            if host != "machines" and "machines" in self.numbers:
                _ip(f"route add {BMCS}.0.0/16 via {self.address('machines')}", host=host)
            self._point({(host, other): card(self.numbers[other]) for other in other_hosts})
        command = [sys.executable, "-m", "tests.hosts.wire", str(self._seed)]
        self._wire = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True)

    def cut(self, senders, receivers):
        """Lose all packets from some hosts to others."""
        self._point(dict.fromkeys(_paths(senders, receivers), NOWHERE))

    def impair(self, senders, receivers, *, loss=0.0, delay=0.0):
        """Lose a share of the packets from some hosts to others, and delay the rest by seconds."""
        addresses = {}
        for sender, receiver in _paths(senders, receivers):
            numbers = self.numbers[sender], self.numbers[receiver]
            self._tell(*numbers, loss, delay)
            addresses[sender, receiver] = wired(*numbers)
        self._point(addresses)

    def mend(self):
        """End all faults."""
        self._point({path: card(self.numbers[path[1]]) for path in self._faulty})
        self._faulty.clear()

    def _tell(self, *words):
        self._wire.stdin.write(json.dumps(words) + "\n")
        self._wire.stdin.flush()

    def _point(self, paths):
        """Set the hardware addresses that senders have. paths: (sender, receiver) -> address."""
        for sender, some in itertools.groupby(sorted(paths), lambda path: path[0]):
            device = "bridge" if sender == OUTSIDE else "card"
            lines = [
                f"neigh replace {self.address(receiver)} lladdr {paths[sender, receiver]}"
                f" nud permanent dev {device}"
                for _, receiver in some
            ]
            _ip(*lines, host=sender)
        true = {path for path, to in paths.items() if to == card(self.numbers[path[1]])}
        self._faulty |= dict.fromkeys(paths.keys() - true)


def _paths(senders, receivers):
    return [(a, b) for a in senders for b in receivers if a != b]


def _ip(*lines, host=OUTSIDE):
    namespace = [] if host == OUTSIDE else ["-netns", host]
    subprocess.run(
        ["ip", *namespace, "-batch", "-"], input="\n".join(lines), text=True, check=True,
        stdout=subprocess.DEVNULL, timeout=30,
    )  # fmt: skip
