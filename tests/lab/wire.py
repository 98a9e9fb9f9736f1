"""
The wire of a machine without QEMU's DHCP: a network device of this host, and the machine's card.

    python -m tests.lab.wire DEVICE ADDRESS/PREFIX PORT MACHINE_PORT

QEMU sends each frame of the card as a datagram to PORT of loopback, and receives at MACHINE_PORT.
The device has the address, and exists as long as this process. Creating it requires root.
"""

import fcntl
import os
import selectors
import socket
import struct
import subprocess
import sys

#: Linux's request to make a device, and its flags: Ethernet frames, without a header.
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
LONGEST_FRAME = 1 << 16


def device(name, address):
    """Open a new network device with an address."""
    opened = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(opened, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    for command in (("address", "add", address, "dev", name), ("link", "set", name, "up")):
        subprocess.run(["ip", *command], check=True)
    return opened


def main(name, address, port, machine_port):
    host = device(name, address)
    card, machine = (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        ("127.0.0.1", int(machine_port)),
    )
    card.bind(("127.0.0.1", int(port)))
    waiting = selectors.DefaultSelector()
    waiting.register(
        host, selectors.EVENT_READ, lambda: card.sendto(os.read(host, LONGEST_FRAME), machine)
    )
    waiting.register(card, selectors.EVENT_READ, lambda: os.write(host, card.recv(LONGEST_FRAME)))
    while True:
        for key, _ in waiting.select():
            try:
                key.data()
            except OSError:  # the machine is off, or a frame is too short: the network loses it
                continue


if __name__ == "__main__":
    main(*sys.argv[1:])
