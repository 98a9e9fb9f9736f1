"""TCP ports of consoles, for programs of other services, without authentication."""

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
    """The listening port of one console. allowed: networks whose hosts may connect."""

    def __init__(self, node: str, allowed: tuple[str, ...]) -> None:
        self.node = node
        self._allowed = [ip_network(network, strict=False) for network in allowed]
        self._server: asyncio.Server | None = None
        self.transports: set[asyncio.WriteTransport] = set()  # of the connections
        self.port: int | None = None

    def _protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection."""
        raise NotImplementedError

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
                self._server = await loop.create_server(self._protocol, address, candidate)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise NoFreePort(f"{address}: {error.strerror or error}") from None
                continue
            self.port = self._server.sockets[0].getsockname()[1]
            return
        which = f"port {port} is" if port else f"the ports {ports[0]} to {ports[-1]} are"
        raise NoFreePort(f"{which} in use at {address}")

    def open(self, transport: asyncio.WriteTransport) -> str | None:
        """Return the address of a new connection, and count it; None: it is refused, and ended."""
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        facts = {"node": self.node, "address": host}
        if len(self.transports) >= MOST or not self._is_allowed(host):
            seldom.warning("console.tcp_refused", **facts)
            transport.abort()
            return None
        logger.info("console.tcp_opened", **facts)
        self.transports.add(transport)
        return f"{host}:{port}"

    def closed(self, transport: asyncio.WriteTransport) -> None:
        """Forget a connection that has ended."""
        self.transports.discard(transport)
        logger.info("console.tcp_closed", node=self.node)

    def _is_allowed(self, peer: str) -> bool:
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._allowed)

    def end_connections(self) -> None:
        for transport in tuple(self.transports):
            transport.abort()

    def close(self) -> None:
        """End the port and its connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.end_connections()


class SerialListener(Listener):
    """
    The port of a serial console, as for nova-serialproxy and socat: raw bytes.

    typed: called with the id and the name of a connection, and the bytes that it sends.
    released: called with its id when it ends.
    """

    def __init__(
        self, node: str, allowed: tuple[str, ...], typed: Typed, released: Callable[[str], None]
    ) -> None:
        super().__init__(node, allowed)
        self.typed, self.released = typed, released

    def _protocol(self) -> asyncio.BaseProtocol:
        return _SerialConnection(self)

    def send(self, data: bytes) -> None:
        """Send output to all connections; one that receives too slowly is closed."""
        for transport in tuple(self.transports):
            if transport.get_write_buffer_size() > LONGEST_QUEUE:
                transport.abort()
            else:
                transport.write(data)


class _SerialConnection(asyncio.Protocol):
    def __init__(self, listener: SerialListener) -> None:
        self._listener = listener
        self._name: str | None = None  # None: it was refused
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._name = self._listener.open(transport)

    def data_received(self, data: bytes) -> None:
        if self._name is not None:
            self._listener.typed(f"tcp {self._name}", self._name, data)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._name is not None:
            self._listener.released(f"tcp {self._name}")
            self._listener.closed(self._transport)
