"""The event stream of the real server: connections, processes and slow readers."""

import http.client
import socket
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import count
from urllib.parse import urlsplit

import psutil
import pytest
import requests
from sqlalchemy import insert

from app.db import connections
from app.models import ChangeEvent
from tests.support.fleet import until
from tests.support.ports import free_port

from .test_server import NEWEST, await_answer, copied, started

STREAM = "/v1/events/stream"
NUMBERS = count()


@pytest.fixture
def served(migrated_sqlite, tmp_path):
    """A server with one process: its URL, its process, and its database's URL."""
    port, database = free_port(), copied(migrated_sqlite, tmp_path)
    settings = {"INGOT_API_API_WORKERS": "1"}
    with started(database, port, "with_little_patience", **settings) as process:
        url = f"http://127.0.0.1:{port}"
        await_answer(f"{url}/healthcheck", process)
        yield url, process, database


def connect(url, path=STREAM, **options):
    """Open a stream; return its connection and its answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    address = f"192.0.2.{next(NUMBERS) % 250}"  # one may have few streams
    connection.request("GET", path, headers=NEWEST | {"X-Forwarded-For": address})
    answer = connection.getresponse()
    assert 200 == answer.status
    assert b"retry:" in answer.readline()
    return connection, answer


def create(url, name):
    answer = requests.post(
        f"{url}/v1/nodes",
        json={"driver": "fake-hardware", "name": name},
        headers=NEWEST,
        timeout=60,
    )
    assert 201 == answer.status_code, answer.text


def workers(process):
    return psutil.Process(process.pid).children()


def threads_of(process):
    return sum(worker.num_threads() for worker in workers(process))


def test_streams_leave_room_for_requests_and_end_regularly_with_the_process(served):
    url, process, _ = served
    with ExitStack() as opened:
        streams = []
        for _ in range(60):
            connection, answer = connect(url)
            opened.enter_context(closing(connection))
            streams.append(answer)
        create(url, "n1")
        for answer in streams:
            until(lambda answer=answer: b"node.created" in answer.readline(), "the event")
        process.terminate()
        for answer in streams:
            answer.read()  # raises IncompleteRead unless the last chunk has arrived
    process.wait(60)


def test_a_reader_who_disconnects_frees_its_thread(served):
    url, process, _ = served
    with ExitStack() as opened:
        for _ in range(40):
            opened.enter_context(closing(connect(url)[0]))
        assert threads_of(process) >= 40
        (server,) = workers(process)
    create(url, "n1")  # sending to a closed connection ends its stream
    connected = lambda: [c for c in server.net_connections() if c.status == "ESTABLISHED"]  # noqa: E731
    until(lambda: len(connected()) <= 1, "the end of the connections")
    with ExitStack() as again:
        for _ in range(100):
            again.enter_context(closing(connect(url)[0]))


def test_a_reader_who_receives_nothing_is_disconnected_and_continues_later(served):
    url, process, database = served
    (server,) = workers(process)
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect(("127.0.0.1", urlsplit(url).port))
        request = f"GET {STREAM}?after=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        silent.sendall(request.encode())
        create(url, "n1")
        fill(database, 60_000)
        port = silent.getsockname()[1]

        def is_open():
            return any(c.raddr and c.raddr.port == port for c in server.net_connections())

        assert is_open()
        until(lambda: not is_open(), "the end of the connection")
    connection, answer = connect(url, f"{STREAM}?after=60000")
    with closing(connection):
        until(lambda: b"id: 60001\n" == answer.readline(), "the event")


def fill(database, count):
    """Insert events, more than the buffers of a connection hold."""
    engine = connections.connect(database)
    now = datetime.now(UTC).replace(tzinfo=None)
    rows = [
        {
            "sequence": number, "created_at": now, "type": "node.updated",
            "node_uuid": "0" * 36, "node_name": "n" * 200,
        }
        for number in range(2, count + 2)
    ]  # fmt: skip
    with engine.begin() as connection:
        connection.execute(insert(ChangeEvent), rows)
    engine.dispose()
