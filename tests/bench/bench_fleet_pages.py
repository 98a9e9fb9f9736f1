"""
Time of the summaries that the page at /ui shows: 100,000 nodes, 222,000 operations.

The API runs in this process, on SQLite and on PostgreSQL, the CPU of whose processes counts, too,
except that of parallel workers. A page of 100 nodes is the floor, and the lowest figure of the rounds
counts, from the request to the answer.
"""

import random
import tempfile
import time
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from uuid import UUID

import psycopg
from sqlalchemy import insert, select, text

from app.db import schema
from app.models import Conductor, Node, Operation, OperationStep
from app.server.application import create_app
from tests.bench.bench_api import VERSION
from tests.bench.bench_rows import used_with_server
from tests.support import postgresql
from tests.support.inside import Inside

NODES, ROUNDS = 100_000, 9
#: Rows that one transaction inserts, and newest operations that have rows of steps.
BATCH, STEPPED = 2_000, 20_000
#: Most milliseconds of an answer.
TARGET = 150
FLOOR = "nodes?limit=100"
PATHS = (
    "operations/current",
    "operations/queues",
    "operations/steps",
    "operations/failures",
    "operations/failures?by=code,step,driver,resource_class,shard",
    "nodes?failure_code=timeout&failure_step=deploy.boot&limit=100",
    "nodes?failure_code=defect&shard=row-3&limit=100",
    "service",
    "provision_states",
    "provision_states?resource_class=large",
    "provision_states?driver=redfish&maintenance=false&associated=false",
)
NOON = datetime(2026, 1, 1, 12)
STEPS = ("power.power_off", "deploy.boot", "deploy.write_image", "deploy.boot_instance")


def main(nodes):
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder, 'fleet.db')}"
        measure("SQLite", url, nodes or NODES, time.process_time)
    with postgresql.serving() as server:
        url = server.database()
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as observer:
            used = partial(used_with_server, observer, postgresql.name_of(url))
            measure("PostgreSQL", url, nodes or NODES, used)


def measure(database, url, nodes, used):
    """Print time and CPU of each path. used: returns the seconds of CPU until now."""
    client = filled(url, nodes)
    costs = {path: [] for path in (FLOOR, *PATHS)}
    for path, rounds in [*costs.items()] * ROUNDS:
        began, cpu = time.perf_counter(), used()
        answer = client.get(f"/v1/{path}", headers=VERSION)
        rounds.append(((time.perf_counter() - began) * 1000, (used() - cpu) * 1000))
        assert answer.status_code == 200, answer.text
    floor = min(wall for wall, _ in costs[FLOOR])
    for path, rounds in costs.items():
        wall, cpu = map(min, zip(*rounds, strict=True))
        verdict = "" if wall < TARGET else f", over {TARGET} ms"
        print(
            f"{database}, {path}: {wall:.1f} ms, {wall / floor:.1f} floors,"
            f" {cpu:.1f} ms of CPU{verdict}",
            flush=True,
        )


def filled(url, nodes):
    """Return a client of an API on a new database with a fleet at work."""
    return create_app(fleet_at_work(url, nodes).runtime).test_client()


def fleet_at_work(url, nodes):
    """Fill a new database; return the service in this process."""
    schema.upgrade(url)
    inside = Inside(url)
    chance = random.Random(1)
    types = {"redfish": {}, "ipmi": {}}
    fill(inside, Conductor, (
        {"hostname": name, "incarnation": name, "interfaces": types}
        for name in ("rack-1", "rack-2", "rack-3")
    ))  # fmt: skip
    fill(inside, Node, (node(number, chance) for number in range(nodes)))
    with inside.runtime.reading() as session:
        ids = list(session.scalars(select(Node.id).order_by(Node.id)))
    fill(inside, Operation, operations(ids, chance))
    newest = select(Operation.id).order_by(Operation.id.desc()).limit(STEPPED)
    with inside.runtime.reading() as session:
        stepped = list(session.scalars(newest))
    fill(inside, OperationStep, steps(stepped, chance))
    analyse(inside)
    return inside


def fill(inside, model, rows):
    """
    Insert rows, `BATCH` in a transaction, and write the statistics after the first.

    A session of PostgreSQL keeps its plans for foreign keys and triggers. For an empty table, such a
    plan reads all of an index for each row; the first statistics replace it.
    """
    rows = iter(rows)
    is_analysed = False
    while batch := list(islice(rows, BATCH)):
        with inside.runtime.transaction() as session:
            session.execute(insert(model), batch)
            if not is_analysed:
                session.execute(text(f"ANALYZE {model.__tablename__}"))
        is_analysed = True


def analyse(inside):
    """Write the statistics; on PostgreSQL also vacuum, as it does by itself within a minute."""
    if inside.runtime.engine.dialect.name == "postgresql":
        with inside.runtime.read_connection() as connection:  # no transaction: VACUUM refuses one
            connection.execute(text("VACUUM ANALYZE"))
        return
    with inside.runtime.transaction() as session:
        session.execute(text("ANALYZE"))


def node(number, chance):
    return {
        "uuid": str(UUID(int=chance.getrandbits(128))),
        "name": f"n{number}",
        "driver": chance.choice(("redfish", "redfish", "ipmi", "ilo")),
        "resource_class": chance.choice(("large", "small", "gpu")),
        "conductor_group": "",
        "shard": f"row-{number % 20}",
        "provision_state": "available",
        "driver_info": {"redfish_address": f"https://10.0.0.{number % 250}", "padding": "x" * 500},
        "properties": {"cpus": 64, "memory_mb": 512_000, "padding": "x" * 300},
        "driver_internal_info": {"padding": "x" * 500},
    }


def operations(ids, chance):
    """Yield two operations of each node, of which 5 % fail, then 22,000 that are active."""
    for kind in ("clean", "active"):
        for key in ids:
            yield ended(key, kind, chance)
    active = {"created_at": NOON, "kind": "deleted"}
    busy = chance.sample(ids, len(ids) * 22 // 100)
    for place, key in enumerate(busy):
        uuid = {"uuid": str(UUID(int=chance.getrandbits(128))), "node_id": key}
        if place < len(ids) // 50:
            state = {"state": chance.choice(("running", "waiting")), "admitted_at": NOON}
            yield active | uuid | state | {"queue": "clean", "turn": None, "finished_at": None}
        else:
            state = {"state": "queued", "queue": "clean", "turn": place, "admitted_at": None}
            yield active | uuid | state | {"finished_at": None}


def ended(key, kind, chance):
    error = {
        "code": chance.choice(("timeout", "unreachable", "refused", "defect")),
        "step": chance.choice(STEPS),
        "message": "The machine did not answer in time. " * 3,
        "cause": "the BMC or the agent did not answer in time",
        "hint": "check that its address can be reached from the conductor, and that it is up",
    }
    failed = chance.random() < 0.05
    return {
        "uuid": str(UUID(int=chance.getrandbits(128))), "node_id": key, "kind": kind,
        "state": "failed" if failed else "succeeded", "error": error if failed else None,
        "created_at": NOON, "admitted_at": NOON, "finished_at": NOON,
    }  # fmt: skip


def steps(operations, chance):
    for operation in operations:
        for position, name in enumerate(STEPS):
            interface, _, step = name.partition(".")
            yield {
                "operation_id": operation, "position": position, "interface": interface,
                "name": step, "source": "frame", "state": "done", "conductor": "rack-1",
                "started_at": NOON, "finished_at": NOON + timedelta(seconds=chance.random() * 90),
                "deaths": chance.random() < 0.001,
            }  # fmt: skip
