"""
Cost of a sensor sweep: CPU time per machine, and the time of a sweep over 3,500 machines.

The sweep is the conductor's own function, on SQLite. The BMCs are the simulator's kind of server,
in a process of its own, and answer at once; each has a Thermal and a Power resource with 30 sensors.
The first sweep searches them, the second one reads only these. `fake` nodes show the share of
Redfish. The goal: one conductor reads 3,500 machines in a minute.
"""

import asyncio
import multiprocessing
import os
import tempfile
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import insert

from app.cluster import conductors
from app.config import settings
from app.db import schema
from app.models import Node
from app.runtime import make
from drivers.simulator.server import Server
from drivers.simulator.server import json as answer
from tests.bench.bench_power_sync import ALIVE, REDFISH, SYSTEM, address
from tests.support.loopback import LOOPBACK
from workers.periodic import sensor_sweep

SIZE, GOAL = 3_500, 60.0
CHASSIS = "/redfish/v1/Chassis/1"


def link(path):
    return {"@odata.id": path}


STATUS = {"State": "Enabled", "Health": "OK"}
DOCUMENTS = {
    SYSTEM: {"@odata.id": SYSTEM, "Id": "1", "PowerState": "On", "Links": {"Chassis": [link(CHASSIS)]}},
    CHASSIS: {
        "@odata.id": CHASSIS, "Id": "1", "Status": STATUS,
        "Thermal": link(f"{CHASSIS}/Thermal"), "Power": link(f"{CHASSIS}/Power"),
    },
    f"{CHASSIS}/Thermal": {
        "@odata.id": f"{CHASSIS}/Thermal",
        "Temperatures": [
            {"MemberId": str(number), "Name": f"Temp {number}", "ReadingCelsius": 20 + number,
             "Status": STATUS, "UpperThresholdCritical": 90, "PhysicalContext": "SystemBoard"}
            for number in range(16)
        ],
        "Fans": [
            {"MemberId": str(number), "Name": f"Fan {number}", "Reading": 4200 + number,
             "ReadingUnits": "RPM", "Status": STATUS}
            for number in range(8)
        ],
    },
    f"{CHASSIS}/Power": {
        "@odata.id": f"{CHASSIS}/Power",
        "PowerSupplies": [
            {"MemberId": str(number), "Name": f"PSU {number}", "LastPowerOutputWatts": 200,
             "Status": STATUS}
            for number in range(2)
        ],
        "Voltages": [
            {"MemberId": str(number), "Name": f"Rail {number}", "ReadingVolts": 12.05,
             "Status": STATUS}
            for number in range(4)
        ],
    },
}  # fmt: skip


@dataclass
class Swept:
    """Cost of one sensor sweep."""

    cpu: float  # seconds
    seconds: float  # wall clock


def main(nodes):
    size = nodes or SIZE
    with machines() as port:
        rows = [("redfish", *sweeps(size, port)), ("fake", *sweeps(size, None))]
    print(f"{size} machines of 30 sensors, one conductor, SQLite")
    print(f"{'nodes':10} {'sweep':8} {'CPU ms per machine':>20} {'seconds':>10}")
    for name, *costs in rows:
        for sweep_name, cost in zip(("first", "second", "third"), costs, strict=True):
            print(f"{name:10} {sweep_name:8} {cost.cpu * 1000 / size:20.2f} {cost.seconds:10.1f}")
    cpu = rows[0][-1].cpu * SIZE / size
    verdict = "met" if cpu <= GOAL else "missed"
    print(f"goal: {SIZE} machines a minute: {cpu:.1f} s of CPU, {verdict} by one core")


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
        def answered(request):
            return answer(DOCUMENTS[request.path])

        port = await Server().listen("0.0.0.0", 0, answered)
        pipe.send(port)
        await asyncio.Event().wait()

    asyncio.run(run())


def sweeps(size, port):
    """Run three sensor sweeps. port: of the BMCs; None: the nodes are fake."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ingot.db"
        schema.upgrade(url)
        runtime = make(
            settings.load(
                {
                    "INGOT_DATABASE_CONNECTION": url,
                    "INGOT_SENSOR_DATA_WAIT_TIMEOUT": "3600",
                    "INGOT_REDFISH_SYNC_TIMEOUT": "60",
                    **LOOPBACK,
                    **ALIVE,
                }
            ),
            lambda _: True,
        )
        loaded = {name: {} for name in runtime.drivers.types}
        with runtime.transaction() as session:
            conductors.register(session, "c-1", str(uuid.uuid4()), "", loaded)
            session.execute(insert(Node), [row(number, port) for number in range(size)])
        costs = [swept(runtime, size) for _ in range(3)]
        runtime.engine.dispose()
    return costs


def row(number, port):
    driver_info = {}
    if port is not None:
        driver_info = {"redfish_address": f"http://{address(number)}:{port}", **REDFISH}
    return {
        "uuid": str(uuid.uuid4()),
        "driver": "redfish" if port else "fake-hardware",
        "provision_state": "active",
        "driver_info": driver_info,
    }


def swept(runtime, size):
    start_times, started = os.times(), time.monotonic()
    counts = sensor_sweep.sweep(runtime, "c-1")
    seconds, end_times = time.monotonic() - started, os.times()
    assert size == counts["read"], counts
    cpu = end_times.user + end_times.system - start_times.user - start_times.system
    return Swept(cpu, seconds)
