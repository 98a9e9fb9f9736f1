"""
Servers of files and metrics: whether one hangs, as seen by a client.

The kernel accepts the connections of a process that hangs, so that it neither ends nor refuses: it
is silent. A server that cannot be reached from here is not judged, as it may be meant for others.
"""

import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.config.settings import Settings

#: Seconds for a connection, and for the first byte of an answer.
PATIENCE = 1.0
_REQUEST = b"HEAD / HTTP/1.0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Listener:
    """A server that speaks HTTP."""

    name: str
    host: str
    port: int
    uses_tls: bool
    without: str  # consequence of its silence


def listeners(settings: Settings) -> Iterator[Listener]:
    """Yield the servers that the settings name."""
    url = urlsplit(settings.deploy.http_url or "")
    if url.hostname:
        uses_tls = url.scheme == "https"
        port = url.port or (443 if uses_tls else 80)
        without = "machines, agents and BMCs fetch nothing: deployments and cleaning wait for it"
        yield Listener("file server", url.hostname, port, uses_tls, without)
    if settings.metrics.port:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(  # noqa: S104
            settings.metrics.host_ip, settings.metrics.host_ip
        )
        without = "Prometheus gets no metrics, and its alerts are silent"
        yield Listener("exporter", host, settings.metrics.port, False, without)


def hangs(listener: Listener) -> bool:
    """Whether a server takes a connection, and then sends nothing."""
    try:
        connection = socket.create_connection((listener.host, listener.port), PATIENCE)
    except OSError:
        return False
    with closing(connection):
        try:
            if listener.uses_tls:
                # unverified: the handshake is the answer, and no data is exchanged
                context = ssl._create_unverified_context()  # noqa: S323
                context.wrap_socket(connection, server_hostname=listener.host).close()
            else:
                connection.sendall(_REQUEST)
                connection.recv(1)
        except TimeoutError:
            return True
        except OSError:  # it closes the connection, or refuses the handshake: it works
            return False
    return False
