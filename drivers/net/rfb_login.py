"""
Login to a VNC server, such as that of a BMC, by the protocol RFB (RFC 6143).

The server is not trusted: its bytes are checked, and have a limit and a time.
"""

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import websockets.asyncio.client
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from drivers.core.consoles import Screen
from drivers.core.errors import (
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    Refused,
    Unexpected,
    Unreachable,
)
from drivers.net import rfb, tls

#: Seconds for the connection and the login.
LOGIN_TIME = 15.0
#: Most bytes of the reason of a refusal that are read, and most characters of it that are shown.
LONGEST_REASON, SHOWN = 4096, 200
#: Most bytes of the name of a screen; most pixels of a side.
LONGEST_NAME, LONGEST_SIDE = 1024, 16384
#: Most bytes of a message of a WebSocket.
LONGEST_MESSAGE = 64 << 20
#: Bytes of `ServerInit` before the name.
_INIT = 24


class Stream(Protocol):
    """Bytes from and to a VNC server."""

    async def read(self, size: int) -> bytes:
        """Return some bytes; none: the server has ended the connection. Raises OSError."""

    async def readexactly(self, size: int) -> bytes:
        """Return so many bytes. Raises asyncio.IncompleteReadError, OSError."""

    async def write(self, data: bytes) -> None:
        """Send bytes. Raises OSError."""

    def close(self) -> None:
        """Close the connection at once."""


@dataclass(slots=True)
class Tcp:
    """A `Stream` of a TCP connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self, size: int) -> bytes:
        return await self.reader.read(size)

    async def readexactly(self, size: int) -> bytes:
        return await self.reader.readexactly(size)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        self.writer.transport.abort()


@dataclass(slots=True)
class Tunnel:
    """A `Stream` in the binary messages of a WebSocket."""

    socket: ClientConnection
    _buffer: bytes = b""

    async def read(self, size: int) -> bytes:
        while not self._buffer:
            try:
                message = await self.socket.recv()
            except ConnectionClosed:
                return b""
            self._buffer = message if isinstance(message, bytes) else b""
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    async def readexactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = await self.read(size - len(data))
            if not part:
                raise asyncio.IncompleteReadError(data, size)
            data += part
        return data

    async def write(self, data: bytes) -> None:
        try:
            await self.socket.send(data)
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from None

    def close(self) -> None:
        self.socket.transport.abort()


@dataclass(slots=True)
class Connection:
    """A connection to a VNC server, after the login."""

    stream: Stream
    init: bytes  # `ServerInit`: size and format of the picture, and its name

    def close(self) -> None:
        self.stream.close()


def _refused_socket(error: Any) -> str:
    status = error.response.status_code
    login = "it does not accept the login of Redfish" if status in (401, 403) else "no WebSocket"
    return f"{login} (status {status})"


#: Cause of a failed login -> the error, and its words; the first that fits counts.
ERRORS: Mapping[type[Exception], tuple[type[HardwareError], Callable[[Any], str]]] = {
    TimeoutError: (Unreachable, lambda _: f"no answer within {LOGIN_TIME:g} s"),
    InvalidStatus: (Refused, _refused_socket),
    WebSocketException: (Unexpected, str),
    socket.gaierror: (Unreachable, lambda _: "its name has no address"),
    ssl.SSLError: (Unreachable, lambda error: f"TLS: {error.reason or error}"),
    OSError: (Unreachable, lambda error: os.strerror(error.errno) if error.errno else str(error)),
    HardwareError: (HardwareError, str),
    rfb.Malformed: (Unexpected, str),
    asyncio.IncompleteReadError: (
        Unexpected, lambda _: "it has ended the connection during the login",
    ),
}  # fmt: skip


async def connect(screen: Screen) -> Connection:
    """
    Connect to a VNC server, and log in.

    Raises Unreachable, Unexpected, Refused, LoginRefused: says what the server did.
    Raises InvalidDriverInfo: the address is refused, or the trusted certificates are not usable.
    """
    try:
        async with asyncio.timeout(LOGIN_TIME):
            return await _connect(screen)
    except InvalidDriverInfo:
        raise
    except tuple(ERRORS) as error:
        kind, words = next(entry for cause, entry in ERRORS.items() if isinstance(error, cause))
        kind = type(error) if isinstance(error, HardwareError) else kind
        raise kind(f"VNC server {screen.endpoint}: {words(error)}") from None


async def _connect(screen: Screen) -> Connection:
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(screen.host, screen.port, type=socket.SOCK_STREAM)
    address = str(infos[0][4][0])
    if screen.check is not None:
        screen.check(address)
    stream = await _opened(screen, address)
    try:
        return Connection(stream, await log_in(stream, screen.password))
    except BaseException:
        stream.close()
        raise


async def _opened(screen: Screen, address: str) -> Stream:
    context = _tls(screen.verify)
    name = screen.host if context else None
    if screen.path is None:
        streams = await asyncio.open_connection(
            address, screen.port, ssl=context, server_hostname=name
        )
        return Tcp(*streams)
    login = base64.b64encode(":".join(screen.login or ("", "")).encode()).decode()
    connection = await websockets.asyncio.client.connect(
        f"{'wss' if context else 'ws'}://{screen.endpoint}",
        host=address, port=screen.port, ssl=context, server_hostname=name, proxy=None,
        additional_headers={"Authorization": f"Basic {login}"} if screen.login else None,
        compression=None, open_timeout=None, ping_interval=None, max_size=LONGEST_MESSAGE,
    )  # fmt: skip
    return Tunnel(connection)


async def log_in(stream: Stream, password: str | None) -> bytes:
    """
    Do the handshake of a viewer that leaves other viewers connected; return `ServerInit`.

    Raises Malformed, Refused, LoginRefused, asyncio.IncompleteReadError, OSError.
    """
    version = rfb.version_of(await stream.readexactly(len(rfb.VERSION)))
    await stream.write(b"RFB %03d.%03d\n" % version)
    kind = await _security(stream, version, password)
    if kind == rfb.VNC_AUTHENTICATION:
        challenge = await stream.readexactly(16)
        await stream.write(response(password or "", challenge))
    if (kind != rfb.NONE or version == (3, 8)) and await stream.readexactly(4) != rfb.OK:
        reason = await _reason(stream) if version == (3, 8) else ""
        words = "the password (driver_info/vnc_password) is not accepted"
        raise LoginRefused(f"{words}: {reason}" if reason else words)
    await stream.write(b"\1")  # ClientInit: others stay connected
    head = await stream.readexactly(_INIT)
    width, height = int.from_bytes(head[:2]), int.from_bytes(head[2:4])
    size = int.from_bytes(head[20:24])
    if not (0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE):
        raise rfb.Malformed(f"a screen of {width} x {height} pixels is not shown")
    if size > LONGEST_NAME:
        raise rfb.Malformed(f"the name of its screen has {size} bytes")
    return head + await stream.readexactly(size)


def response(password: str, challenge: bytes) -> bytes:
    """
    Return the answer to the challenge of VNC authentication.

    It is encrypted by DES, whose key is the password's first 8 bytes with the bits of each in
    reverse.
    """
    key = password.encode()[:8].ljust(8, b"\0")
    mirrored = bytes(int(f"{byte:08b}"[::-1], 2) for byte in key)
    encryptor = Cipher(TripleDES(mirrored * 3), modes.ECB()).encryptor()  # noqa: S305 - of the protocol
    return encryptor.update(challenge) + encryptor.finalize()


async def _security(stream: Stream, version: tuple[int, int], password: str | None) -> int:
    """Agree on the security type; return it. Raises Refused, LoginRefused."""
    if version == (3, 3):
        kinds = {int.from_bytes(await stream.readexactly(4))} - {0}
    else:
        number = (await stream.readexactly(1))[0]
        kinds = {*await stream.readexactly(number)}
    if not kinds:
        raise Refused(f"it refuses connections: {await _reason(stream) or 'without a reason'}")
    if rfb.VNC_AUTHENTICATION in kinds and (password or rfb.NONE not in kinds):
        kind = rfb.VNC_AUTHENTICATION
        if not password:
            raise LoginRefused("it needs a password: set driver_info/vnc_password")
    elif rfb.NONE in kinds:
        kind = rfb.NONE
    else:
        names = ", ".join(map(str, sorted(kinds)))
        raise Refused(
            f"it offers the security types {names}; known are 1 (none) and 2 (VNC authentication)"
        )
    if version != (3, 3):
        await stream.write(bytes((kind,)))
    return kind


async def _reason(stream: Stream) -> str:
    """Return the reason of a refusal, as far as it can be shown."""
    size = int.from_bytes(await stream.readexactly(4))
    text = (await stream.readexactly(min(size, LONGEST_REASON))).decode(errors="replace")
    return "".join(mark for mark in text if mark.isprintable()).strip()[:SHOWN]


def _tls(verify: bool | str | None) -> ssl.SSLContext | None:
    """Return the context of a connection by TLS; None: without TLS. Raises InvalidDriverInfo."""
    if verify is None:
        return None
    context = tls.context(verify)
    if isinstance(context, ssl.SSLContext):
        return context
    default = ssl.create_default_context()
    if not context:
        default.check_hostname = False
        default.verify_mode = ssl.CERT_NONE
    return default
