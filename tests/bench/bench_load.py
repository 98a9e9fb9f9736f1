"""
Cost of very many operations in flight: 2,000 nodes being cleaned by their agents.

One conductor of a real `ingot up` with its settings for production, SQLite, and fake hardware. The
agents are one small server in this process, whose step never ends, and a loop that sends the
heartbeat of each agent every 30 s: first on a keep-alive connection per agent, then on a new
connection each, as through a proxy that keeps none.

Measured are CPU seconds of the service's processes, with heartbeats and without; and memory, threads
and open files of each role with a tenth of the nodes in flight, with half of them, with all, and
after minutes with all. The floor of the heartbeat is the same requests at the same pace to a Flask
view under the same server that answers without reading them. At the end, a few more nodes run a step
that ends: the delay is the time from its end until the node is available.
"""

import asyncio
import multiprocessing
import signal
import socket
import sqlite3
import statistics
import tempfile
import threading
import time
import uuid
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from flask import Flask, Response
from granian.constants import Interfaces
from granian.http import HTTP1Settings
from granian.server.mp import MPServer

from drivers.simulator.server import Server
from drivers.simulator.server import json as answer
from tests.bench import cpu
from tests.bench.bench_lifecycle import PRODUCTION
from tests.support.fleet import Fleet, until
from tests.support.ports import free_port

#: Nodes in flight without `--nodes`, and seconds between an agent's heartbeats.
NODES, GAP = 2000, 30.0
#: Seconds of each measurement, without and with heartbeats.
WATCHED = 120.0
#: Nodes that are cleaned at the end, and seconds that their step takes.
QUICK, STEP_SECONDS = 20, 2.0
SETTINGS = {
    **PRODUCTION,
    "INGOT_CONDUCTOR_MAX_CONCURRENT_CLEAN": "100000",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "0",
    "INGOT_AGENT_REQUIRE_TLS": "false",
}
VERSION = {"X-OpenStack-Ironic-API-Version": "1.96"}
STEP = {"interface": "deploy", "step": "scrub", "priority": 10, "abortable": True}


@dataclass
class Needs:
    """Resources of the processes of a role."""

    memory: float  # MiB
    threads: int
    files: int  # open files


@dataclass
class Measured:
    """Results; `kept` says whether the agents keep their connections."""

    needs: dict = field(default_factory=dict)  # moment -> role -> Needs
    idle: dict = field(default_factory=dict)  # role -> CPU seconds per second without heartbeats
    busy: dict = field(default_factory=dict)  # kept -> role -> CPU seconds per second with them
    floor: dict = field(default_factory=dict)  # kept -> CPU seconds per second of the floor
    looks: float = 0  # polls of agents per second
    delays: list = field(default_factory=list)  # seconds from the end of a step to `available`


class Agents:
    """All agents, at one address: the path has the node."""

    def __init__(self, nodes, quick=()):
        self._commands = {node: [] for node in (*nodes, *quick)}
        self._quick = frozenset(quick)
        self.ends = {}  # one of the `quick` nodes -> monotonic time at which its step ends
        self.tokens = {}
        self.refused = 0  # heartbeats
        self.looks = 0  # polls by the service

    def handle(self, request):
        node = request.path.split("/")[1]
        commands = self._commands[node]
        if request.method == "GET":
            self.looks += 1
            if time.monotonic() > self.ends.get(node, float("inf")):
                commands[-1]["command_status"] = "SUCCEEDED"
            return answer({"commands": commands})
        order = request.json()
        is_query = order["name"] == "clean.get_clean_steps"
        step = order["params"].get("step")
        listed = {"clean_steps": {"m": [STEP]}, "hardware_manager_version": {"m": "1"}}
        commands.append(
            {
                "id": f"{node}-{len(commands)}",
                "command_name": order["name"].partition(".")[2],
                "command_status": "SUCCEEDED" if is_query else "RUNNING",
                "command_error": None,
                "command_result": listed if is_query else {"clean_step": step} if step else None,
            }
        )
        if step and node in self._quick:
            self.ends[node] = time.monotonic() + STEP_SECONDS
        return answer(commands[-1])

    def at_work(self):
        """Number of agents that run their step."""
        return sum(
            any(command["command_status"] == "RUNNING" for command in commands)
            for node, commands in list(self._commands.items())
            if node not in self._quick
        )

    async def announce_all(self, url, nodes):
        async with client() as http:
            await in_turns(lambda node: self.announce(http, url, node), nodes)

    async def announce(self, http, url, node):
        async with http.get(f"{url}/v1/lookup", params={"node_uuid": node}) as response:
            answer = await response.json()
            self.tokens[node] = answer["config"]["agent_token"]
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
    """Serve the agents on an event loop of their own; yield a function that runs a coroutine there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = Server()

    def run(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(300)

    agents.port = run(server.listen("127.0.0.1", 0, agents.handle))
    try:
        yield run
    finally:
        run(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def main(nodes):
    with tempfile.TemporaryDirectory() as folder:
        nodes = nodes or NODES
        report(nodes, measure(folder, nodes, WATCHED, QUICK))


def measure(folder, nodes, seconds, quick):
    with Fleet(folder, conductors=1, **SETTINGS) as fleet, deaf() as (url, pid):
        uuids = fill(fleet, nodes + quick)
        uuids, late = uuids[:nodes], uuids[nodes:]
        agents, result = Agents(uuids, late), Measured()
        with serving(agents) as run:
            few, half = nodes // 10, nodes // 2
            for start, end in ((0, few), (few, half), (half, nodes)):
                bring(fleet, agents, run, uuids[start:end])
                result.needs[f"{end} in flight"] = needs(fleet)
            assert nodes == states(fleet)["clean wait"]
            looks, began = agents.looks, time.monotonic()
            result.idle = used(fleet, seconds, lambda: time.sleep(seconds))
            result.looks = (agents.looks - looks) / (time.monotonic() - began)
            for reuse in (True, False):
                with calling(agents, run, fleet.url, uuids, reuse) as call:
                    result.busy[reuse] = used(fleet, seconds, lambda call=call: call(seconds))
                    if reuse:
                        result.needs[f"{nodes} whose agents called"] = needs(fleet)
            assert nodes == states(fleet)["clean wait"]
            result.delays = delays(fleet, agents, run, late)
            for reuse in (True, False):
                with calling(agents, run, url, uuids, reuse) as call:
                    baseline = cpu.of_trees([pid])
                    call(seconds)
                    result.floor[reuse] = (cpu.of_trees([pid]) - baseline) / seconds
            assert 0 == agents.refused
    return result


@contextmanager
def deaf():
    """Serve a floor that answers heartbeats without reading them: (its URL, its pid)."""
    port = free_port()
    child = multiprocessing.get_context("fork").Process(target=answer_all, args=(port,))
    child.start()
    try:
        until(lambda: is_open(port), "the floor's server")
        yield f"http://127.0.0.1:{port}", child.pid
    finally:
        child.terminate()
        child.join()


def answer_all(port):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    app = Flask("floor")
    app.add_url_rule(
        "/v1/heartbeat/<node>", methods=["POST"], view_func=lambda node: Response(b"", 202)
    )
    server = MPServer(
        "floor", "127.0.0.1", port, interface=Interfaces.WSGI, workers=1, log_enabled=False,
        backpressure=10000, blocking_threads=2, http1_settings=HTTP1Settings(header_read_timeout=200_000),
    )  # fmt: skip
    server.serve(target_loader=lambda: app, wrap_loader=False)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def delays(fleet, agents, run, nodes):
    """Clean nodes with a step that ends; return the seconds from its end until each is available."""
    fleet.provision(nodes, "provide")
    until(lambda: states(fleet, nodes) == {"clean wait": len(nodes)}, "waiting", between=0.5)
    run(agents.announce_all(fleet.url, nodes))
    available = {}

    def all_available():
        for node, state in state_of(fleet, nodes).items():
            if state == "available":
                available.setdefault(node, time.monotonic())
        return len(available) == len(nodes)

    until(all_available, "available", 300, between=0.1)
    return sorted(available[node] - agents.ends[node] for node in nodes)


def fill(fleet, count):
    """Create that many manageable nodes; return their UUIDs."""
    source = fleet.create_nodes(1, deploy_interface="direct")[0]
    uuids = [source, *(str(uuid.uuid4()) for _ in range(count - 1))]
    with sqlite3.connect(f"{fleet.data}/ingot.db", timeout=60) as connection:
        connection.execute("UPDATE nodes SET provision_state = 'manageable'")
        columns = [row[1] for row in connection.execute("PRAGMA table_info(nodes)")]
        names = ", ".join(name for name in columns if name not in ("id", "uuid", "name"))
        connection.executemany(
            f"INSERT INTO nodes (uuid, {names}) SELECT ?, {names} FROM nodes WHERE uuid = '{source}'",
            ((node,) for node in uuids[1:]),
        )
    connection.close()
    return uuids


def bring(fleet, agents, run, nodes):
    """Start the cleaning of nodes, and wait until the agent of each runs its step."""
    total = agents.at_work() + len(nodes)
    fleet.provision(nodes, "provide")
    until(lambda: states(fleet).get("clean wait", 0) == total, "waiting", 600, between=1)
    run(agents.announce_all(fleet.url, nodes))
    until(lambda: agents.at_work() == total, "all agents at work", 600, between=1)
    until(lambda: states(fleet).get("clean wait", 0) == total, "waiting", 600, between=1)


def client(**options):
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(**(options or {"force_close": True, "limit": 8})),
        timeout=aiohttp.ClientTimeout(total=120), headers=VERSION,
    )  # fmt: skip


async def in_turns(work, items, lanes=8):
    waiting = deque(items)

    async def lane():
        while waiting:
            await work(waiting.popleft())

    await asyncio.gather(*(lane() for _ in range(lanes)))


@contextmanager
def calling(agents, run, url, nodes, reuse):
    """
    Yield a function that sends each agent's heartbeat every `GAP` seconds, evenly spread, for a time.

    reuse: each agent keeps its connection, which is already open.
    """

    async def connect():
        if not reuse:
            return dict.fromkeys(nodes, client(force_close=True, limit=0))
        clients = {node: client(limit=1, keepalive_timeout=3600) for node in nodes}
        await in_turns(lambda node: agents.heartbeat(clients[node], url, node), nodes, 32)
        return clients

    async def beat(seconds):
        began, tasks = time.monotonic(), []
        for number in range(int(len(nodes) * seconds / GAP)):
            late = began + number * GAP / len(nodes) - time.monotonic()
            await asyncio.sleep(max(late, 0))
            node = nodes[number % len(nodes)]
            tasks.append(asyncio.create_task(agents.heartbeat(sessions[node], url, node)))
        await asyncio.gather(*tasks)

    async def close():
        for session in sessions.values():
            await session.close()

    sessions = run(connect())
    try:
        yield lambda seconds: run(beat(seconds))
    finally:
        run(close())


def state_of(fleet, nodes=None):
    """Return node -> provision state, of these nodes or of all."""
    with sqlite3.connect(f"file:{fleet.data}/ingot.db?mode=ro", uri=True, timeout=60) as connection:
        provision_states = dict(
            connection.execute("SELECT uuid, provision_state FROM nodes").fetchall()
        )
    connection.close()
    return provision_states if nodes is None else {node: provision_states[node] for node in nodes}


def states(fleet, nodes=None):
    """Return provision state -> number of these nodes, or of all."""
    return Counter(state_of(fleet, nodes).values())


def used(fleet, seconds, work):
    """Return role -> CPU seconds per second, during `work`."""
    baselines = cpu.of_roles(fleet.pids())
    began = time.monotonic()
    work()
    took = time.monotonic() - began
    return {
        role: (spent - baselines[role]) / took for role, spent in cpu.of_roles(fleet.pids()).items()
    }


def needs(fleet):
    """role -> Needs"""
    pids, processes = fleet.pids(), cpu.processes()
    roots = {
        "conductor": [fleet.conductor(1)], "api": pids["api"], "beat": pids["beat"],
        "redis": pids["redis"],
    }  # fmt: skip
    return {
        role: of_processes(
            pid for pid, process in processes.items() if pid in roots or process.parent in roots
        )
        for role, roots in roots.items()
    }


def of_processes(pids):
    total = Needs(0, 0, 0)
    for pid in pids:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        total.memory += int(status["VmRSS"].split()[0]) / 1024
        total.threads += int(status["Threads"])
        total.files += len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return total


def report(nodes, result):
    print(f"Load, {nodes} operations in flight that wait for their agents, one conductor:\n")
    roles = next(iter(result.needs.values()))
    print(f"  {'MiB, threads, open files':26}" + "".join(f"{role:>18}" for role in roles))
    for point, needed in result.needs.items():
        cells = (f"{need.memory:.0f}, {need.threads}, {need.files}" for need in needed.values())
        print(f"  {point:26}" + "".join(f"{cell:>18}" for cell in cells))
    kept_shares, new_shares = result.busy[True], result.busy[False]
    print(f"\n  {'% of one core':26}{'quiet':>10}{'heartbeats':>12}{'on new connections':>20}")
    spent = [
        *((role, result.idle[role], kept_shares[role], new_shares[role]) for role in result.idle)
    ]
    spent.append(
        ("all", *(sum(shares.values()) for shares in (result.idle, kept_shares, new_shares)))
    )
    for role, *parts in spent:
        quiet, usual, other = (part * 100 for part in parts)
        print(f"  {role:26}{quiet:10.1f}{usual:12.1f}{other:20.1f}")
    quiet, rate = spent[-1][1], nodes / GAP
    print()
    for kind, busy in (("its agent's", True), ("a new", False)):
        cost = sum(result.busy[busy].values()) - quiet
        print(
            f"  A heartbeat on {kind} connection ({rate:.0f} a second): {cost * 100:.1f} % of a"
            f" core, {cost / rate * 1000:.2f} ms each; answered by Flask without reading it:"
            f" {result.floor[busy] / rate * 1000:.2f} ms; ratio {cost / result.floor[busy]:.1f}"
        )
    print(f"  Agents were polled {result.looks:.0f} times a second.")
    print(
        f"  From the end of a step of {STEP_SECONDS:g} s until its node was available: median"
        f" {statistics.median(result.delays):.1f} s, longest {result.delays[-1]:.1f} s,"
        f" of {len(result.delays)}."
    )
