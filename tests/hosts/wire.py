"""
The wire: passes the packets of some paths on, late or not at all.

    python -m tests.hosts.wire SEED

It is a port of the bridge. Packets with its hardware address for a path, `network.wired`, go to the
receiver of the path after the path's delay, except for a random share. Standard input has a path on
each line: [number of the sender, number of the receiver, share that is lost, delay in seconds].
"""

import fcntl
import heapq
import itertools
import json
import os
import select
import struct
import sys
import time
from contextlib import suppress
from random import Random

from tests.hosts.network import card, wired
from tests.lab.wire import IFF_NO_PI, IFF_TAP, LONGEST_FRAME, TUNSETIFF

DEVICE = "wire"


def _hardware(text):
    return bytes.fromhex(text.replace(":", ""))


def main(seed):
    random, order = Random(f"{seed}/wire"), itertools.count()
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", DEVICE.encode(), IFF_TAP | IFF_NO_PI))
    paths, late = {}, []  # late: (time, number, frame)
    while True:
        wait = max(0.0, late[0][0] - time.monotonic()) if late else None
        ready, _, _ = select.select([device, sys.stdin], [], [], wait)
        if sys.stdin in ready:
            line = os.read(sys.stdin.fileno(), LONGEST_FRAME)
            if not line:
                return
            for text in line.decode().splitlines():
                sender, receiver, loss, delay = json.loads(text)
                ends = _hardware(card(receiver)), _hardware(wired(sender, receiver))
                paths[ends[1]] = (b"".join(ends), loss, delay)
        if device in ready:
            with suppress(BlockingIOError):
                while frame := os.read(device, LONGEST_FRAME):
                    head, loss, delay = paths.get(frame[:6], (None, 1.0, 0.0))
                    if head is not None and random.random() >= loss:
                        moment = time.monotonic() + delay
                        heapq.heappush(late, (moment, next(order), head + frame[12:]))
        while late and late[0][0] <= time.monotonic():
            with suppress(OSError):  # the device's queue is full: the packet is lost
                os.write(device, heapq.heappop(late)[2])


if __name__ == "__main__":
    main(sys.argv[1])
