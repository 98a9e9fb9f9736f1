"""
Time, CPU and indexes of lists, searches and compliance lists, with 100,000 nodes and two baselines.

The API runs in this process, on SQLite and on PostgreSQL, the CPU of whose processes counts, too. The
time is the median of the rounds, from the request to the answer. Indexes are those of the plans of the
request's statements; a table that is read without an index is named with `scan of`.
"""

import re
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from uuid import uuid4

import psycopg
from sqlalchemy import event, select

from app.models import Baseline, BaselineNode, Node
from app.server.application import create_app
from tests.bench.bench_api import VERSION
from tests.bench.bench_fleet_pages import NODES, NOON, analyse, fill, fleet_at_work
from tests.bench.bench_rows import used_with_server
from tests.support import postgresql

ROUNDS = 9
#: Most milliseconds of an answer.
TARGET = 150
PATHS = (
    "nodes?limit=100",
    "nodes?where=name%3D{name}&limit=100",
    "nodes?where=provision_state%3Dactive&limit=100",
    "nodes?where=shard%3Drow-3%20and%20resource_class%3Dgpu&limit=100",
    # patterns, texts, keys of documents, times: a page that is full soon, and one that never is
    "nodes?where=name%3Dn5*&limit=100",
    "nodes?where=name%3Dnonesuch-*&limit=100",
    "nodes?where=extra.rack%3Dnonesuch&limit=100",
    "nodes?where=properties.memory_mb%20%3E%3D%201000000&limit=100",
    "nodes?where=bmc%3D10.0.0.251&limit=100",
    "nodes?where=bmc%3D10.*&limit=100",
    "nodes?where=last_error~nonesuch%20or%20bmc%3D10.0.0.251&limit=100",
    "nodes?where=not%20driver%3Dredfish%20and%20driver~x&limit=100",
    "nodes?where=provision_updated_at%20since%208h&limit=100",
    "nodes?where=failure_code%3Dtimeout%20and%20failure_step%3Ddeploy.boot&limit=100",
    # words in any field
    "nodes?where={name}&limit=100",
    "nodes?where=nonesuch&limit=100",
    "nodes?where=10.0.0.77&limit=100",
    "provision_states?where=nonesuch",
    # baselines: `all` is for every node, 1 % of which differ; `few` for 100 nodes
    "baselines/all/nodes?limit=100",
    "baselines/all/nodes?limit=100&marker={marker}",
    "baselines/all/nodes?state=differs&limit=100",
    "baselines/all/nodes?state=unknown&limit=100",
    "baselines/few/nodes?limit=100",
    "nodes/{name}/compliance",
    "nodes?where=differs%3Dall&limit=100",
    "nodes?where=differs%3Dfew&limit=100",
    "nodes?where=not%20differs%3Dall&limit=100",
    "nodes?where=differs%3Dall%20and%20resource_class%3Dgpu&limit=100",
    "provision_states?where=differs%3Dall",
)
RULE = {"field": "memory_mb", "operator": ">=", "value": 32768}
DIFFERENCE = {"field": "memory_mb", "operator": ">=", "expected": 32768, "actual": 16384}
#: Ways to read a table, in the plans of SQLite and of PostgreSQL.
ACCESS = re.compile(
    r"USING (?:COVERING )?INDEX (\w+)|(USING INTEGER PRIMARY KEY)|SCAN (\w+)(?! USING)\b"
    r"|Index (?:Only )?Scan (?:Backward )?(?:using|on) (\w+)|Seq Scan on (\w+)"
)


def main(nodes):
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder, 'fleet.db')}"
        measure("SQLite", url, nodes or NODES, time.process_time)
    with postgresql.serving() as server:
        url = server.database()
        observer_url = url.replace("+psycopg", "")
        with psycopg.connect(observer_url, autocommit=True) as observer:
            used = partial(used_with_server, observer, postgresql.name_of(url))
            measure("PostgreSQL", url, nodes or NODES, used)


def measure(database, url, nodes, used):
    """Print a row of Markdown for each path."""
    runtime = fleet_with_baselines(url, nodes).runtime
    client = create_app(runtime).test_client()
    print(f"| {database} | p50 ms | CPU ms | indexes |\n| --- | ---: | ---: | --- |", flush=True)
    with runtime.reading() as session:
        marker = session.scalar(select(Node.uuid).where(Node.name == f"n{nodes // 2}"))
    for path in PATHS:
        path = path.replace("{marker}", marker).replace("{name}", f"n{nodes // 2}")
        indexes, walls, cpus = indexes_of(client, runtime, path), [], []
        for _ in range(ROUNDS):
            wall, cpu = time.perf_counter(), used()
            answer = client.get(f"/v1/{path}", headers=VERSION)
            walls.append((time.perf_counter() - wall) * 1000)
            cpus.append((used() - cpu) * 1000)
            assert answer.status_code == 200, answer.text
        p50, cpu = statistics.median(walls), statistics.median(cpus)
        verdict = "" if cpu < TARGET else f" (over {TARGET})"
        words = path.replace(marker, "...")
        print(f"| `{words}` | {p50:.1f} | {cpu:.1f}{verdict} | {indexes} |", flush=True)


def indexes_of(client, runtime, path):
    """Return the indexes and scans of a request's statements, in words."""
    statements = []

    def note(_connection, _cursor, statement, parameters, *_rest):
        statements.append((statement, parameters))

    event.listen(runtime.engine, "before_cursor_execute", note)
    try:
        client.get(f"/v1/{path}", headers=VERSION)
    finally:
        event.remove(runtime.engine, "before_cursor_execute", note)
    ways = {}
    with runtime.engine.connect() as connection:
        is_lite = connection.dialect.name == "sqlite"
        for statement, parameters in statements:
            if not statement.lstrip("( ").upper().startswith(("SELECT", "WITH")):
                continue
            explain = f"EXPLAIN {'QUERY PLAN ' if is_lite else ''}{statement}"
            for row in connection.exec_driver_sql(explain, parameters):
                for match in ACCESS.finditer(row[-1]):
                    index, key, scanned, used, read = match.groups()
                    table = scanned or read
                    ways[index or used or (key and "primary key") or f"scan of {table}"] = None
    return ", ".join(ways)


def fleet_with_baselines(url, nodes):
    """Fill a new database with a fleet, and with its comparison with two baselines."""
    inside = fleet_at_work(url, nodes)
    fields = {"selection": "driver=*", "expected": [RULE], "due_at": NOON}
    names = ("all", "few")
    fill(inside, Baseline, ({"uuid": str(uuid4()), "name": name, **fields} for name in names))
    with inside.runtime.reading() as session:
        keys = dict(session.execute(select(Baseline.name, Baseline.id)).all())
        ids = list(session.scalars(select(Node.id).order_by(Node.id)))
    fill(inside, BaselineNode, (compared(keys["all"], key, key % 100 == 0) for key in ids))
    fill(inside, BaselineNode, (compared(keys["few"], key, False) for key in ids[::1000]))
    analyse(inside)
    return inside


def compared(baseline, node, differs):
    difference = {**DIFFERENCE, "since": NOON.isoformat()}
    return {
        "baseline_id": baseline, "node_id": node, "version": 1, "compared_at": NOON, "since": NOON,
        "state": "differs" if differs else "complies", "differences": [difference] if differs else [],
    }  # fmt: skip
