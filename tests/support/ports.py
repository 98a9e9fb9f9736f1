"""Ports of loopback for what tests start."""

import socket


def free_ports(count: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> list[int]:
    """So many ports, each another one, that nobody has just now."""
    probes = [socket.socket(socket.AF_INET, kind) for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port that nobody has just now."""
    return free_ports(1, kind)[0]
