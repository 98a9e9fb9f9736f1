"""
What a power sweep costs: CPU seconds of one, with 1,000 nodes and with 10,000.

The sweep is the conductor's own function, on SQLite, over nodes whose BMCs are the simulator's kind
of server in a process of its own and answer at once; `fake` nodes show what is not Redfish. Beside
them stands the floor: the same number of bare aiohttp reads of the same document.
"""

import asyncio
import multiprocessing
import tempfile
import time
import uuid
from contextlib import contextmanager

import aiohttp
from sqlalchemy import insert

from app import db, settings
from app.models import Node
from app.runtime import make
from app.services import conductors
from drivers.simulator.server import Server
from drivers.simulator.server import json as answer
from workers import power_sync

SIZES = (1_000, 10_000)
SYSTEM = "/redfish/v1/Systems/1"
ALIVE = {"INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "86400"}
DOCUMENT = {"@odata.id": SYSTEM, "Id": "1", "PowerState": "On", "Actions": {}}


def main(_nodes):
    with machines() as port:
        rows = []
        for size in SIZES:
            redfish = {
                "driver": "redfish",
                "driver_info": {
                    "redfish_address": f"http://127.0.0.1:{port}", "redfish_system_id": SYSTEM,
                    "redfish_auth_type": "basic", "redfish_username": "a", "redfish_password": "b",
                },
            }  # fmt: skip
            fake = {"driver": "fake-hardware", "driver_info": {}}
            rows.append((size, *sweep(size, redfish, port), *sweep(size, fake), *floor(size, port)))
    report(rows)


@contextmanager
def machines():
    """The port of all BMCs; each node has an address of its own on it."""
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


def address(number):
    return f"127.78.{number // 250 + 1}.{number % 250 + 1}"


def sweep(size, node, port=None):
    """(CPU seconds, seconds) of a sweep over that many nodes, once their BMCs are known."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ingot.db"
        db.upgrade(url)
        environ = {"INGOT_DATABASE_CONNECTION": url, **ALIVE}
        runtime = make(settings.load(environ), lambda _message: True)
        loaded = {name: {} for name in runtime.drivers.types}
        with runtime.transaction() as session:
            conductors.register(session, "c-1", str(uuid.uuid4()), "", loaded)
            session.execute(insert(Node), [row(number, node, port) for number in range(size)])
        power_sync.sync(runtime, "c-1")
        runtime.cache.clear()
        used, began = time.process_time(), time.monotonic()
        counts = power_sync.sync(runtime, "c-1")
        used, took = time.process_time() - used, time.monotonic() - began
        runtime.engine.dispose()
    assert {"read": size, "differ": 0, "failed": 0} == counts, counts
    return used, took


def row(number, node, port):
    driver_info = dict(node["driver_info"])
    if port:
        driver_info["redfish_address"] = f"http://{address(number)}:{port}"
    return {
        "uuid": str(uuid.uuid4()), "driver": node["driver"], "driver_info": driver_info,
        "provision_state": "available", "power_state": "power on" if port else "power off",
    }  # fmt: skip


def floor(size, port):
    """The same for bare reads, as many at once as a sweep has."""

    async def read():
        numbers = iter(range(size))
        connector = aiohttp.TCPConnector(limit=64)
        async with aiohttp.ClientSession(connector=connector) as http:

            async def lane():
                for number in numbers:
                    async with http.get(f"http://{address(number)}:{port}{SYSTEM}") as found:
                        await found.json()

            await asyncio.gather(*(lane() for _ in range(64)))

    used, began = time.process_time(), time.monotonic()
    asyncio.run(read())
    return time.process_time() - used, time.monotonic() - began


def report(rows):
    print("Power sweep of one conductor, BMCs that answer at once:\n")
    print(f"  {'CPU s (seconds)':>16}{'Redfish':>16}{'fake':>16}{'bare reads':>16}{'ratio':>8}")
    for size, used, took, fake, fake_took, bare, bare_took in rows:
        told = [
            f"{a:.2f} ({b:.1f})" for a, b in ((used, took), (fake, fake_took), (bare, bare_took))
        ]
        print(
            f"  {size:10} nodes" + "".join(f"{each:>16}" for each in told) + f"{used / bare:8.1f}"
        )
    print("\nIronic 39, fake: 1,000 nodes 4.1 s of CPU, 10,000 nodes 41 s.")
