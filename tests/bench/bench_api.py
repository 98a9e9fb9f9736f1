"""
Cost of a request: CPU of the API's processes, and requests per second of one client.

Measured on a real `ingot up` with 1,000 nodes on SQLite, on one with as many on PostgreSQL (the CPU
of its server included), and on one with 100,000 on SQLite. Each figure is compared with two floors: a
Flask view under the same server that returns the same bytes ready-made, and the bare SQL read of the
rows plus the JSON encoder; with `--ironic` also with Ironic and the same nodes. Reads on PostgreSQL are
compared with those on SQLite, and with the floor of that ratio: the same request whose statement is
executed by psycopg alone instead of `sqlite3` alone. The subjects take turns
of a quarter of a second, and the report has the lower quartile of each, so that other load of the
machine affects all of them. As many agents send heartbeats concurrently as one transaction records;
Ironic receives them one by one.
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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import psycopg
from flask import Flask, Response
from granian.constants import Interfaces
from granian.server.mp import MPServer
from sqlalchemy import create_engine, inspect, text

from app.api.agent.heartbeat_fast_path import MOST
from app.api.node import node_query
from app.models import Node
from tests.bench import cpu
from tests.compare.ironic import Ironic
from tests.support import postgresql
from tests.support.fleet import Fleet, until
from tests.support.ports import free_port

VERSION = {"X-OpenStack-Ironic-API-Version": "1.115"}
PAGE = 1000
KNOWN = str(uuid.uuid5(uuid.NAMESPACE_OID, "a node"))
MAC = "52:54:00:00:00:01"
#: Services, and their numbers of nodes.
SMALL, OTHER, LARGE = "SQLite", "PostgreSQL", "100,000"
NODES = {SMALL: PAGE, OTHER: PAGE, LARGE: 100_000, "Ironic": PAGE}
#: Nodes per INSERT.
BATCH = 2000
#: Rounds per subject, and seconds per round.
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
#: Target of CPU ms per request.
TARGETS = {
    "list of 1,000": 15.0, "detail of 1,000": 25.0, "one node": 1.5, "PATCH": 4.0,
    "heartbeat": 2.0,
}  # fmt: skip
#: A typical node: documents of some size, and the agent's token.
BODY = {
    "driver": "fake-hardware",
    "resource_class": "baremetal",
    "properties": {"cpu_arch": "x86_64", "cpus": 64, "memory_mb": 262144, "local_gb": 960},
    "driver_info": {"redfish_address": "https://bmc.example", "redfish_password": "secret"},
    "extra": {"rack": "r17", "unit": 21, "asset": "A-1234567"},
    "description": "A server in the third row",
}
#: Columns that differ from node to node -> SQL expression over the first node's value.
VARIED = {
    "driver_info": "replace(CAST(driver_info AS TEXT), 'bmc.example', 'bmc-' || :number || '.example')",
    "extra": "replace(CAST(extra AS TEXT), 'A-1234567', 'A-' || :number)",
    "provision_state": ":state",
    "power_state": "'power on'",
    "provision_updated_at": "created_at",
    "updated_at": "created_at",
}
#: Those of them that are JSON.
DOCUMENTS = ("driver_info", "extra")
STATES = ("enroll", "manageable", "available", "active", "active", "active")
QUIET = {
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "86400",
    "INGOT_API_RESTRICT_LOOKUP": "false",
    "INGOT_API_API_WORKERS": "1",
}


class Client:
    """One keep-alive connection."""

    def __init__(self, url):
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)

    def renew(self):
        """Reconnect: the server may have closed the connection."""
        self._connection.close()

    def ask(self, method, path, body=None, status=200):
        """Send a request; return the body of its response, which must have this status."""
        headers = VERSION | ({"Content-Type": "application/json"} if body is not None else {})
        data = None if body is None else orjson.dumps(body)
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert status == answer.status, content[:500]
        return content


class Crowd:
    """Clients that send the same request concurrently."""

    def __init__(self, url, at_once, *request):
        self._asks = [partial(Client(url).ask, *request) for _ in range(at_once)]
        self._pool = ThreadPoolExecutor(at_once)
        self.at_once = at_once

    def __call__(self):
        for answer in [self._pool.submit(ask) for ask in self._asks]:
            answer.result()


@dataclass(frozen=True, eq=False)
class Subject:
    """A service or a floor that is measured."""

    name: str
    used: Callable[[], float]  # returns the CPU seconds used so far
    asks: dict[str, Callable[[], object]]  # name of a request -> function that sends it
    # of a service:
    url: str = ""
    client: Client | None = None
    database: str = ""  # path


@dataclass(frozen=True)
class Cost:
    """Cost of one request, in ms."""

    used: float  # CPU
    took: float  # until the response


def main(_nodes, *, ironic=False):
    with ExitStack() as started:
        folder = Path(started.enter_context(tempfile.TemporaryDirectory()))
        small, large = (started.enter_context(ours(folder / name, name)) for name in (SMALL, LARGE))
        services = [small, started.enter_context(on_postgresql(folder / OTHER))]
        if ironic:
            services.append(started.enter_context(theirs(folder)))
        for subject in (large, *services):
            fill(subject, NODES[subject.name])
        contents = {name: small.client.ask("GET", path) for name, path in READS.items()}
        file = small.database.removeprefix("sqlite:///")
        floors = (
            started.enter_context(ready_made(contents)),
            bare(file),
            *statements(started, services),
        )
        for subject in (large, *services):
            subject.client.renew()
        results = measure((*services, large, *floors), READS)
        results |= measure(services, WRITES)
        for service in services:
            service.asks.update(of_agent(service))
        results |= measure(services, OF_AGENTS)
    report(results)


@contextmanager
def ours(folder, name):
    folder.mkdir()
    with Fleet(folder, conductors=1, **QUIET) as fleet:
        roots = fleet.pids()["api"]
        yield service(name, fleet.url, roots, f"sqlite:///{fleet.data}/ingot.db")


@contextmanager
def on_postgresql(folder):
    """The service on PostgreSQL; the time of the server's processes counts, too."""
    folder.mkdir()
    with postgresql.serving() as server:
        url = server.database()
        with Fleet(folder, conductors=1, **QUIET, INGOT_DATABASE_CONNECTION=url) as fleet:
            api = cpu.family(fleet.pids()["api"])
            subject = service(OTHER, fleet.url, api, url.replace("://", "+psycopg://", 1))
            # the server starts and ends processes, so their time is that of its tree
            used = lambda: cpu.of_processes(api) + cpu.of_trees([server.pid])  # noqa: E731
            yield replace(subject, used=used)


@contextmanager
def theirs(folder):
    """Ironic. Its API and its conductor are one process; a change needs both."""
    with Ironic(folder) as running:
        yield service("Ironic", running.url, [running.pid], f"sqlite:///{folder}/ironic/ironic.db")


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


def fill(service, count):
    """Enroll a node, and copy it with the differences within a rack until there are `count`."""
    service.client.ask("POST", "/v1/nodes", BODY | {"uuid": KNOWN, "name": "node-0"}, 201)
    varied = {"uuid": ":uuid", "name": "'node-' || :number", **VARIED}
    with writing(service) as connection:
        columns = [column["name"] for column in inspect(connection).get_columns("nodes")]
        if connection.dialect.name == "postgresql":
            varied |= {name: f"CAST({varied[name]} AS JSON)" for name in DOCUMENTS}
    copied = [name for name in columns if name not in ("id", *varied)]
    copy = text(
        f"INSERT INTO nodes ({', '.join([*varied, *copied])})"
        f" SELECT {', '.join([*varied.values(), *copied])} FROM nodes WHERE uuid = '{KNOWN}'"
    )
    for start in range(1, count, BATCH):
        with writing(service) as connection:  # one transaction per batch: the service writes, too
            connection.execute(
                copy,
                [
                    {
                        "uuid": str(uuid.uuid4()),
                        "number": str(number),
                        "state": STATES[number % len(STATES)],
                    }
                    for number in range(start, min(start + BATCH, count))
                ],
            )
    with writing(service) as connection:
        connection.execute(text("ANALYZE"))


@contextmanager
def writing(service):
    """A transaction in the database of a service."""
    engine = create_engine(service.database)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def of_agent(service):
    """Requests of the known node's agent, which has a token."""
    with writing(service) as connection:
        connection.execute(
            text(f"UPDATE nodes SET provision_state = 'wait call-back' WHERE uuid = '{KNOWN}'")
        )
    client = service.client
    client.ask("POST", "/v1/ports", {"node_uuid": KNOWN, "address": MAC}, 201)
    look_up = partial(client.ask, "GET", f"/v1/lookup?addresses={MAC}&node_uuid={KNOWN}")
    sign = {
        "callback_url": "https://127.0.0.1:9999",
        "agent_token": json.loads(look_up())["config"]["agent_token"],
        "agent_version": "11.0",
    }
    agents = 1 if service.name == "Ironic" else MOST
    request = "POST", f"/v1/heartbeat/{KNOWN}", sign, 202
    return {"lookup": look_up, "heartbeat": Crowd(service.url, agents, *request)}


def measure(subjects, names):
    """(request, subject) -> Cost, the lower quartile of rounds in which subjects take turns."""
    results = {}
    for name in names:
        rounds = {}
        for subject in subjects:
            ask = subject.asks[name]
            ask()
            took = cost(subject, name, 2).took * at_once(ask)
            rounds[subject] = max(round(ROUND * 1000 / took), 1), []
        for _ in range(ROUNDS):
            for candidate, (times, costs) in rounds.items():
                costs.append(cost(candidate, name, times))
        for candidate, (_, costs) in rounds.items():
            used, took = (
                statistics.quantiles(values, n=4, method="inclusive")[0]
                for values in ([one.used for one in costs], [one.took for one in costs])
            )
            results[name, candidate.name] = Cost(used, took)
    return results


def at_once(ask):
    """Number of requests that one call makes."""
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
    """CPU ms of a Flask view that returns ready-made bytes, under the same server."""
    with ready_made({"it": content}) as subject:
        return measure((subject,), ("it",))["it", subject.name].used


@contextmanager
def ready_made(contents):
    """A server that returns ready-made bytes for each request, by name."""
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
    """Read the rows with `sqlite3` alone, and encode them."""

    def read(columns, limit):
        with closing(sqlite3.connect(database)) as connection:
            connection.row_factory = sqlite3.Row
            rows = connection.execute(f"SELECT {columns} FROM nodes ORDER BY id LIMIT {limit}")
            orjson.dumps([dict(row) for row in rows])

    asks = {name: partial(read, *query) for name, query in COLUMNS.items()}
    return Subject("bare SQL", time.process_time, asks)


def statements(started, services):
    """The service's statements on each database, executed and fetched by its driver alone."""
    small, other = (create_engine(service.database) for service in services[:2])
    light = started.enter_context(closing(sqlite3.connect(small.url.database)))
    url = other.url.render_as_string().replace("+psycopg", "")
    heavy = started.enter_context(psycopg.connect(url, autocommit=True))
    heavy.execute("SET jit = off")
    server = [heavy.info.backend_pid]
    for engine, execute, used in (
        (small, light.execute, time.process_time),
        (
            other,
            partial(heavy.execute, prepare=True),
            lambda: time.process_time() + cpu.of_processes(server),
        ),
    ):
        texts = {name: text_of(name, engine.dialect) for name in READS}
        asks = {
            name: lambda execute=execute, sql=sql: execute(sql).fetchall()
            for name, sql in texts.items()
        }
        yield Subject(f"statement on {engine.dialect.name}", used, asks)
        engine.dispose()


def text_of(name, dialect):
    """SQL of the service's statement for a read, with the values of its parameters."""
    short = name == "list of 1,000"
    fields = node_query.SHORT if short else (*node_query.FULL, *node_query.LINKED)
    read, nodes = node_query._reading(fields, True, False, False), Node.__table__.c
    statement = read.query.where(nodes.parent_node.is_(None)).order_by(nodes.id).limit(PAGE)
    if name == "one node":
        statement = read.by["uuid"].statement.params(value=KNOWN)
    return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def report(results):
    columns = ("ready-made", "bare SQL", SMALL, OTHER, LARGE, "Ironic")
    print(f"  {'CPU ms per request':20}{''.join(f'{column:>12}' for column in columns)}", end="")
    print(f"{'times':>8}{'target':>8}{'per s':>8}")
    for name in (*READS, *WRITES, *OF_AGENTS):
        row = [results.get((name, column)) for column in columns]
        small, other = results[name, SMALL], results.get((name, "Ironic"))
        cells = [f"{result.used:12.2f}" if result else " " * 12 for result in row]
        times = f"{other.used / small.used:8.0f}" if other else " " * 8
        target = f"{TARGETS[name]:8.1f}" if name in TARGETS else " " * 8
        print(f"  {name:20}{''.join(cells)}{times}{target}{1000 / small.took:8.0f}")
    columns = (SMALL, "statement on sqlite", OTHER, "statement on postgresql")
    print(
        f"\n  {'CPU ms per read':16}{''.join(f'{column:>25}' for column in columns)}   times   floor"
    )
    for name in READS:
        light, alone, heavy, bare_heavy = (results[name, column].used for column in columns)
        floor = (light - alone + bare_heavy) / light
        cells = "".join(f"{figure:25.2f}" for figure in (light, alone, heavy, bare_heavy))
        print(f"  {name:16}{cells}{heavy / light:8.2f}{floor:8.2f}")
