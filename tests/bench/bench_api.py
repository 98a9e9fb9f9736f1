"""
What a request costs: CPU of the API's processes, and requests per second of one client.

Measured on a real `ingot up` with SQLite and 1,000 nodes, and on one with 100,000. Beside each figure
stand two floors: a Flask view under the same server that returns the same bytes ready-made, and the
bare SQL read of the rows plus the JSON encoder; with `--ironic` also Ironic with the same nodes. They
take turns, a quarter of a second each, and the lower quartile of each is told, so that what else the
machine does at the time falls on all of them. Heartbeats come from as many agents at once as are
recorded together; Ironic's one by one.
"""

import http.client
import itertools
import json
import multiprocessing
import signal
import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import orjson
from flask import Flask, Response
from granian.constants import Interfaces
from granian.server.mp import MPServer

from app.api.heartbeats import MOST
from tests.bench import cpu
from tests.compare.ironic import Ironic
from tests.support.fleet import Fleet, until
from tests.support.ports import free_port

VERSION = {"X-OpenStack-Ironic-API-Version": "1.115"}
PAGE = 1000
KNOWN = str(uuid.uuid5(uuid.NAMESPACE_OID, "a node"))
MAC = "52:54:00:00:00:01"
#: The service with so many nodes -> how many.
SMALL, LARGE = "1,000", "100,000"
NODES = {SMALL: PAGE, LARGE: 100_000, "Ironic": PAGE}
#: Nodes that are written at once.
BATCH = 2000
#: Each is measured so many times, for about so many seconds.
ROUNDS, ROUND = 12, 0.25
READS = {
    "list of 1,000": f"/v1/nodes?limit={PAGE}",
    "detail of 1,000": f"/v1/nodes/detail?limit={PAGE}",
    "one node": f"/v1/nodes/{KNOWN}",
}
_SHORT = "uuid, name, instance_uuid, power_state, provision_state, maintenance"
COLUMNS = {
    "list of 1,000": (_SHORT, PAGE),
    "detail of 1,000": ("*", PAGE),
    "one node": ("*", 1),
}
WRITES = ("PATCH", "POST")
OF_AGENTS = ("lookup", "heartbeat")
#: CPU ms per request that we want to stay under
TARGETS = {
    "list of 1,000": 15.0, "detail of 1,000": 25.0, "one node": 1.5, "PATCH": 4.0,
    "heartbeat": 2.0,
}  # fmt: skip
#: A node as racks have them: documents of some size, and an agent's token among them.
BODY = {
    "driver": "fake-hardware",
    "resource_class": "baremetal",
    "properties": {"cpu_arch": "x86_64", "cpus": 64, "memory_mb": 262144, "local_gb": 960},
    "driver_info": {"redfish_address": "https://bmc.example", "redfish_password": "secret"},
    "extra": {"rack": "r17", "unit": 21, "asset": "A-1234567"},
    "description": "A server in the third row",
}
#: What differs from node to node: column -> how it is made of that of the first node.
VARIED = {
    "driver_info": "replace(driver_info, 'bmc.example', 'bmc-' || :number || '.example')",
    "extra": "replace(extra, 'A-1234567', 'A-' || :number)",
    "provision_state": ":state",
    "power_state": "'power on'",
    "provision_updated_at": "created_at",
    "updated_at": "created_at",
}
STATES = ("enroll", "manageable", "available", "active", "active", "active")
QUIET = {
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "86400",
    "INGOT_API_RESTRICT_LOOKUP": "false",
    "INGOT_API_API_WORKERS": "1",
}


class Client:
    """One connection that stays open."""

    def __init__(self, url):
        where = urlsplit(url)
        self._connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)

    def renew(self):
        """Forget the connection: the server may have closed it meanwhile."""
        self._connection.close()

    def ask(self, method, path, body=None, status=200):
        """The bytes of an answer, which must have this status."""
        headers = VERSION | ({"Content-Type": "application/json"} if body is not None else {})
        data = None if body is None else orjson.dumps(body)
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert status == answer.status, content[:500]
        return content


class Crowd:
    """So many clients that ask for the same at once."""

    def __init__(self, url, at_once, *asked):
        self._asks = [partial(Client(url).ask, *asked) for _ in range(at_once)]
        self._pool = ThreadPoolExecutor(at_once)
        self.at_once = at_once

    def __call__(self):
        for done in [self._pool.submit(ask) for ask in self._asks]:
            done.result()


@dataclass(frozen=True, eq=False)
class Subject:
    """
    What is measured: used gives its CPU seconds so far, asks has how a request of a name is made.

    url, client, database: of a service.
    """

    name: str
    used: Callable[[], float]
    asks: dict[str, Callable[[], object]]
    url: str = ""
    client: Client | None = None
    database: str = ""


@dataclass(frozen=True)
class Cost:
    """Of one request: ms of CPU, and ms until it was answered."""

    used: float
    took: float


def main(_nodes, *, ironic=False):
    with ExitStack() as started:
        folder = Path(started.enter_context(tempfile.TemporaryDirectory()))
        small, large = (started.enter_context(ours(folder / name, name)) for name in (SMALL, LARGE))
        services = [small, *([started.enter_context(theirs(folder))] if ironic else [])]
        for each in (large, *services):
            fill(each, NODES[each.name])
        contents = {name: small.client.ask("GET", path) for name, path in READS.items()}
        floors = started.enter_context(ready_made(contents)), bare(small.database)
        for each in (large, *services):
            each.client.renew()
        results = measure((*services, large, *floors), READS)
        results |= measure(services, WRITES)
        for each in services:
            each.asks.update(of_agent(each))
        results |= measure(services, OF_AGENTS)
    report(results)


@contextmanager
def ours(folder, name):
    folder.mkdir()
    with Fleet(folder, conductors=1, **QUIET) as fleet:
        yield service(name, fleet.url, fleet.pids()["api"], f"{fleet.data}/ingot.db")


@contextmanager
def theirs(folder):
    """Ironic. Its API and its conductor are one process; for a change, both have to work."""
    with Ironic(folder) as running:
        yield service("Ironic", running.url, [running.pid], f"{folder}/ironic/ironic.db")


def service(name, url, roots, database):
    client, numbers = Client(url), itertools.count()

    def patch():
        change = {"op": "add", "path": "/extra/number", "value": next(numbers)}
        client.ask("PATCH", READS["one node"], [change])

    asks = {name: partial(client.ask, "GET", path) for name, path in READS.items()} | {
        "PATCH": patch,
        "POST": lambda: client.ask("POST", "/v1/nodes", BODY, 201),
    }
    return Subject(name, partial(cpu.of_processes, cpu.family(roots)), asks, url, client, database)


def fill(service, wanted):
    """Enroll a node, and copy it, with what differs within a rack, until there are `wanted`."""
    service.client.ask("POST", "/v1/nodes", BODY | {"uuid": KNOWN, "name": "node-0"}, 201)
    connection = sqlite3.connect(service.database, timeout=60)
    told = {"uuid": ":uuid", "name": "'node-' || :number", **VARIED}
    columns = [row[1] for row in connection.execute("PRAGMA table_info(nodes)")]
    kept = [name for name in columns if name not in ("id", *told)]
    copy = (
        f"INSERT INTO nodes ({', '.join([*told, *kept])})"
        f" SELECT {', '.join([*told.values(), *kept])} FROM nodes WHERE uuid = '{KNOWN}'"
    )
    for start in range(1, wanted, BATCH):
        with connection:  # of its own each: the service writes, too
            connection.executemany(
                copy,
                (
                    {"uuid": str(uuid.uuid4()), "number": each, "state": STATES[each % len(STATES)]}
                    for each in range(start, min(start + BATCH, wanted))
                ),
            )
    with connection:
        connection.execute("ANALYZE")
    connection.close()


def of_agent(service):
    """The requests of the agent that the known node waits for. It has a token."""
    with sqlite3.connect(service.database, timeout=60) as connection:
        connection.execute(
            f"UPDATE nodes SET provision_state = 'wait call-back' WHERE uuid = '{KNOWN}'"
        )
    connection.close()
    client = service.client
    client.ask("POST", "/v1/ports", {"node_uuid": KNOWN, "address": MAC}, 201)
    look_up = partial(client.ask, "GET", f"/v1/lookup?addresses={MAC}&node_uuid={KNOWN}")
    sign = {
        "callback_url": "https://127.0.0.1:9999",
        "agent_token": json.loads(look_up())["config"]["agent_token"],
        "agent_version": "11.0",
    }
    agents = 1 if service.name == "Ironic" else MOST
    asked = "POST", f"/v1/heartbeat/{KNOWN}", sign, 202
    return {"lookup": look_up, "heartbeat": Crowd(service.url, agents, *asked)}


def measure(subjects, names):
    """(request, subject) -> Cost, the lower quartile of rounds in which subjects take turns."""
    results = {}
    for name in names:
        rounds = {}
        for each in subjects:
            ask = each.asks[name]
            ask()
            took = cost(each, name, 2).took * at_once(ask)
            rounds[each] = max(round(ROUND * 1000 / took), 1), []
        for _ in range(ROUNDS):
            for each, (times, costs) in rounds.items():
                costs.append(cost(each, name, times))
        for each, (_, costs) in rounds.items():
            used, took = (
                statistics.quantiles(values, n=4)[0]
                for values in ([one.used for one in costs], [one.took for one in costs])
            )
            results[name, each.name] = Cost(used, took)
    return results


def at_once(ask):
    """How many requests it makes."""
    return getattr(ask, "at_once", 1)


def cost(subject, name, times):
    ask = subject.asks[name]
    count = times * at_once(ask)
    used, began = subject.used(), time.monotonic()
    for _ in range(times):
        ask()
    took = time.monotonic() - began
    return Cost((subject.used() - used) / count * 1000, took / count * 1000)


def floor_of(content):
    """CPU ms of a Flask view that has the bytes ready, under the same server."""
    with ready_made({"it": content}) as subject:
        return measure((subject,), ("it",))["it", subject.name].used


@contextmanager
def ready_made(contents):
    """A server that has the answers to requests of these names as bytes."""
    port = free_port()
    child = multiprocessing.get_context("fork").Process(target=serve, args=(contents, port))
    child.start()
    try:
        client = Client(f"http://127.0.0.1:{port}")
        asks = {
            name: partial(client.ask, "GET", f"/{number}") for number, name in enumerate(contents)
        }
        until(lambda: answers(client), "the floor's server")
        yield Subject("ready-made", partial(cpu.of_processes, cpu.family([child.pid])), asks)
    finally:
        child.terminate()
        child.join()


def answers(client):
    try:
        return client.ask("GET", "/0")
    except (OSError, http.client.HTTPException):
        client.renew()
        return None


def serve(contents, port):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    app = Flask("floor")
    ready = list(contents.values())
    app.add_url_rule(
        "/<int:number>",
        view_func=lambda number: Response(ready[number], content_type="application/json"),
    )
    server = MPServer(
        "floor", "127.0.0.1", port, interface=Interfaces.WSGI, workers=1, log_enabled=False
    )
    server.serve(target_loader=lambda: app, wrap_loader=False)


def bare(database):
    """Reading the rows with the database's own module, and encoding them."""

    def read(columns, limit):
        with closing(sqlite3.connect(database)) as connection:
            connection.row_factory = sqlite3.Row
            rows = connection.execute(f"SELECT {columns} FROM nodes ORDER BY id LIMIT {limit}")
            orjson.dumps([dict(row) for row in rows])

    asks = {name: partial(read, *what) for name, what in COLUMNS.items()}
    return Subject("bare SQL", time.process_time, asks)


def report(results):
    columns = ("ready-made", "bare SQL", SMALL, LARGE, "Ironic")
    print(f"  {'CPU ms per request':20}{''.join(f'{each:>12}' for each in columns)}", end="")
    print(f"{'times':>8}{'target':>8}{'per s':>8}")
    for name in (*READS, *WRITES, *OF_AGENTS):
        found = [results.get((name, each)) for each in columns]
        small, other = results[name, SMALL], results.get((name, "Ironic"))
        told = [f"{each.used:12.2f}" if each else " " * 12 for each in found]
        times = f"{other.used / small.used:8.0f}" if other else " " * 8
        target = f"{TARGETS[name]:8.1f}" if name in TARGETS else " " * 8
        print(f"  {name:20}{''.join(told)}{times}{target}{1000 / small.took:8.0f}")
