"""
Gateway from granian to the WSGI application, which sees the names of headers as they were sent.

In a WSGI environ, `X-Forwarded-For` and `X_Forwarded_For` have one name. A proxy that sets the
first one passes on the second one as its client sent it, and which of the two counts would be
chance. So headers whose names have an underscore are dropped, as nginx does, before anything reads
them (RFC 9110, 17.10). granian's own WSGI gateway hands over an environ, where it is too late. This
one serves the ASGI worker of granian, whose scope has the raw names, and calls the application in
the threads of that worker, as granian's WSGI gateway does: no event loop runs, and no coroutine.
"""

import sys
import threading
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import Any
from urllib.parse import unquote_to_bytes
from wsgiref.types import WSGIApplication, WSGIEnvironment

from granian._granian import ASGIWorker, CallbackScheduler
from granian._signals import set_sync_signals
from granian.server.common import WORKERS_METHODS
from granian.server.mp import WorkerProcess

from app.api.transport import errors
from app.api.transport.responses import SOCKET
from app.errors import Invalid
from app.observe import log
from app.server import asgi
from app.server.asgi import Event, Exchange, Receive, Scope, Watcher

#: Status and headers of a response.
ResponseStart = tuple[int, list[tuple[str, str]]]
seldom = log.RateLimited(log.get(__name__))

#: Most names of dropped headers, and most characters of one, in a line of the log.
MOST_NAMES, LONGEST_NAME = 5, 64
#: Headers that a request has at most once: proxies and services differ in the one that counts.
SINGLE = frozenset({b"host", b"content-type", b"content-length"})
#: Headers whose variables have no prefix.
_BARE = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}
#: Headers that are not joined by commas.
_SEPARATORS = {"HTTP_COOKIE": ";"}
#: Status of an answer that accepts a WebSocket; beginning of the messages that refuse one.
SWITCHING, REFUSAL = 101, "websocket.http.response"
#: Scheme of a WebSocket -> that of its request.
_SCHEMES = {"ws": "http", "wss": "https"}
_CONSTANT = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "Granian",
    "wsgi.input_terminated": True,
    "wsgi.multiprocess": False,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}


class Immediate:
    """Takes the place of an event loop: the thread that schedules a callback runs it."""

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: object = None
    ) -> None:
        callback(*args)

    call_soon_threadsafe = call_soon


class Body:
    """The body of a request, as `wsgi.input`. ended: there is none, as in that for a WebSocket."""

    def __init__(self, receive: Receive, *, ended: bool = False) -> None:
        self._receive, self._ended = receive, ended
        self._unread_bytes = b""

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes, or the whole body (-1)."""
        return self.read_within(size, None)

    def read_within(self, size: int, seconds: float | None) -> bytes:
        """
        Read up to `size` bytes; a body that ends early is returned as far as it has arrived.

        seconds: for the whole of it; None for no limit.

        Raises TimeoutError: it has not arrived in time. Nothing more is read.
        """
        end = None if seconds is None else time.monotonic() + seconds
        parts, missing_bytes = [self._unread_bytes], size - len(self._unread_bytes)
        while not self._ended and (size < 0 or missing_bytes > 0):
            message = asgi.result(self._receive(), end)
            self._ended = not message.get("more_body")
            parts.append(message.get("body", b""))
            missing_bytes -= len(parts[-1])
        body = b"".join(parts)
        if size < 0:
            size = len(body)
        self._unread_bytes = body[size:]
        return body[:size]


class WebSocket:
    """
    A WebSocket that a request asks for; `environ[SOCKET]` has it.

    The application accepts it by an answer with the status 101, and sets `serve` before: that is
    called in the thread of the request when the socket is open. Any other answer refuses it.
    """

    def __init__(self, proto: Exchange, subprotocols: Sequence[str]) -> None:
        self._proto, self.subprotocols = proto, subprotocols
        self.serve: Callable[[WebSocket], object] | None = None
        self.subprotocol: str | None = None  # that is accepted
        self._is_open = self._is_closing = False
        self._receiving: Awaitable[Event] | None = None  # the awaited message

    def answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """Open and serve the socket, or refuse it, as the application has answered."""
        asgi.result(self._proto.receive())  # websocket.connect
        if status != SWITCHING or self.serve is None:
            start = {"type": f"{REFUSAL}.start", "status": status, "headers": _joined(headers)}
            asgi.result(self._proto.send(start))
            asgi.result(self._proto.send({"type": f"{REFUSAL}.body", "body": body}))
            return
        asgi.result(self._proto.send({"type": "websocket.accept", "subprotocol": self.subprotocol}))
        self._is_open = True
        self.serve(self)

    def receive(self) -> str | bytes | None:
        """Return the next message; None: the socket is closed."""
        self._receiving = self._proto.receive()
        if self._is_closing:
            asgi.cancel(self._receiving)
        try:
            message = asgi.result(self._receiving)
        except CancelledError:
            return None
        if message["type"] != "websocket.receive":
            self._is_open = False
            return None
        content: str | bytes | None = message.get("bytes")
        if content is None:
            content = message.get("text")
        return content

    def send(self, message: str | bytes) -> None:
        """Send a message. Raises Exception: the client is gone."""
        kind = "bytes" if isinstance(message, bytes) else "text"
        asgi.result(self._proto.send({"type": "websocket.send", kind: message}))

    def close(self, code: int, reason: str = "") -> None:
        """
        Close the socket, if it is open; another thread may be waiting for a message, and gets None.

        granian closes no socket of which a message is awaited, until the client sends one.
        """
        if self._is_open:
            self._is_open = False
            self._is_closing = True
            asgi.cancel(self._receiving)
            with suppress(Exception):  # granian raises errors of its own if the client is gone
                end = {"type": "websocket.close", "code": code, "reason": reason}
                asgi.result(self._proto.send(end))


class Departure:
    """Whether the client has closed its connection; it has sent its body before."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self.is_noticed = receive, False
        self._watch()

    def _watch(self) -> None:
        asgi.when_done(self._receive(), self._note)

    def _note(self, message: Event) -> None:
        if message["type"] == "http.disconnect":
            self.is_noticed = True
        else:
            self._watch()


def serve(
    worker_id: int, application: WSGIApplication, sock: object, ipc: Any, *arguments: Any
) -> None:
    """Serve a WSGI application in this process until a signal. arguments: of granian's targets."""
    _loop, runtime_mode, threads, blocking, py_threads, idle, connections, *further_arguments = (
        arguments
    )
    _task, http_mode, http1, http2, _websockets, static, _access_log, tls, _scope, metrics = (
        further_arguments
    )
    stopped = threading.Event()
    signals = set_sync_signals()
    signals.add_cb(stopped.set)
    worker = ASGIWorker(  # type: ignore[call-arg]
        worker_id, sock, ipc, threads, blocking, py_threads, idle, connections, http_mode,
        http1, http2, True, static, *tls, metrics,  # type: ignore[arg-type]
    )  # fmt: skip
    loop = Immediate()
    scheduler: Any = CallbackScheduler(loop, None, None, None, None)  # type: ignore[call-arg]
    scheduler._schedule_fn = _handler(application)
    getattr(worker, WORKERS_METHODS[runtime_mode][False])(scheduler, loop, signals)
    stopped.wait()


#: The target of granian's processes.
TARGET = WorkerProcess.wrap_target(serve)


def _handler(application: WSGIApplication) -> Callable[[Watcher], None]:
    """Return the function that granian calls in a thread for each request."""

    def handle(watcher: Watcher) -> None:
        try:
            _respond(application, watcher.scope, watcher.proto)
        except BaseException as error:  # granian does not expect one
            watcher.err(error)
        else:
            watcher.done()

    return handle


def _respond(application: WSGIApplication, scope: Scope, proto: Exchange) -> None:
    response_starts: list[ResponseStart] = []

    def start_response(
        status: str, headers: Iterable[tuple[str, str]], *_: object
    ) -> Callable[[bytes], object]:
        response_starts[:] = [(int(status[:3]), list(headers))]
        return _write

    socket = WebSocket(proto, scope["subprotocols"]) if scope["type"] == "websocket" else None
    body = Body(proto.receive, ended=socket is not None)
    environ, repeated_header = wsgi_environ(scope, body)
    if socket is not None:
        environ[SOCKET] = socket
        # werkzeug has routes of their own for WebSockets, by these two
        environ["wsgi.url_scheme"] = _SCHEMES.get(scope["scheme"], scope["scheme"])
        environ.pop("HTTP_UPGRADE", None)
    if repeated_header:
        refusal = Invalid(
            f"{repeated_header.title()}: the request has more than one of this header."
        )
        application = errors.service_error(refusal, environ)
    parts = application(environ, start_response)
    try:
        if socket is None:
            _send(proto, response_starts, parts)
        else:
            status, headers = response_starts[0]
            socket.answer(status, headers, b"".join(parts))
    finally:
        if close := getattr(parts, "close", None):
            close()


def _write(_data: bytes) -> None:
    """Refuse PEP 3333's other way to send a body, which neither werkzeug nor this service uses."""
    raise NotImplementedError("write() of a response")


def _joined(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Join headers of the same name, which panic granian in the refusal of a WebSocket."""
    joined: dict[bytes, bytes] = {}
    for name, value in headers:
        key, text = name.lower().encode("latin-1"), value.encode("latin-1")
        joined[key] = joined[key] + b", " + text if key in joined else text
    return list(joined.items())


def _send(
    proto: Exchange, response_starts: Sequence[ResponseStart], parts: Iterable[bytes]
) -> None:
    """Send a response: as a whole if its length is known, else part by part as they are made."""
    remaining_parts = iter(parts)
    first_part = next(remaining_parts, b"")  # an application may start its response as late as here
    status, headers = response_starts[0]
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    start = {"type": "http.response.start", "status": status, "headers": encoded}
    length = next((value for name, value in headers if name.lower() == "content-length"), "")
    if length.isdigit():
        body = b"".join([first_part, *remaining_parts])
        if len(body) == int(length):
            asgi.result(proto.send(start))
            asgi.result(proto.send({"type": "http.response.body", "body": body}))
            return
        first_part, remaining_parts = body, iter(())
    asgi.result(proto.send(start))
    departure = Departure(proto.receive)
    for part in chain((first_part,), remaining_parts):
        asgi.result(proto.send({"type": "http.response.body", "body": part, "more_body": True}))
        if departure.is_noticed:
            return
    asgi.result(proto.send({"type": "http.response.body", "body": b""}))


def wsgi_environ(scope: Scope, body: Body) -> tuple[WSGIEnvironment, str | None]:
    """
    Return the WSGI environ of an ASGI scope, and the name of a header of `SINGLE` that is repeated.

    Unlike granian's WSGI gateway, this one does not add the environment of the process: a variable
    of it, such as HTTP_X_AUTH_TOKEN, would be a header of each request.
    """
    path, (server, port) = scope["raw_path"], scope["server"]
    environ: WSGIEnvironment = {
        **_CONSTANT,
        "wsgi.errors": sys.stderr,
        "wsgi.input": body,
        "wsgi.url_scheme": scope["scheme"],
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server,
        "SERVER_PORT": port,
        "REMOTE_ADDR": scope["client"][0],
        "REQUEST_METHOD": scope.get("method", "GET"),  # one for a WebSocket has no other
        "PATH_INFO": (unquote_to_bytes(path) if b"%" in path else path).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
    }
    dropped_headers, repeated_header = [], None
    for name, value in scope["headers"]:
        if b"_" in name:
            dropped_headers.append(name)
            continue
        variable = _variable(name)
        # an entry of X-Forwarded-For that a client has written must not hide the one of the proxy
        text = value.decode("ascii", "backslashreplace")
        if variable not in environ:
            environ[variable] = text
        elif name in SINGLE:
            repeated_header = name.decode()
        else:
            environ[variable] += _SEPARATORS.get(variable, ",") + text
    if dropped_headers:
        seldom.warning(
            "request.headers_dropped",
            address=environ["REMOTE_ADDR"],
            names=[name[:LONGEST_NAME].decode() for name in dropped_headers[:MOST_NAMES]],
        )
    return environ, repeated_header


@lru_cache(maxsize=512)
def _variable(name: bytes) -> str:
    return _BARE.get(name) or f"HTTP_{name.decode().replace('-', '_').upper()}"
