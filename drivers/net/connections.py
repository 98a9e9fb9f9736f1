"""
HTTP connections with a deadline, and with a check of the address that they lead to.

The timeouts of `requests` limit the pause between two bytes: a server that sends a byte now and
then would hold a thread for ever. So an exchange shuts its sockets down at its deadline, which ends
any read. Time that this process is stopped does not count: the answer may have arrived since.
"""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

import aiohttp
import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import NameResolutionError, ProtocolError

from drivers.core.errors import Unreachable

#: Interim responses before the answer to a request.
MOST_INTERIM = 10
#: Parts of a deadline, of which a stop of this process takes one at most.
TICKS = 10

_current_exchange: ContextVar["Exchange | None"] = ContextVar("exchange", default=None)


class Exchange:
    """
    Requests with a common deadline, and their answers.

    server: for the error. check: called with each IP address, before and after connecting; raises
    HardwareError for one that must not be contacted. Raises Unreachable at its end if the deadline
    has passed.
    """

    def __init__(
        self, server: str, seconds: float, check: Callable[[str], None] | None = None
    ) -> None:
        self.check = check
        self.was_sent = False  # the server may have received a part of a request
        self._late = f"{server} did not send its answer within {seconds:g} s"
        self._seconds = seconds
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._expired = False
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._await_deadline, daemon=True).start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self._ended.set()
        with self._lock:
            for watched in self._sockets:
                watched.close()
        if self._expired and not (error and not isinstance(error, Exception)):
            raise Unreachable(self._late) from None

    @property
    def connected(self) -> bool:
        """Whether a connection was made."""
        return bool(self._sockets)

    def watch(self, connected: socket.socket) -> None:
        """Shut a socket down at the deadline."""
        # a duplicate: TLS wraps the socket in another object, and urllib3 may close it early
        duplicate = socket.socket(fileno=os.dup(connected.fileno()))
        with self._lock:
            self._sockets.append(duplicate)
            if self._expired:
                _shut_down(duplicate)

    def _await_deadline(self) -> None:
        for _ in range(TICKS):
            if self._ended.wait(self._seconds / TICKS):
                return
        self._expire()

    def _expire(self) -> None:
        with self._lock:
            self._expired = True
            for open_socket in self._sockets:
                _shut_down(open_socket)


def async_connector(check: Callable[[str], None], **options: Any) -> aiohttp.TCPConnector:
    """
    Return a connector of aiohttp that checks the address of each connection.

    check: raises HardwareError for an IP address that must not be contacted. options: arguments of
    `TCPConnector`.
    """

    def made(address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address_tuple = address
        check(str(address_tuple[0]))
        return socket.socket(family, kind, protocol)

    # addresses in sequence: side by side, aiohttp would replace the error of `check`
    return aiohttp.TCPConnector(socket_factory=made, happy_eyeballs_delay=None, **options)


class AsyncResponse(aiohttp.ClientResponse):
    """
    A response after few interim ones (status 1xx), for `response_class` of aiohttp's session.

    aiohttp would skip any number of them: a flood occupies the event loop up to the timeout.
    """

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        """Read the head of the response; aiohttp calls this once."""
        protocol, interim_left = connection.protocol, MOST_INTERIM
        read = protocol.read

        async def limited() -> Any:
            nonlocal interim_left
            if not interim_left:
                raise aiohttp.ClientConnectionError(f"more than {MOST_INTERIM} interim responses")
            interim_left -= 1
            return await read()

        protocol.read = limited
        try:
            return await super().start(connection)
        finally:
            del protocol.read


class Adapter(HTTPAdapter):
    """
    Adapter of `requests` whose connections belong to an exchange, each for a single request.

    The server of a kept connection may close it while the next request is on its way: whether that
    request was received would be unknown.
    """

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def exchange(
        self, exchange: Exchange, request: requests.PreparedRequest, **options: Any
    ) -> requests.Response:
        """Send a request within an exchange; `options` are for `HTTPAdapter.send`."""
        request.headers["Connection"] = "close"
        token = _current_exchange.set(exchange)
        try:
            return super().send(request, **options)
        finally:
            _current_exchange.reset(token)


class _Response(HTTPConnection.response_class):  # type: ignore[misc, valid-type]
    """
    The last response of its connection, after few interim ones (status 1xx).

    `http.client` would skip any number of them, as fast as a server sends them. It would also keep
    a connection whose server does not repeat the `Connection: close` of the request.
    """

    _statuses = 0

    def _check_close(self) -> bool:
        return True

    def _read_status(self) -> tuple[str, int, str]:
        self._statuses += 1
        if self._statuses > MOST_INTERIM:
            raise ProtocolError(f"more than {MOST_INTERIM} interim responses")
        return super()._read_status()  # type: ignore[no-any-return]


class _InExchange(HTTPConnection):
    response_class = _Response

    def _new_conn(self) -> socket.socket:
        exchange = _current_exchange.get()
        if exchange is None:
            return super()._new_conn()
        if exchange.check:
            for address in _resolved(self):
                exchange.check(address)
        connected = super()._new_conn()
        try:
            if exchange.check:  # the name may have been resolved to another address meanwhile
                exchange.check(connected.getpeername()[0])
            exchange.watch(connected)
        except BaseException:
            connected.close()
            raise
        return connected

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        if exchange := _current_exchange.get():
            exchange.was_sent = True
        super().send(data)


class _TlsInExchange(_InExchange, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _InExchange


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsInExchange


_POOLS = {"http": _Pool, "https": _TlsPool}


def _resolved(connection: HTTPConnection) -> set[str]:
    try:
        address_infos = socket.getaddrinfo(
            connection.host, connection.port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        reason = error if isinstance(error, socket.gaierror) else socket.gaierror(str(error))
        raise NameResolutionError(connection.host, connection, reason) from error
    return {str(address[0]) for *_, address in address_infos}


def _shut_down(open_socket: socket.socket) -> None:
    with suppress(OSError):  # the server has closed it
        open_socket.shutdown(socket.SHUT_RDWR)
