"""
The API under attack: an operator's node lists and agents' heartbeats, while other hosts attack.

A real `ingot up` with its default settings, http_basic and SQLite. The operator reads the list of
all nodes again and again; 500 agents send heartbeats. Measured are the latencies of the lists:
quiet, with the agents, with the agents and each of `tests.bench.attacks`, and with all of them at
once. Operator, agents and each kind of attackers have an address of their own. A node is in
inspection, so that reports are read.

The service has all processors but the last one, the operator and the crowds have that one. The
operator's own latency grows with the processor time of the crowds, even if the service answers at
once; the last measurement has that floor: processes that compute as much as all crowds, and send
nothing.
"""

import gc
import http.client
import json
import os
import sqlite3
import statistics
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import bcrypt

from tests.bench import cpu
from tests.bench.attacks import ATTACKS, basic
from tests.bench.bench_lifecycle import PRODUCTION
from tests.bench.bench_load import fill
from tests.bench.crowd import (
    Crowd,
    Site,
    Tally,
    body_of,
    computing,
    connected,
    head,
    running,
    status_of,
)
from tests.support.fleet import Fleet

#: Nodes in the list, agents, and seconds between two heartbeats of an agent.
NODES, AGENTS, GAP = 1000, 500, 10.0
#: Seconds of each measurement, and of the one with all attacks.
SECONDS, LONGER = 10.0, 30.0
#: Address of the operator; its connections, and seconds between two of its lists.
OPERATOR, CONNECTIONS, BETWEEN = "127.0.0.2", 8, 0.02
#: User -> password. The tenant sends the long polls.
ACCOUNTS = {"operator": "sesame", "tenant": "open"}
QUIET, WITH_AGENTS, ALL, FLOOR = "quiet", "agents only", "all at once", "no requests"
SETTINGS = {
    **PRODUCTION,
    "INGOT_AGENT_REQUIRE_TLS": "false",
    "INGOT_API_RESTRICT_LOOKUP": "false",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "0",
    "INGOT_AUTH_STRATEGY": "http_basic",
}


@dataclass
class Measured:
    """Measurement with some crowds."""

    lists: list[float]  # seconds
    tallies: dict[str, Tally]  # by name of the crowd
    seconds: float
    served: float  # seconds of CPU time of the API's processes

    @property
    def p50(self):
        return statistics.median(self.lists)

    @property
    def p99(self):
        return statistics.quantiles(self.lists, n=100)[98]


async def heartbeat(site, source, number):
    """Send the heartbeat of one agent after the other."""
    node, token = site.tokens[number % len(site.tokens)]
    sign = {"callback_url": "http://192.0.2.1:9999", "agent_token": token, "agent_version": "13"}
    body = json.dumps(sign).encode()
    async with connected(site, source) as (reader, writer):
        writer.write(head("POST", f"/v1/heartbeat/{node}", *body_of(len(body))) + body)
        return await status_of(reader)


def main(nodes):
    *cores, mine = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores or [mine])  # of this process, and of those that it starts
    with tempfile.TemporaryDirectory() as folder, site(folder, nodes or NODES, AGENTS) as target:
        os.sched_setaffinity(0, [mine])
        report(measure(target, SECONDS, LONGER))


@contextmanager
def site(folder, nodes, agents):
    """Start the service, with nodes and the agents of some; yield its `Site`."""
    htpasswd = Path(folder) / "htpasswd"
    hashes = {
        user: bcrypt.hashpw(password.encode(), bcrypt.gensalt(10)).decode()
        for user, password in ACCOUNTS.items()
    }
    htpasswd.write_text("".join(f"{user}:{digest}\n" for user, digest in hashes.items()))
    settings = {**SETTINGS, "INGOT_HTTP_BASIC_AUTH_USER_FILE": str(htpasswd)}
    with Fleet(folder, conductors=1, **settings) as fleet:
        fleet.http.auth = ("operator", ACCOUNTS["operator"])
        uuids = fill(fleet, nodes)
        with sqlite3.connect(f"{fleet.data}/ingot.db", timeout=60) as connection:
            connection.execute("UPDATE nodes SET provision_state = 'wait call-back'")
            statement = "UPDATE nodes SET provision_state = 'inspect wait' WHERE uuid = ?"
            connection.execute(statement, (uuids[-1],))
        connection.close()
        tokens = tuple(
            (node, fleet.get("lookup", node_uuid=node)["config"]["agent_token"])
            for node in uuids[:agents]
        )
        port = int(fleet.url.rpartition(":")[2])
        yield Site(port, uuids[0], ("tenant", ACCOUNTS["tenant"]), tokens, fleet.pids()["api"])


def measure(site, seconds, longer, attacks=ATTACKS, parts=None):
    """Return name -> Measured; parts: names, None: all."""
    agents = {"agents": Crowd(heartbeat, len(site.tokens), "127.0.0.3", GAP)}
    plan = {
        QUIET: ({}, longer),
        WITH_AGENTS: (agents, seconds),
        **{name: ({**agents, name: attack}, seconds) for name, attack in attacks.items()},
        ALL: ({**agents, **attacks}, longer),
    }
    with operating(site) as lists:
        lists(1.0)  # passwords are checked once per process
        results = {
            name: _measured(site, lists, *phase)
            for name, phase in plan.items()
            if not parts or name in parts
        }
        results[FLOOR] = _without_requests(lists, results[ALL])
        return results


def _measured(site, lists, crowds, seconds):
    with ExitStack() as started:
        tallies = {
            name: started.enter_context(running(crowd, site)) for name, crowd in crowds.items()
        }
        lists(1.0)  # until the crowds have begun
        baseline = cpu.of_trees(site.servers)
        durations = lists(seconds)
        served = cpu.of_trees(site.servers) - baseline
    return Measured(durations, tallies, seconds, served)


def _without_requests(lists, attacked):
    """Measure lists beside processes that use as much CPU time as the crowds of `attacked`."""
    seconds = attacked.seconds
    with ExitStack() as started:
        for tally in attacked.tallies.values():
            started.enter_context(computing(tally.cpu / (seconds + 1)))
        lists(1.0)
        return Measured(lists(seconds), {}, seconds, 0.0)


@contextmanager
def operating(site):
    """Yield a function that reads lists for some seconds, and returns how long each took."""
    user = basic("operator", ACCOUNTS["operator"]).partition(": ")[2]
    headers = {"Authorization": user, "X-OpenStack-Ironic-API-Version": "1.96"}
    connections = [
        http.client.HTTPConnection("127.0.0.1", site.port, timeout=60, source_address=(OPERATOR, 0))
        for _ in range(CONNECTIONS)
    ]
    turns = cycle(connections)

    def lists(seconds):
        took, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            connection, began = next(turns), time.perf_counter()
            connection.request("GET", "/v1/nodes", headers=headers)
            with connection.getresponse() as answer:
                answer.read()
            took.append(time.perf_counter() - began)
            assert 200 == answer.status, answer.status
            time.sleep(BETWEEN)
        return took

    gc.disable()
    try:
        yield lists
    finally:
        gc.enable()
        for connection in connections:
            connection.close()


def report(results):
    quiet = results[QUIET]
    print(f"Under attack, SQLite, load average {os.getloadavg()[0]:.1f}:\n")
    print(
        f"  {'':18}{'lists':>7}{'p50 ms':>8}{'p99 ms':>8}{'max ms':>8}{'p99, times quiet':>18}"
        f"{'API CPU %':>11}{'crowds CPU %':>14}{'heartbeats':>12}{'refused':>9}   attackers"
    )
    for name, result in results.items():
        times = [part * 1000 for part in (result.p50, result.p99, max(result.lists))]
        used = [result.served, sum(tally.cpu for tally in result.tallies.values())]
        shares = [part * 100 / result.seconds for part in used]
        agents = result.tallies.pop("agents", Tally()).statuses
        print(
            f"  {name:18}{len(result.lists):7}"
            + "".join(f"{part:8.1f}" for part in times)
            + f"{result.p99 / quiet.p99:18.1f}{shares[0]:11.0f}{shares[1]:14.0f}"
            f"{agents['202']:12}{agents.total() - agents['202']:9}   "
            + "; ".join(_told(tally) for tally in result.tallies.values())
        )


def _told(tally):
    counts = (f"{number} {status}" for status, number in sorted(tally.statuses.items()))
    return ", ".join((*counts, f"{tally.pending} pending"))
