"""
Cost of watchers of the event stream: 500 of them, while 50 operations run and while nothing happens.

A real `ingot up` with its settings for production, on SQLite and on PostgreSQL. Its fake machines
take seconds for a step, as machines do. Each phase runs without watchers and with them; the measure
is the difference in CPU seconds of the service's processes, those of PostgreSQL included, per
second. Other processes vary by more than idle watchers cost, so the API's processes are also
measured alone, to the microsecond, and compared with a floor: a process that sends as many bytes to
as many sockets once a second, and does nothing else.
"""

import asyncio
import multiprocessing
import os
import socket
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

from tests.bench import cpu
from tests.bench.bench_lifecycle import PRODUCTION, VERBS
from tests.support import postgresql
from tests.support.fleet import Fleet, until

WATCHERS, NODES = 500, 50
#: Seconds for the watchers to connect and for work of the start to end, of an idle phase, and of the
#: floor.
SETTLED, IDLE, BARE = 10.0, 90.0, 15.0
SETTINGS = {
    **PRODUCTION,
    "INGOT_FAKE_POWER_DELAY": "1,2",
    "INGOT_FAKE_BOOT_DELAY": "1,2",
    "INGOT_FAKE_DEPLOY_DELAY": "2,4",
    "INGOT_FAKE_MANAGEMENT_DELAY": "1,2",
}
#: Each watcher has an address of its own, of which one may have few streams.
REQUEST = (
    "GET /v1/events/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: 192.0.{}.{}\r\n\r\n"
)


def main(nodes):
    nodes = nodes or NODES
    for kind in ("SQLite", "PostgreSQL"):
        with ExitStack() as started:
            environ, server = dict(SETTINGS), None
            if kind == "PostgreSQL":
                server = started.enter_context(postgresql.serving())
                environ["INGOT_DATABASE_CONNECTION"] = server.database()
            folder = started.enter_context(tempfile.TemporaryDirectory())
            fleet = started.enter_context(Fleet(folder, **environ))
            measure(kind, fleet, server, nodes)


def measure(kind, fleet, server, nodes):
    def used():
        roots = [fleet.process.pid, *([server.pid] if server else [])]
        return cpu.of_trees(roots)

    live(fleet, nodes, {"manage": "manageable"})  # all processes have started their threads
    print(f"{kind}, load average {os.getloadavg()[0]:.1f}")
    for phase, work in (
        ("idle", lambda: time.sleep(IDLE)),
        (f"{nodes} operations", lambda: live(fleet, nodes, VERBS)),
    ):
        costs, of_api = {}, {}
        for watchers in (0, WATCHERS):
            with watching(fleet.url, watchers) as received:
                time.sleep(SETTLED)
                baseline, began, at = used(), time.monotonic(), received[:]
                serving = cpu.of_processes(cpu.family(fleet.pids()["api"]))
                work()
                took = time.monotonic() - began
                spent = used() - baseline
                events, size = (now - then for now, then in zip(received, at, strict=True))
                costs[watchers] = spent
                api_seconds = cpu.of_processes(cpu.family(fleet.pids()["api"])) - serving
                of_api[watchers] = api_seconds / took * 100
            print(
                f"  {phase:15} {watchers:4} watchers: {spent:6.2f} CPU s in {took:5.1f} s,"
                f" {spent / took * 100:6.2f} % of a core, {events / max(watchers, 1):7.1f} messages each"
            )
        cost = (costs[WATCHERS] - costs[0]) / took * 100
        ratio = costs[WATCHERS] / costs[0]
        print(
            f"  {phase:15} the watchers cost {cost:.2f} % of a core; with / without {ratio:.2f};"
            f" in the API {of_api[WATCHERS] - of_api[0]:.2f} %"
        )
        if events:
            rate = int(size / took / WATCHERS)
            print(
                f"  {phase:15} each got {rate:,} bytes a second, whose sending alone costs"
                f" {floor(rate):.2f} %"
            )
        print()


def live(fleet, nodes, verbs):
    """Take nodes through verbs, and delete them."""
    uuids = fleet.create_nodes(nodes)
    for verb, state in verbs.items():
        fleet.provision(uuids, verb)
        there = dict.fromkeys(uuids, state)
        until(lambda there=there: fleet.states() == there, state, seconds=300, between=0.25)
    for node in uuids:
        fleet.http.delete(f"{fleet.url}/v1/nodes/{node}", timeout=30).raise_for_status()


def floor(size):
    """Return % of a core of a process that sends `size` bytes a second to each watcher."""
    with socket.create_server(("127.0.0.1", 0), backlog=WATCHERS) as listening:
        child = multiprocessing.get_context("fork").Process(
            target=send_to_all, args=(listening, b"x" * size), daemon=True
        )
        child.start()
        try:
            with watching(f"http://127.0.0.1:{listening.getsockname()[1]}", WATCHERS):
                time.sleep(SETTLED)
                baseline, began = cpu.of_processes([child.pid]), time.monotonic()
                time.sleep(BARE)
                spent = cpu.of_processes([child.pid]) - baseline
                return spent / (time.monotonic() - began) * 100
        finally:
            child.kill()
            child.join()


def send_to_all(listening, part):
    readers = []
    while len(readers) < WATCHERS:
        readers.append(listening.accept()[0])
        readers[-1].sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    with suppress(ConnectionError):  # at the end the readers leave
        while True:
            for reader in readers:
                reader.sendall(part)
            time.sleep(1)


@contextmanager
def watching(url, count):
    """Run watchers in a process of their own; yield how many messages and bytes all received."""
    context = multiprocessing.get_context("fork")
    received, connected = context.Array("q", 2), context.Value("q", 0)
    child = context.Process(
        target=lambda: asyncio.run(_watch(urlsplit(url).port, count, received, connected)),
        daemon=True,
    )
    child.start()
    try:
        until(lambda: connected.value == count, "all watchers connected", seconds=120)
        yield received
        assert connected.value == count, f"{count - connected.value} watchers lost their connection"
    finally:
        child.terminate()
        child.join()


async def _watch(port, count, received, connected):
    os.nice(19)
    few = asyncio.Semaphore(16)  # connect at once: a process queues a few hundred requests only

    async def one(number):
        async with few:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST.format(*divmod(number, 250)).encode())
            status = await reader.readline()
        assert b"200" in status, status
        connected.value += 1
        while data := await reader.read(1 << 20):
            received[0] += data.count(b"\ndata:")
            received[1] += len(data)
        connected.value -= 1

    await asyncio.gather(*(one(number) for number in range(count)))
