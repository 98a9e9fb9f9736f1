"""
What a node's whole life costs: enroll, manage, provide (with cleaning), active, deleted.

All nodes go through each verb together, over the REST API of a real `ingot up` with its settings
for production, two conductors, SQLite and fake hardware that takes no time. What is counted is
CPU seconds of the service's processes per lifecycle; beside it the floor that Celery and Redis
alone need for as many tasks in as many chains, measured in the same run.
"""

import statistics
import tempfile
import time

from app import options
from app.settings import Settings
from tests.bench import cpu, floor
from tests.support.fleet import QUICK, Fleet, until

VERBS = {
    "manage": "manageable",
    "provide": "available",
    "active": "active",
    "deleted": "available",
}
WARM_UP = 5
STARTS = 3
#: The fleet of the tests notices deaths soon, which costs; here all is as it is by default.
PRODUCTION = {
    each.variable: str(each.default)
    for each in options.options(Settings)
    if each.variable in QUICK and each.group == "conductor"
}


def main(nodes):
    nodes = nodes or 50
    cold_starts()
    with tempfile.TemporaryDirectory() as folder, Fleet(folder, **PRODUCTION) as fleet:
        warm_up(fleet)
        before = cpu.of_roles(fleet.pids())
        began = time.monotonic()
        made = fleet.create_nodes(nodes)
        live(fleet, made)
        wall = time.monotonic() - began
        used = {
            role: seconds - before[role] for role, seconds in cpu.of_roles(fleet.pids()).items()
        }
        lengths = [len(each["steps"]) for each in reversed(fleet.operations(made[0]))]
    threads = Settings().conductor.workers_pool_size
    floor_service, floor_redis = floor.measure(lengths, nodes, threads)
    report(nodes, wall, lengths, used, floor_service, floor_redis)


def warm_up(fleet):
    """Let every process do once what it will be measured at."""
    nodes = fleet.create_nodes(WARM_UP)
    live(fleet, nodes)
    for node in nodes:
        fleet.http.delete(f"{fleet.url}/v1/nodes/{node}", timeout=30).raise_for_status()


def live(fleet, nodes):
    for verb, state in VERBS.items():
        fleet.provision(nodes, verb)
        there = dict.fromkeys(nodes, state)
        # seldom: to be asked costs the service time, too
        until(lambda there=there: fleet.states() == there, state, between=0.25)


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


def report(nodes, wall, lengths, used, floor_service, floor_redis):
    steps = sum(lengths)
    print(
        f"Lifecycle, {nodes} nodes at once: {len(lengths)} operations with {steps} steps in"
        f" all, {wall:.1f} s, {nodes * 60 / wall:.0f} nodes/min\n"
    )
    print(f"  {'CPU ms per lifecycle':24}{'Ingot':>8}{'bare Celery':>14}{'ratio':>8}")
    redis = used.pop("redis")
    for role, seconds in used.items():
        print(f"    {role:22}{seconds / nodes * 1000:8.1f}")
    rows = {"service": (sum(used.values()), floor_service), "redis": (redis, floor_redis)}
    for name, (ours, bare) in rows.items():
        ratio = f"{ours / bare:8.1f}" if bare else ""
        print(f"  {name:24}{ours / nodes * 1000:8.1f}{bare / nodes * 1000:14.1f}{ratio}")
    print(
        f"\nBare Celery: the same chains of tasks that do nothing ({steps} tasks in {len(lengths)}"
        " chains),\none worker set up as a conductor; the sender counts as service."
    )
