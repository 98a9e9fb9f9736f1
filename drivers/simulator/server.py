"""
Small HTTP/1.1 server on asyncio, for the web servers of BMCs and agents.

Made for a thousand listeners in one process: a request costs some tens of microseconds. Supports
keep-alive, pipelining and `Content-Length`; refuses chunked request bodies (411).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

import orjson

MAX_HEAD = 64 * 1024  # bytes
MAX_BODY = 64 * 1024 * 1024  # bytes


class BadJson(ValueError):
    """The body is not a JSON object."""


@dataclass(slots=True)
class Request:
    """An HTTP request."""

    method: str
    path: str
    query: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    host: str = ""  # address of the listener

    def args(self) -> dict[str, str]:
        """Return the parameters of the query. The last one of a name wins."""
        return {name: values[-1] for name, values in parse_qs(self.query).items()}

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object; an empty body as {}. Raises BadJson."""
        if not self.body:
            return {}
        try:
            document = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise BadJson(f"the body is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise BadJson("the body is not a JSON object")
        return document


@dataclass(slots=True)
class Response:
    """An HTTP response."""

    status: int = 200  # 0: no response, the connection is cut
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    type: str = "application/json"
    end: str = ""  # "close": closed after it, unannounced; "cut": closed in the middle of the body

    def head(self, *, keep: bool) -> bytes:
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            f"Content-Length: {len(self.body)}",
            "Connection: keep-alive" if keep else "Connection: close",
        ]
        if self.body:
            lines.append(f"Content-Type: {self.type}")
        if self.headers:
            lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


#: Cuts the connection, as if no machine were there.
CUT = Response(0)

Handler = Callable[[Request], Response | Awaitable[Response]]


def json(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a JSON body."""
    return Response(status, orjson.dumps(document), headers)


class Connection(asyncio.Protocol):
    """Connection of one client. Requests are answered in order."""

    __slots__ = ("_buffer", "_handler", "_host", "_open", "_task", "_transport")

    def __init__(self, handler: Handler, host: str, connections: "set[Connection]") -> None:
        self._handler = handler
        self._host = host
        self._open = connections
        self._buffer = b""
        self._task: asyncio.Future[Response] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._transport = None
        self._open.discard(self)
        if self._task is not None:
            self._task.cancel()

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        self._advance()

    def _advance(self) -> None:
        """Answer all complete requests in the buffer."""
        while self._buffer and self._task is None and self._transport is not None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MAX_HEAD:
                    self._refuse(431)
                return
            try:
                request, length = self._parse(self._buffer[:end].decode("latin-1"))
            except ValueError:
                self._refuse(400)
                return
            if "transfer-encoding" in request.headers:
                self._refuse(411)
                return
            if length > MAX_BODY:
                self._refuse(413)
                return
            if len(self._buffer) < end + 4 + length:
                return
            request.body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            keep = request.headers.get("connection", "").lower() != "close"
            answer = self._handler(request)
            if isinstance(answer, Response):
                self._send(answer, keep=keep)
            else:
                self._task = asyncio.ensure_future(answer)
                self._task.add_done_callback(partial(self._finish, keep=keep))

    def _parse(self, head: str) -> tuple[Request, int]:
        first_line, *lines = head.split("\r\n")
        method, target, _version = first_line.split(" ")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        path, _, query = target.partition("?")
        if "%" in path:
            path = unquote(path)
        length = int(headers.get("content-length", 0))
        return Request(method, path, query, headers, b"", self._host), length

    def _finish(self, task: "asyncio.Future[Response]", keep: bool) -> None:
        self._task = None
        if task.cancelled():  # the handler's agent was stopped
            self._send(CUT, keep=False)
            return
        error = task.exception()
        self._send(CUT if error else task.result(), keep=keep)
        if error:
            raise error
        self._advance()

    def _send(self, answer: Response, *, keep: bool) -> None:
        if self._transport is None:
            return
        if answer.status == 0:
            self._transport.abort()
            self._transport = None
            return
        body = answer.body[: len(answer.body) // 2] if answer.end == "cut" else answer.body
        self._transport.write(answer.head(keep=keep) + body)
        if not keep or answer.end:
            self._transport.close()
            self._transport = None

    def _refuse(self, status: int) -> None:
        self._buffer = b""
        self._send(Response(status), keep=False)


class Server:
    """Listeners on several addresses of one port. `stop` closes them and their connections."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._connections: set[Connection] = set()

    async def listen(self, host: str, port: int, handler: Handler) -> int:
        """Serve `handler` at host:port (0: any free port); return the port. Raises OSError."""
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(handler, host, self._connections), host, port, backlog=128
        )
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.cut()
        await asyncio.gather(*(server.wait_closed() for server in self._servers))
        self._servers.clear()
