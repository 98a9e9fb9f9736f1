"""
Sends an ICMP echo request to each address, again and again, until its standard input ends:
`pings.py ADDRESS...`. Then it prints the number of replies of each as JSON.
"""

import collections
import contextlib
import json
import os
import select
import socket
import struct
import sys
import time

INTERVAL = 0.02


def echo_request(ident, sequence):
    header = struct.pack("!BBHHH", 8, 0, 0, ident, sequence)
    total = sum(struct.unpack("!4H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return header[:2] + struct.pack("!H", ~total & 0xFFFF) + header[4:]


def main(addresses):
    replies = collections.Counter(dict.fromkeys(addresses, 0))
    ident, sequence, next_time = os.getpid() & 0xFFFF, 0, 0.0
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as channel:
        while True:
            if time.monotonic() >= next_time:
                sequence, next_time = sequence + 1 & 0xFFFF, time.monotonic() + INTERVAL
                for address in addresses:
                    # an error: no answer to ARP, the host is in no common network
                    with contextlib.suppress(OSError):
                        channel.sendto(echo_request(ident, sequence), (address, 0))
            ready, _, _ = select.select([channel, 0], [], [], INTERVAL / 2)
            if channel in ready:
                packet, (sender, _) = channel.recvfrom(2048)
                kind, _, _, got = struct.unpack("!BBHH", packet[20:26])
                if (kind, got) == (0, ident) and sender in replies:
                    replies[sender] += 1
                    if replies[sender] == 1:
                        print(sender, flush=True)
            if 0 in ready and not os.read(0, 1):
                break
    print(json.dumps(replies), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
