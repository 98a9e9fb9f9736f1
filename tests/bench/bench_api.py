"""
What a request costs: CPU of the API's processes, and requests per second of one client.

Measured on a real `ingot up` with SQLite, with 1,000 nodes in the table and again with 100,000.
Beside each figure stand two floors of the same run: a Flask view under the same server that
returns the same bytes ready-made, and the bare SQL read of the rows plus the JSON encoder.
"""

import http.client
import json
import multiprocessing
import signal
import sqlite3
import tempfile
import time
import uuid
from contextlib import contextmanager
from urllib.parse import urlsplit

import orjson
from flask import Flask, Response
from granian.constants import Interfaces
from granian.server.mp import MPServer

from tests.bench import cpu
from tests.fleet import Fleet, until
from tests.ports import free_port

VERSION = {"X-OpenStack-Ironic-API-Version": "1.115"}
PAGE = 1000
LARGE = 100_000
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
QUIET = {
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "86400",
    "INGOT_AGENT_REQUIRE_TLS": "false",
    "INGOT_API_RESTRICT_LOOKUP": "false",
    "INGOT_API_API_WORKERS": "1",
}


class Client:
    """One connection that stays open."""

    def __init__(self, url):
        where = urlsplit(url)
        self._connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)

    def ask(self, method, path, body=None, status=200):
        """The bytes of an answer, which must have this status."""
        headers = VERSION | ({"Content-Type": "application/json"} if body is not None else {})
        data = None if body is None else orjson.dumps(body)
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert status == answer.status, content[:500]
        return content


def main(_nodes):
    with tempfile.TemporaryDirectory() as folder, Fleet(folder, conductors=1, **QUIET) as fleet:
        client, database = Client(fleet.url), f"{fleet.data}/ingot.db"
        pids = fleet.pids()["api"]
        fill(client, database, PAGE)
        small = measure_reads(client, pids)
        floors = {name: floor_of(client.ask("GET", path)) for name, path in READS.items()}
        bare = {name: bare_read(database, *COLUMNS[name]) for name in COLUMNS}
        writes = measure_writes(client, pids)
        fill(client, database, LARGE)
        large = measure_reads(client, pids)
    report(small, large, floors, bare, writes)


def fill(client, database, wanted):
    """Copy the first node until there are `wanted` of them."""
    if not json.loads(client.ask("GET", "/v1/nodes?limit=1"))["nodes"]:
        client.ask("POST", "/v1/nodes", BODY | {"uuid": KNOWN, "name": "node-0"}, 201)
    with sqlite3.connect(database, timeout=60) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(nodes)")]
        kept = [name for name in columns if name not in ("id", "uuid", "name")]
        have = connection.execute("SELECT count(*) FROM nodes").fetchone()[0]
        connection.executemany(
            f"INSERT INTO nodes (uuid, name, {', '.join(kept)})"
            f" SELECT ?, ?, {', '.join(kept)} FROM nodes WHERE uuid = '{KNOWN}'",
            ((str(uuid.uuid4()), f"node-{number}") for number in range(have, wanted)),
        )
        connection.execute("ANALYZE")
    connection.close()


KNOWN = str(uuid.uuid5(uuid.NAMESPACE_OID, "a node"))
MAC = "52:54:00:00:00:01"
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


def cost(pids, work, seconds=3.0):
    """(CPU ms, requests per second) of `work`, repeated for some seconds."""
    work()
    used, began, times = cpu.of_trees(pids), time.monotonic(), 0
    while time.monotonic() - began < seconds:
        work()
        times += 1
    return (cpu.of_trees(pids) - used) / times * 1000, times / (time.monotonic() - began)


def measure_reads(client, pids):
    return {
        name: cost(pids, lambda path=path: client.ask("GET", path)) for name, path in READS.items()
    }


def measure_writes(client, pids):
    """PATCH, POST, lookup, and a heartbeat that changes nothing."""
    numbers = iter(range(10**9))
    port = {"node_uuid": KNOWN, "address": MAC}
    client.ask("POST", "/v1/ports", port, 201)
    path = f"/v1/nodes/{KNOWN}"

    def patch():
        change = {"op": "add", "path": "/extra/number", "value": next(numbers)}
        client.ask("PATCH", path, [change])

    def look_up():
        return client.ask("GET", f"/v1/lookup?addresses={MAC}&node_uuid={KNOWN}")

    results = {
        "PATCH": cost(pids, patch),
        "POST": cost(pids, lambda: client.ask("POST", "/v1/nodes", BODY, 201)),
    }
    token = json.loads(look_up())["config"]["agent_token"]
    sign = {
        "callback_url": "http://127.0.0.1:9999", "agent_token": token, "agent_version": "11.0",
    }  # fmt: skip
    results["lookup"] = cost(pids, look_up)
    results["heartbeat"] = cost(
        pids, lambda: client.ask("POST", f"/v1/heartbeat/{KNOWN}", sign, 202)
    )
    return results


def floor_of(content):
    """CPU ms of a Flask view that has the bytes ready, under the same server."""
    with ready_made(content) as (client, pid):
        return cost([pid], lambda: client.ask("GET", "/"), seconds=2.0)[0]


@contextmanager
def ready_made(content):
    port = free_port()
    child = multiprocessing.get_context("fork").Process(target=serve, args=(content, port))
    child.start()
    try:
        client = Client(f"http://127.0.0.1:{port}")
        until(lambda: answers(client), "the floor's server")
        yield client, child.pid
    finally:
        child.terminate()
        child.join()


def answers(client):
    try:
        return client.ask("GET", "/")
    except (OSError, http.client.HTTPException):
        client._connection.close()
        return None


def serve(content, port):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    app = Flask("floor")
    app.add_url_rule("/", view_func=lambda: Response(content, content_type="application/json"))
    server = MPServer(
        "floor", "127.0.0.1", port, interface=Interfaces.WSGI, workers=1, log_enabled=False
    )
    server.serve(target_loader=lambda: app, wrap_loader=False)


def bare_read(database, columns, limit):
    """CPU ms of reading the rows with the database's own module and encoding them."""
    connection = sqlite3.connect(database)
    connection.row_factory = sqlite3.Row
    times, used = 20, time.process_time()
    for _ in range(times):
        rows = connection.execute(f"SELECT {columns} FROM nodes ORDER BY id LIMIT {limit}")
        orjson.dumps([dict(row) for row in rows])
    used = time.process_time() - used
    connection.close()
    return used / times * 1000


def report(small, large, floors, bare, writes):
    print(f"  {'CPU ms per request':18}{'ready-made':>12}{'bare SQL':>10}", end="")
    print(f"{'1,000':>9}{'100,000':>9}{'target':>8}{'per s':>8}")
    for name, (used, rate) in small.items():
        print(f"  {name:18}{floors[name]:12.2f}{bare[name]:10.2f}{used:9.2f}", end="")
        print(f"{large[name][0]:9.2f}{TARGETS[name]:8.1f}{rate:8.0f}")
    for name, (used, rate) in writes.items():
        target = f"{TARGETS[name]:8.1f}" if name in TARGETS else " " * 8
        print(f"  {name:18}{'':22}{used:9.2f}{'':9}{target}{rate:8.0f}")
