"""
Cost of a power sync: CPU seconds with 1,000 nodes and with 10,000.

The sync is the conductor's own function, on SQLite. The BMCs of the nodes are the simulator's kind
of server, in a process of its own, and answer at once; `fake` nodes show the share of Redfish. The
floor is the same number of bare aiohttp reads of the same document. Memory and open files of a sync
must not grow with the number of nodes, nor with the number of syncs; and machines that never answer
must not delay the others.
"""

import asyncio
import multiprocessing
import os
import socket
import tempfile
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from sqlalchemy import insert

from app.cluster import conductors
from app.config import settings
from app.db import schema
from app.models import Node
from app.runtime import make
from drivers.simulator.server import Server
from drivers.simulator.server import json as answer
from tests.support.loopback import LOOPBACK
from workers.periodic import power_sync

SIZES = (1_000, 10_000)
#: In the measurement with silent machines: every so many-th machine never answers, for so many
#: seconds each.
SILENT, TIMEOUT = 100, 2.0
SYSTEM = "/redfish/v1/Systems/1"
ALIVE = {"INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "86400"}
DOCUMENT = {"@odata.id": SYSTEM, "Id": "1", "PowerState": "On", "Actions": {}}
REDFISH = {
    "redfish_system_id": SYSTEM, "redfish_auth_type": "basic", "redfish_username": "a",
    "redfish_password": "b",
}  # fmt: skip


@dataclass
class Swept:
    """Cost of one power sync."""

    cpu: float  # seconds
    seconds: float  # wall clock
    peak: float = 0  # MiB above the memory before it
    files: int = 0  # most open files above those before it
    growth: float = 0  # MiB that two more syncs left behind


def main(_nodes):
    with machines() as port, silence() as silent:
        rows = [
            (size, sweep(size, port), sweep(size), floor(size, port), sweep(size, port, silent))
            for size in SIZES
        ]
    report(rows)


@contextmanager
def machines():
    """Yield the port of all BMCs; each node has an address of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=serve, args=(theirs,))
    child.start()
    try:
        yield ours.recv()
    finally:
        child.terminate()
        child.join()


def serve(pipe):
    async def run():
        port = await Server().listen("0.0.0.0", 0, lambda _request: answer(DOCUMENT))
        pipe.send(port)
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def silence():
    """A port that accepts connections and never answers."""
    with socket.create_server(("0.0.0.0", 0), backlog=4096) as listener:
        yield listener.getsockname()[1]


def address(number):
    return f"127.78.{number // 250 + 1}.{number % 250 + 1}"


def sweep(size, port=None, silent=None):
    """
    Run a power sync of that many nodes, once their BMCs are known.

    port: of the BMCs; None: the nodes are fake. silent: port of the BMCs that never answer; None:
    all answer.
    """
    timeout = {"INGOT_REDFISH_SYNC_TIMEOUT": str(TIMEOUT)} if silent else {}
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ingot.db"
        schema.upgrade(url)
        environ = {"INGOT_DATABASE_CONNECTION": url, **LOOPBACK, **ALIVE, **timeout}
        runtime = make(settings.load(environ), lambda _message: True)
        loaded = {name: {} for name in runtime.drivers.types}
        lost = 0
        with runtime.transaction() as session:
            conductors.register(session, "c-1", str(uuid.uuid4()), "", loaded)
            rows = [row(number, port, silent) for number in range(size)]
            session.execute(insert(Node), rows)
            lost = sum(f":{silent}" in str(entry["driver_info"]) for entry in rows)
        if not silent:
            power_sync.sync(runtime, "c-1")
        swept = watched(lambda: power_sync.sync(runtime, "c-1"), size, lost)
        if not silent:
            baseline = memory("VmRSS")
            for _ in range(2):
                power_sync.sync(runtime, "c-1")
            swept.growth = memory("VmRSS") - baseline
        runtime.engine.dispose()
    return swept


def watched(work, size, lost=0):
    """Measure a power sync; `lost` machines cannot be read."""
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    baseline, open_before = memory("VmRSS"), open_files()
    ended, peak = threading.Event(), 0

    def count():
        nonlocal peak
        while not ended.wait(0.05):
            peak = max(peak, open_files() - open_before)

    counting = threading.Thread(target=count)
    counting.start()
    used, began = time.process_time(), time.monotonic()
    try:
        counts = work()
    finally:
        used, took = time.process_time() - used, time.monotonic() - began
        ended.set()
        counting.join()
    assert {"read": size, "differ": 0, "failed": lost, "moving": 0} == counts, counts
    return Swept(used, took, memory("VmHWM") - baseline, peak)


def open_files():
    return len(os.listdir("/proc/self/fd"))


def memory(name):
    """MiB of this process: VmRSS (now), or VmHWM (peak)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def row(number, port, silent):
    driver_info = {}
    if port:
        destination = silent if silent and number % SILENT == 0 else port
        driver_info = REDFISH | {"redfish_address": f"http://{address(number)}:{destination}"}
    return {
        "uuid": str(uuid.uuid4()), "driver": "redfish" if port else "fake-hardware",
        "driver_info": driver_info, "provision_state": "available",
        "power_state": "power on" if port else "power off",
    }  # fmt: skip


def floor(size, port):
    """Cost of bare reads, with the concurrency of a sync, each on a connection of its own."""

    async def read():
        numbers = iter(range(size))
        connector = aiohttp.TCPConnector(limit=64, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as http:

            async def lane():
                for number in numbers:
                    async with http.get(f"http://{address(number)}:{port}{SYSTEM}") as response:
                        await response.json()

            await asyncio.gather(*(lane() for _ in range(64)))

    used, began = time.process_time(), time.monotonic()
    asyncio.run(read())
    return Swept(time.process_time() - used, time.monotonic() - began)


def report(rows):
    print("Power sweep of one conductor, BMCs that answer at once:\n")
    print(f"  {'CPU s (seconds)':>16}{'Redfish':>16}{'fake':>16}{'bare reads':>16}{'ratio':>8}")
    for size, redfish, fake, bare, _ in rows:
        cells = [f"{result.cpu:.2f} ({result.seconds:.1f})" for result in (redfish, fake, bare)]
        print(f"  {size:10} nodes" + "".join(f"{cell:>16}" for cell in cells), end="")
        print(f"{redfish.cpu / bare.cpu:8.1f}")
    print(f"\n  {'of Redfish':>16}{'ms a node':>16}{'MiB more':>16}{'open files':>16}", end="")
    print(f"{'MiB left by two':>18}{f'1 in {SILENT} silent for {TIMEOUT:g} s':>26}")
    for size, redfish, _, _, lost in rows:
        print(f"  {size:10} nodes{redfish.cpu / size * 1000:16.2f}{redfish.peak:16.1f}", end="")
        print(f"{redfish.files:16}{redfish.growth:18.1f}{lost.seconds:24.1f} s")
    print("\nIronic 39, fake: 1,000 nodes 4.1 s of CPU, 10,000 nodes 41 s.")
