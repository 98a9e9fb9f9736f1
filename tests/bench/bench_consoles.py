"""
Cost of consoles: 200 of them on two conductors, connected, then watched, then busy.

A real `ingot up`, and a BMC of OpenIPMI's simulator for each node. The programs that the conductors
run are ipmitool, as at a site. Each phase costs its difference to the fleet without consoles, of
CPU seconds and of memory; memory is PSS, which counts a page that several processes share once in
all. A busy machine prints 1,000 bytes per second, in ten lines.
"""

import asyncio
import os
import tempfile
import threading
import time
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

from websockets.asyncio.client import connect

from tests.bench import cpu
from tests.bench.bench_idle import pss
from tests.bench.bench_lifecycle import PRODUCTION
from tests.support.fleet import Fleet, until
from tests.support.sol_bmc import SolBmc

CONSOLES = 200
#: Seconds for the work of a change to end, and of a measurement.
SETTLED, MEASURED = 15.0, 30.0
LINES, LINE = 10, b"x" * 98 + b"\r\n"
PATIENCE = 900
PROGRAM = "ipmitool"


def main(nodes):
    count = nodes or CONSOLES
    with ExitStack() as scope:
        folder = Path(scope.enter_context(tempfile.TemporaryDirectory()))
        machines = [scope.enter_context(bmc(folder / f"bmc-{at}")) for at in range(count)]
        settings = {**PRODUCTION, "INGOT_CONSOLE_STREAMS": f"{count + 10}"}
        # new interpreters: they would share their memory with the fork server of the tests
        fleet = scope.enter_context(Fleet(folder, conductors=2, forked=False, **settings))
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        nodes = [enrol(fleet, machine, at) for at, machine in enumerate(machines)]
        print(f"{count} consoles on two conductors, load average {os.getloadavg()[0]:.1f}\n")
        idle_costs = measured(fleet)
        started = time.monotonic()
        enable(fleet, nodes)
        print(f"connected after {time.monotonic() - started:.0f} s\n")
        report("connected", count, idle_costs, measured(fleet))
        with Watchers(fleet, nodes) as watchers:
            report("watched", count, idle_costs, measured(fleet))
            with printing(machines):
                began, documents, size = time.monotonic(), watchers.documents, watchers.size
                costs = measured(fleet)
                divisor = (time.monotonic() - began) * count
                documents, size = watchers.documents - documents, watchers.size - size
            report("watched and busy", count, idle_costs, costs)
            print(
                f"  a watcher got {documents / divisor:.1f} documents,"
                f" {size / divisor:.0f} bytes a second"
            )


@contextmanager
def bmc(folder):
    folder.mkdir()
    with SolBmc(folder) as started:
        yield started


def enrol(fleet, machine, number):
    """Enrol a node with a console; return its UUID, which decides about its conductor."""
    node = str(uuid5(NAMESPACE_OID, f"console {number}"))
    document = {"uuid": node, "driver": "ipmi", "console_interface": "ipmitool-socat"}
    document["driver_info"] = machine.driver_info
    fleet.http.post(f"{fleet.url}/v1/nodes", json=document, timeout=60).raise_for_status()
    return node


def enable(fleet, nodes):
    """Enable consoles, and wait until all are connected."""
    for node in nodes:
        url = f"{fleet.url}/v1/nodes/{node}/states/console"
        fleet.http.put(url, json={"enabled": True}, timeout=60).raise_for_status()
    for node in nodes:
        until(lambda node=node: is_connected(fleet, node), "a connection", PATIENCE, between=1)


def is_connected(fleet, node):
    answer = fleet.http.get(f"{fleet.url}/v1/nodes/{node}/console", timeout=60)
    return answer.ok and "connected" == answer.json()["state"]


def measured(fleet):
    """Process -> (% of a core, PSS MiB): roles of the service, and the programs of consoles."""
    time.sleep(SETTLED)
    members = family(fleet.pids())
    baselines, began = {pid: cpu.of_processes([pid]) for pid in members}, time.monotonic()
    time.sleep(MEASURED)
    took, costs = time.monotonic() - began, {}
    for pid, name in members.items():
        share, memory = costs.get(name, (0.0, 0.0))
        share += (cpu.of_processes([pid]) - baselines[pid]) / took * 100
        costs[name] = share, memory + pss(pid)
    return costs


def family(pids):
    """Pid -> name."""
    roles = {"conductors": pids["conductors"].values(), "api": pids["api"], "redis": pids["redis"]}
    members = {pid: role for role, roots in roles.items() for pid in cpu.family(roots)}
    programs = (pid for pid in members if name_of(pid) == PROGRAM)
    return members | dict.fromkeys(programs, PROGRAM)


def name_of(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


def report(phase, count, idle_costs, costs):
    """Print what a console costs more than none."""
    print(f"  {phase:20}{'CPU ms per s':>14}{'KiB':>10}")
    names = ("conductors", PROGRAM, "api", "redis")
    rows = {name: difference(idle_costs.get(name, (0, 0)), costs[name], count) for name in names}
    rows["all"] = tuple(map(sum, zip(*rows.values(), strict=True)))
    for name, (share, memory) in rows.items():
        print(f"  {name:20}{share:14.3f}{memory:10.0f}")
    print()


def difference(before, after, count):
    """CPU milliseconds per second, and KiB, per console."""
    return (after[0] - before[0]) * 10 / count, (after[1] - before[1]) * 1024 / count


@contextmanager
def printing(machines):
    """Let all machines print."""
    stopped = threading.Event()

    def print_lines():
        while not stopped.wait(1 / LINES):
            for machine in machines:
                machine.prints(LINE)

    thread = threading.Thread(target=print_lines)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


class Watchers:
    """A WebSocket of each node, in a thread. documents, size: number and bytes of their messages."""

    def __init__(self, fleet, nodes):
        self.documents = self.size = self.connected = 0
        self._fleet, self._nodes = fleet, nodes
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch_all()))

    def __enter__(self):
        self._thread.start()
        until(self._is_ready, "the connections of all watchers", PATIENCE)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _is_ready(self):
        assert self._thread.is_alive(), "a watcher has lost its connection"
        return self.connected == len(self._nodes)

    async def _watch_all(self):
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        at_once = asyncio.Semaphore(2)
        tasks = [asyncio.create_task(self._watch(node, at_once)) for node in self._nodes]
        stop = asyncio.create_task(self._stopped.wait())
        for task in (await asyncio.wait([stop, *tasks], return_when="FIRST_COMPLETED"))[0]:
            task.result()

    async def _watch(self, node, at_once):
        async with AsyncExitStack() as scope:
            async with at_once:
                # one address may have few connections
                sender = {"X-Forwarded-For": f"192.0.2.{self._nodes.index(node) % 250}"}
                ticket = await asyncio.to_thread(self._ticket, node)
                opened = connect(
                    ticket["url"],
                    subprotocols=ticket["protocols"],
                    proxy=None,
                    additional_headers=sender,
                )
                socket = await scope.enter_async_context(opened)
            self.connected += 1
            async for text in socket:
                self.documents += 1
                self.size += len(text)

    def _ticket(self, node):
        url = f"{self._fleet.url}/v1/nodes/{node}/console/tickets"
        answer = self._fleet.http.post(url, json={}, timeout=60)
        assert answer.ok, answer.text
        return answer.json()
