"""
Crowds: many clients at once in a process of their own, with an address of their own on loopback.

The process has the lowest priority, because clients do not use the processors of the service.
"""

import asyncio
import multiprocessing
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

VERSION = "X-OpenStack-Ironic-API-Version: 1.96"
#: Status of a connection that ends without an answer.
CLOSED = "closed"
#: Seconds between two computations of a process without requests: as short as requests are.
PAUSE = 0.002


class Site(NamedTuple):
    """The service."""

    port: int
    waiting: str  # UUID of a node in a wait state
    account: tuple[str, str]  # user who may poll that node, and password
    tokens: tuple[tuple[str, str], ...]  # UUID of a node and token of its agent
    servers: tuple[int, ...]  # pids of the API


@dataclass(frozen=True)
class Crowd:
    """Clients that send a request again and again."""

    request: Callable[[Site, str, int], Awaitable[str]]  # site, source, number -> status
    size: int  # clients
    source: str  # their address
    pause: float = 1.0  # seconds from an answer to the client's next request


@dataclass
class Tally:
    """Answers to a crowd."""

    statuses: Counter = field(default_factory=Counter)
    pending: int = 0  # requests without an answer at the end
    cpu: float = 0.0  # seconds of CPU time of the clients


@contextmanager
def running(crowd, site):
    """Run a crowd; yield a tally that is complete at the exit."""
    mine, theirs = multiprocessing.Pipe()
    tally = Tally()
    child = multiprocessing.get_context("fork").Process(
        target=_child, args=(crowd, site, theirs), daemon=True
    )
    child.start()
    theirs.close()
    try:
        yield tally
    finally:
        child.terminate()
        copy = mine.recv()
        tally.statuses, tally.pending, tally.cpu = copy.statuses, copy.pending, copy.cpu
        child.join(10)
        mine.close()


def _child(crowd, site, results):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # until the event loop handles it
    os.nice(19)
    results.send(asyncio.run(_repeat(crowd, site)))


async def _repeat(crowd, site):
    ended, tally, numbers, began = asyncio.Event(), Tally(), count(), time.process_time()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)

    async def client(place):
        await asyncio.sleep(crowd.pause * place / crowd.size)
        while True:
            tally.pending += 1
            try:
                status = await crowd.request(site, crowd.source, next(numbers))
            except OSError:
                status = CLOSED
            tally.pending -= 1
            tally.statuses[status] += 1
            await asyncio.sleep(crowd.pause)

    clients = [asyncio.create_task(client(place)) for place in range(crowd.size)]
    await asyncio.wait((asyncio.create_task(ended.wait()), *clients), return_when="FIRST_COMPLETED")
    pending = tally.pending
    for task in clients:
        task.cancel()
    for outcome in await asyncio.gather(*clients, return_exceptions=True):
        if not isinstance(outcome, asyncio.CancelledError):
            raise outcome
    tally.pending, tally.cpu = pending, time.process_time() - began
    return tally


@contextmanager
def computing(share):
    """Run a process that uses this share of a processor, with the priority of a crowd."""
    child = multiprocessing.get_context("fork").Process(target=_compute, args=(share,), daemon=True)
    child.start()
    try:
        yield
    finally:
        child.kill()
        child.join(10)


def _compute(share):
    os.nice(19)
    began, used = time.monotonic(), time.process_time()
    while True:
        while time.process_time() - used < share * (time.monotonic() - began):
            pass
        time.sleep(PAUSE)


@asynccontextmanager
async def connected(site, source, buffer=None):
    """Connect from an address. buffer: bytes that the kernel receives ahead."""
    connection = socket.socket()
    connection.setblocking(False)
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.bind((source, 0))
    try:
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", site.port))
    except BaseException:
        connection.close()
        raise
    reader, writer = await asyncio.open_connection(sock=connection, limit=buffer or 1 << 16)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def head(method, path, *headers):
    """Encode the head of a request."""
    lines = (f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", VERSION, *headers, "", "")
    return "\r\n".join(lines).encode()


def body_of(length):
    """Return the headers of a JSON body."""
    return "Content-Type: application/json", f"Content-Length: {length}"


async def status_of(reader):
    """Read the status of an answer."""
    try:
        line = await reader.readline()
    except OSError:
        return CLOSED
    return line.split()[1].decode() if line else CLOSED
