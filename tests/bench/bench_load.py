"""
What it costs to have very many operations in flight: 2,000 nodes being cleaned by their agents.

One conductor of a real `ingot up` with its settings for production, SQLite, and fake hardware; the
agents are one small server in this process, whose step never ends, and a loop that sends their
heartbeats, one every 30 s each, each on a connection of its own as agents do. What is counted is
CPU seconds of the service's processes, with heartbeats and without; memory and threads of the
conductor with a tenth of the nodes in flight and with all. Beside the heartbeat stands the floor: a
Flask view under the same server that returns the same answer ready-made.
"""

import asyncio
import sqlite3
import tempfile
import threading
import time
import uuid
from collections import deque
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from drivers.simulator.server import Server
from drivers.simulator.server import json as answer
from tests.bench import cpu
from tests.bench.bench_api import floor_of
from tests.bench.bench_lifecycle import PRODUCTION
from tests.fleet import Fleet, until

#: Nodes in flight when `--nodes` does not say otherwise, and seconds between an agent's heartbeats.
NODES, GAP = 2000, 30.0
#: Seconds for which the service is watched.
WATCHED = 60.0
SETTINGS = {
    **PRODUCTION,
    "INGOT_CONDUCTOR_MAX_CONCURRENT_CLEAN": "100000",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "0",
    "INGOT_AGENT_REQUIRE_TLS": "false",
}
VERSION = {"X-OpenStack-Ironic-API-Version": "1.96"}
STEP = {"interface": "deploy", "step": "scrub", "priority": 10, "abortable": True}


class Agents:
    """All agents at one address: the path says whose commands are meant."""

    def __init__(self, nodes):
        self._commands = {node: [] for node in nodes}
        self.tokens = {}
        self.refused = 0

    def handle(self, request):
        node = request.path.split("/")[1]
        commands = self._commands[node]
        if request.method == "GET":
            return answer({"commands": commands})
        order = request.json()
        asked = order["name"] == "clean.get_clean_steps"
        step = order["params"].get("step")
        listed = {"clean_steps": {"m": [STEP]}, "hardware_manager_version": {"m": "1"}}
        commands.append(
            {
                "id": f"{node}-{len(commands)}",
                "command_name": order["name"].partition(".")[2],
                "command_status": "SUCCEEDED" if asked else "RUNNING",
                "command_error": None,
                "command_result": listed if asked else {"clean_step": step} if step else None,
            }
        )
        return answer(commands[-1])

    def at_work(self):
        """How many run their step."""
        return sum(
            any(each["command_status"] == "RUNNING" for each in known)
            for known in list(self._commands.values())
        )

    async def announce(self, http, url, node):
        async with http.get(f"{url}/v1/lookup", params={"node_uuid": node}) as found:
            told = await found.json()
            self.tokens[node] = told["config"]["agent_token"]
        await self.heartbeat(http, url, node)

    async def heartbeat(self, http, url, node):
        sign = {
            "callback_url": f"http://127.0.0.1:{self.port}/{node}",
            "agent_token": self.tokens[node], "agent_version": "13.0.0",
        }  # fmt: skip
        async with http.post(f"{url}/v1/heartbeat/{node}", json=sign) as heard:
            self.refused += heard.status != 202


@contextmanager
def serving(agents):
    """The agents' server, on a loop of its own; gives that loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = Server()

    def done(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(300)

    agents.port = done(server.listen("127.0.0.1", 0, agents.handle))
    try:
        yield done
    finally:
        done(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def main(nodes):
    with tempfile.TemporaryDirectory() as folder:
        report(*measure(folder, nodes or NODES, WATCHED))


def measure(folder, nodes, seconds):
    """
    (what the conductor needs with a tenth of the nodes in flight, with all, and in the end; CPU
    seconds a second of each role without heartbeats, and with them; heartbeats a second)
    """
    with Fleet(folder, conductors=1, **SETTINGS) as fleet:
        made = fill(fleet, nodes)
        agents = Agents(made)
        with serving(agents) as done:
            few = nodes // 10
            bring(fleet, agents, done, made[:few])
            small = needs(fleet)
            bring(fleet, agents, done, made[few:])
            assert {"clean wait": nodes} == states(fleet)
            large = needs(fleet)
            idle = used(fleet, seconds, lambda: time.sleep(seconds))
            busy = used(fleet, seconds, lambda: done(beat(agents, fleet.url, made, seconds)))
            assert {"clean wait": nodes} == states(fleet)
            after = needs(fleet)
            assert 0 == agents.refused
    return small, large, after, idle, busy, nodes / GAP


def fill(fleet, count):
    """That many manageable nodes; the UUIDs."""
    first = fleet.create_nodes(1, deploy_interface="direct")[0]
    made = [first, *(str(uuid.uuid4()) for _ in range(count - 1))]
    with sqlite3.connect(f"{fleet.data}/ingot.db", timeout=60) as connection:
        connection.execute("UPDATE nodes SET provision_state = 'manageable'")
        columns = [row[1] for row in connection.execute("PRAGMA table_info(nodes)")]
        kept = ", ".join(name for name in columns if name not in ("id", "uuid", "name"))
        connection.executemany(
            f"INSERT INTO nodes (uuid, {kept}) SELECT ?, {kept} FROM nodes WHERE uuid = '{first}'",
            ((each,) for each in made[1:]),
        )
    connection.close()
    return made


def bring(fleet, agents, done, nodes):
    """Let nodes be cleaned until the agent of each runs its step."""
    wanted = agents.at_work() + len(nodes)
    fleet.provision(nodes, "provide")
    until(lambda: states(fleet).get("clean wait", 0) == wanted, "waiting", 600, between=1)

    async def announce():
        async with client() as http:
            await in_turns(lambda node: agents.announce(http, fleet.url, node), nodes)

    done(announce())
    until(lambda: agents.at_work() == wanted, "all agents at work", 600, between=1)
    until(lambda: states(fleet).get("clean wait", 0) == wanted, "waiting", 600, between=1)


def client():
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, limit=8),
        timeout=aiohttp.ClientTimeout(total=120), headers=VERSION,
    )  # fmt: skip


async def in_turns(work, items, lanes=8):
    waiting = deque(items)

    async def lane():
        while waiting:
            await work(waiting.popleft())

    await asyncio.gather(*(lane() for _ in range(lanes)))


async def beat(agents, url, nodes, seconds):
    """Every agent gives a sign of life every `GAP` seconds, evenly spread."""
    async with client() as http:
        began, tasks = time.monotonic(), set()
        for number in range(int(len(nodes) * seconds / GAP)):
            late = began + number * GAP / len(nodes) - time.monotonic()
            await asyncio.sleep(max(late, 0))
            task = asyncio.create_task(agents.heartbeat(http, url, nodes[number % len(nodes)]))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        while tasks:
            await asyncio.wait(tasks)


def states(fleet):
    """state -> nodes"""
    with sqlite3.connect(f"file:{fleet.data}/ingot.db?mode=ro", uri=True, timeout=60) as connection:
        found = dict(
            connection.execute("SELECT provision_state, count(*) FROM nodes GROUP BY 1").fetchall()
        )
    connection.close()
    return found


def used(fleet, seconds, work):
    """role -> CPU seconds a second, of `work`"""
    before = cpu.of_roles(fleet.pids())
    began = time.monotonic()
    work()
    took = time.monotonic() - began
    return {
        role: (spent - before[role]) / took for role, spent in cpu.of_roles(fleet.pids()).items()
    }


def needs(fleet):
    """(MiB of the conductor's processes, their threads)"""
    first = fleet.conductor(1)
    known = cpu.processes()
    mine = [pid for pid, each in known.items() if pid == first or each.parent == first]
    memory = threads = 0
    for pid in mine:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "VmRSS":
                memory += int(value.split()[0])
            if name == "Threads":
                threads += int(value)
    return memory / 1024, threads


def report(small, large, after, idle, busy, rate):
    nodes = round(rate * GAP)
    print(f"Load, {nodes} operations in flight that wait for their agents, one conductor:\n")
    print(f"  {'of the conductor':30}{'MiB':>8}{'threads':>10}")
    for name, (memory, threads) in {
        f"{nodes // 10} in flight": small,
        f"{nodes} in flight": large,
        f"{nodes}, after heartbeats": after,
    }.items():
        print(f"  {name:30}{memory:8.0f}{threads:10}")
    print(f"\n  {'% of one core':30}{'quiet':>8}{'heartbeats':>12}{'difference':>12}")
    for role in idle:
        print(f"  {role:30}{idle[role] * 100:8.1f}{busy[role] * 100:12.1f}", end="")
        print(f"{(busy[role] - idle[role]) * 100:12.1f}")
    quiet, all_of_it = sum(idle.values()), sum(busy.values())
    cost = all_of_it - quiet
    print(f"  {'all':30}{quiet * 100:8.1f}{all_of_it * 100:12.1f}{cost * 100:12.1f}")
    floor = floor_of(b"{}")
    print(
        f"\n  A heartbeat ({rate:.0f} a second): {cost / rate * 1000:.2f} ms;"
        f" a ready-made answer: {floor:.2f} ms; ratio {cost / rate * 1000 / floor:.1f}"
    )
