"""
Latency of a heartbeat: agents on keep-alive connections, in an open loop.

Each agent sends on schedule, even if its last heartbeat is still unanswered. The API is that of a real
`ingot up` with its default settings and SQLite; its CPU time is measured in the same rounds.
"""

import asyncio
import os
import sqlite3
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import starmap

from tests.bench import cpu
from tests.bench.bench_lifecycle import PRODUCTION
from tests.bench.bench_load import Agents, client, fill, in_turns, serving
from tests.support.fleet import Fleet

SETTINGS = {
    **PRODUCTION,
    "INGOT_AGENT_REQUIRE_TLS": "false",
    "INGOT_API_RESTRICT_LOOKUP": "false",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "0",
}


@dataclass(frozen=True)
class Load:
    agents: int
    gap: float  # seconds between two heartbeats of an agent
    spread: bool  # evenly over the gap, or all at the same moment
    rounds: int  # measured heartbeats per agent


LOADS = {
    "a lone agent": Load(1, 2.0, spread=True, rounds=15),
    "8 spread, 4 a second": Load(8, 2.0, spread=True, rounds=15),
    "8 at the same moment": Load(8, 2.0, spread=False, rounds=15),
    "64 spread, 32 a second": Load(64, 2.0, spread=True, rounds=10),
    "64 at the same moment": Load(64, 4.0, spread=False, rounds=6),
    "2,000 spread, 67 a second": Load(2000, 30.0, spread=True, rounds=2),
}


def main(_nodes):
    count = max(load.agents for load in LOADS.values())
    with tempfile.TemporaryDirectory() as folder, ExitStack() as started:
        fleet = started.enter_context(Fleet(folder, conductors=1, **SETTINGS))
        nodes = fill(fleet, count)
        listen(fleet)
        agents = Agents(nodes)
        run = started.enter_context(serving(agents))
        run(agents.announce_all(fleet.url, nodes))
        used = partial(cpu.of_processes, cpu.family(fleet.pids()["api"]))
        results = {
            name: run(measured(agents, fleet.url, nodes, load, used))
            for name, load in LOADS.items()
        }
        assert 0 == agents.refused
    report(results)


def listen(fleet):
    """Put all nodes into a state in which the API records heartbeats."""
    with sqlite3.connect(f"{fleet.data}/ingot.db", timeout=60) as connection:
        connection.execute("UPDATE nodes SET provision_state = 'wait call-back'")
    connection.close()


async def measured(agents, url, nodes, load, used):
    """CPU ms per heartbeat, and the sorted latencies in ms."""
    nodes, took = nodes[: load.agents], []
    connections = {node: client(limit=1, keepalive_timeout=3600) for node in nodes}
    await in_turns(lambda node: agents.heartbeat(connections[node], url, node), nodes, 32)
    await asyncio.sleep(load.gap)

    async def call(node, moment):
        await asyncio.sleep(max(moment - time.monotonic(), 0))
        began = time.monotonic()
        await agents.heartbeat(connections[node], url, node)
        took.append((time.monotonic() - began) * 1000)

    between = load.gap / load.agents if load.spread else 0
    begin, baseline = time.monotonic() + 0.1, used()
    times = (
        (node, begin + number * load.gap + place * between)
        for number in range(load.rounds)
        for place, node in enumerate(nodes)
    )
    await asyncio.gather(*starmap(call, times))
    spent = (used() - baseline) / len(took) * 1000
    for http in connections.values():
        await http.close()
    return spent, sorted(took)


def report(results):
    print(f"Heartbeats, open loop, SQLite, load average {os.getloadavg()[0]:.1f}:\n")
    print(f"  {'':26}{'p50 ms':>8}{'p90 ms':>8}{'max ms':>8}{'API CPU ms each':>18}{'n':>6}")
    for name, (spent, took) in results.items():
        p50, p90 = statistics.median(took), statistics.quantiles(took, n=10)[-1]
        print(f"  {name:26}{p50:8.1f}{p90:8.1f}{took[-1]:8.1f}{spent:18.2f}{len(took):6}")
