"""TCP port of a console, for programs such as nova-serialproxy and socat: raw bytes."""

import asyncio
import errno
import hashlib
from collections.abc import Callable
from ipaddress import ip_address, ip_network

from app.observe import log

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Most connections of a console; most bytes that wait for one of them.
MOST, LONGEST_QUEUE = 16, 1 << 20

Typed = Callable[[str, str, bytes], None]


class NoFreePort(Exception):
    """No port is free; one sentence says which were tried."""


class Listener:
    """
    The listening port of one console.

    typed: called with the id and the name of a connection, and the bytes that it sends.
    closed: called with its id when it ends.
    """

    def __init__(
        self, node: str, allowed: tuple[str, ...], typed: Typed, closed: Callable[[str], None]
    ) -> None:
        self.node, self.typed, self.closed = node, typed, closed
        self._allowed = [ip_network(network, strict=False) for network in allowed]
        self._server: asyncio.Server | None = None
        self.connections: set[Connection] = set()
        self.port: int | None = None

    async def listen(self, address: str, ports: range, port: int | None) -> None:
        """
        Listen at a port: a given one, or the first free one of a range.

        The search in the range begins at a place that depends on the node, so that a console keeps
        its port after a restart.

        Raises NoFreePort.
        """
        loop = asyncio.get_running_loop()
        start = int(hashlib.sha256(self.node.encode()).hexdigest(), 16) % len(ports)
        candidates = [port] if port is not None else [*ports[start:], *ports[:start]]
        for candidate in candidates:
            try:
                self._server = await loop.create_server(
                    lambda: Connection(self), address, candidate
                )
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise NoFreePort(f"{address}: {error.strerror or error}") from None
                continue
            self.port = self._server.sockets[0].getsockname()[1]
            return
        which = f"port {port} is" if port else f"the ports {ports[0]} to {ports[-1]} are"
        raise NoFreePort(f"{which} in use at {address}")

    def admits(self, peer: str) -> bool:
        """Whether a host may connect."""
        if len(self.connections) >= MOST:
            return False
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._allowed)

    def send(self, data: bytes) -> None:
        """Send output to all connections; one that receives too slowly is closed."""
        for connection in tuple(self.connections):
            connection.send(data)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in tuple(self.connections):
            connection.transport.abort()


class Connection(asyncio.Protocol):
    """A connection to a console's port."""

    transport: asyncio.Transport

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._name = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self._name = f"{host}:{port}"
        admitted = self._listener.admits(host)
        facts = {"node": self._listener.node, "address": host}
        if not admitted:
            seldom.warning("console.tcp_refused", **facts)
            transport.abort()
            return
        logger.info("console.tcp_opened", **facts)
        self._listener.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self in self._listener.connections:
            self._listener.typed(f"tcp {self._name}", self._name, data)

    def send(self, data: bytes) -> None:
        if self.transport.get_write_buffer_size() > LONGEST_QUEUE:
            self.transport.abort()
        else:
            self.transport.write(data)

    def connection_lost(self, _error: Exception | None) -> None:
        if self in self._listener.connections:
            self._listener.connections.discard(self)
            self._listener.closed(f"tcp {self._name}")
            logger.info("console.tcp_closed", node=self._listener.node)
