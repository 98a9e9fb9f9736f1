"""Free ports of loopback."""

import random
import socket
from contextlib import suppress

#: Below the ports that Linux gives to outgoing connections and to servers without a chosen port:
#: none of those takes a port of these before the test's server listens on it.
PORTS = range(15_000, 32_000)


def free_ports(count: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> list[int]:
    """Return different ports that no process listens on."""
    ports: list[int] = []
    # in an order of its own: other test processes search at the same time
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket(socket.AF_INET, kind) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"{len(ports)} of {PORTS} are free, not {count}")


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port that no process listens on."""
    return free_ports(1, kind)[0]
