"""Servers that misbehave, and measurements of their effect on a client."""

import resource
import socket
import threading
import time
from contextlib import contextmanager

from tests.support.fleet import until
from tests.support.web import Handler, serving


class Recorder(Handler):
    """Record each request as (path, headers); answer by `server.reply(handler)`."""

    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        self.server.request_log.append((self.path, dict(self.headers)))
        self.server.reply(self)

    do_POST = do_HEAD = do_PATCH = do_DELETE = do_GET


def recording(reply, host="127.0.0.1"):
    return serving(Recorder, host, request_log=[], reply=reply)


def redirecting_to(url, status=302):
    return lambda handler: handler.answer(status, b"", {"Location": url})


def with_body(body, status=200, **headers):
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.answer(status, body, fields)


@contextmanager
def raw_server(talk):
    """A server that calls `talk(connection)` after the first bytes of each request; its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ones = []

    def one(connection):
        try:
            connection.recv(65536)
            talk(connection)
        except OSError:
            pass
        finally:
            connection.close()

    def run():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_ones.append(connection)
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        for open_connection in open_ones:
            open_connection.close()


def trickle(start, piece, pause=0.05, times=400):
    """Send `start`, then a piece now and then, for longer than any deadline in these tests."""

    def talk(connection):
        connection.sendall(start)
        for _ in range(times):
            connection.sendall(piece)
            time.sleep(pause)

    return talk


def flood(start, piece, limit=256 << 20):
    """Send as much as the client takes."""

    def talk(connection):
        connection.sendall(start)
        for _ in range(limit // len(piece)):
            connection.sendall(piece)

    return talk


def slow_headers(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(400):
        connection.sendall(b"X-%d: 1\r\n" % number)
        time.sleep(0.05)


def peak_memory():
    """The most memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@contextmanager
def no_thread_left():
    """Check that no thread of this process still works on the exchange."""
    earlier_threads = set(threading.enumerate())
    yield

    until(
        lambda: earlier_threads.issuperset(threading.enumerate()),
        "the end of the threads",
        between=0.01,
    )
