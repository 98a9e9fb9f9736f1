"""
Cost of a node's whole life: enroll, manage, provide (with cleaning), active, deleted.

All nodes go through each verb together, over the REST API of a real `ingot up` with its settings
for production, two conductors and fake hardware that takes no time; on SQLite and on PostgreSQL,
in turns. The measure is CPU seconds of the service's processes per lifecycle, including those of the
PostgreSQL server. The floor is the cost of Celery and Redis alone for as many tasks in as many
chains, measured in the same run.
"""

import statistics
import tempfile
import time
from collections import Counter
from contextlib import contextmanager

from app.config import options
from app.config.settings import Settings
from tests.bench import cpu, floor
from tests.support import postgresql
from tests.support.fleet import QUICK, Fleet, until

VERBS = {
    "manage": "manageable",
    "provide": "available",
    "active": "active",
    "deleted": "available",
}
WARM_UP = 5
STARTS = 3
#: Default settings: the settings of the tests detect deaths soon, which costs CPU.
PRODUCTION = {
    option.variable: str(option.default)
    for option in options.options(Settings)
    if option.variable in QUICK
    and option.group == "conductor"
    and not isinstance(option.default, tuple)
}


#: Turns of each database.
ROUNDS = 2


def main(nodes):
    nodes = nodes or 50
    cold_starts()
    with on_sqlite() as sqlite_service, on_postgresql() as postgresql_service:
        services = {"SQLite": sqlite_service, "PostgreSQL": postgresql_service}
        for _ in range(ROUNDS):
            for service in services.values():
                service.measure(nodes)
    lengths, threads = sqlite_service.lengths, Settings().conductor.workers_pool_size
    bare = floor.measure(lengths, nodes, threads)
    report(nodes, lengths, services, bare)


@contextmanager
def on_sqlite():
    with tempfile.TemporaryDirectory() as folder, Fleet(folder, **PRODUCTION) as fleet:
        yield Service(fleet)


@contextmanager
def on_postgresql():
    with tempfile.TemporaryDirectory() as folder, postgresql.serving() as server:
        database = {"INGOT_DATABASE_CONNECTION": server.database()}
        with Fleet(folder, **PRODUCTION, **database) as fleet:
            yield Service(fleet, server)


class Service:
    """A fleet, and the server of its database if it has one."""

    def __init__(self, fleet, server=None):
        self._fleet, self._server = fleet, server
        self.used = Counter()  # role -> CPU seconds of all measurements
        self.wall = 0.0  # seconds of all measurements
        self.lengths = []  # number of steps of each operation of a node
        self._live(WARM_UP)

    def measure(self, nodes):
        baselines, began = self._cpu(), time.monotonic()
        self.lengths = self._live(nodes, lambda: self._count(baselines, began))

    def _count(self, baselines, began):
        self.wall += time.monotonic() - began
        for role, seconds in self._cpu().items():
            self.used[role] += seconds - baselines[role]

    def _cpu(self):
        used = cpu.of_roles(self._fleet.pids())
        if self._server:
            used["postgresql"] = cpu.of_trees([self._server.pid])
        return used

    def _live(self, nodes, then=lambda: None):
        """Take nodes through their lives and delete them; return the lengths of their operations."""
        fleet = self._fleet
        uuids = fleet.create_nodes(nodes)
        for verb, state in VERBS.items():
            fleet.provision(uuids, verb)
            there = dict.fromkeys(uuids, state)
            # seldom: polling costs the service CPU, too
            until(lambda there=there: fleet.states() == there, state, between=0.25)
        then()
        lengths = [len(operation["steps"]) for operation in reversed(fleet.operations(uuids[0]))]
        for node in uuids:
            fleet.http.delete(f"{fleet.url}/v1/nodes/{node}", timeout=30).raise_for_status()
        return lengths


def cold_starts():
    wall, used = [], []
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            with Fleet(folder, conductors=1, **PRODUCTION) as fleet:
                wall.append(time.monotonic() - began)
                used.append(cpu.of_trees([fleet.process.pid]))
    print(
        f"Cold start of `ingot up` to `ready`, one conductor, an empty directory, median of"
        f" {STARTS}:\n  {statistics.median(wall):.2f} s, {statistics.median(used):.2f} CPU s\n"
    )


def report(nodes, lengths, services, bare):
    steps, lives = sum(lengths), nodes * ROUNDS
    print(
        f"Lifecycle, {nodes} nodes at once, {ROUNDS} times: {len(lengths)} operations with {steps}"
        " steps in all"
    )
    for name, service in services.items():
        print(f"  {name}: {service.wall:.1f} s, {lives * 60 / service.wall:.0f} nodes/min")
    floors = {"service": bare[0] / nodes, "redis": bare[1] / nodes}
    used = {
        name: {role: seconds / lives for role, seconds in service.used.items()}
        for name, service in services.items()
    }
    for spent in used.values():
        spent["service"] = sum(seconds for role, seconds in spent.items() if role != "redis")
    columns = {**used, "bare Celery": floors}
    print(f"\n  {'CPU ms per lifecycle':24}" + "".join(f"{name:>14}" for name in columns))
    for role in dict.fromkeys(role for spent in used.values() for role in spent):
        cells = (f"{spent[role] * 1000:14.1f}" if role in spent else " " * 14
                 for spent in columns.values())  # fmt: skip
        print(f"  {role:24}" + "".join(cells))
    sqlite, postgres = (used[name]["service"] for name in ("SQLite", "PostgreSQL"))
    print(
        f"\n  service on SQLite / bare Celery {sqlite / floors['service']:.1f},"
        f" on PostgreSQL / on SQLite {postgres / sqlite:.2f}"
        f"\n\nBare Celery: the same chains of tasks that do nothing ({steps} tasks in {len(lengths)}"
        " chains),\none worker set up as a conductor; the sender counts as service, as does the"
        " PostgreSQL server."
    )
