"""
Cost of an idle service: CPU and memory of each process.

A real `ingot up` with its default settings, on SQLite and on PostgreSQL. Its floor is a bare Celery
worker, a bare Celery beat with one task every two seconds, and their Redis. Memory is PSS, which
counts a page that several processes share once in all. An interpreter that has the run-time
requirements only measures what an operator installs.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench import cpu, floor
from tests.bench.bench_lifecycle import PRODUCTION
from tests.support import postgresql
from tests.support.fleet import Fleet

#: Seconds before the measurement, for the work of the start to end, and seconds of the measurement.
SETTLED, WATCHED = 20.0, 60.0
DEFAULTS = {**PRODUCTION, "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "60"}


def main(_nodes):
    report("Ingot on SQLite", measured_on("sqlite"))
    report("Ingot on PostgreSQL, the server's own processes not counted", measured_on("postgresql"))
    report("bare Celery worker, beat and Redis", measured_floor())


def measured_on(kind):
    with ExitStack() as started:
        folder = started.enter_context(tempfile.TemporaryDirectory())
        settings = DEFAULTS
        if kind == "postgresql":
            server = started.enter_context(postgresql.serving())
            settings = settings | {"INGOT_DATABASE_CONNECTION": server.database()}
        # a new interpreter: it would share its memory with the fork server of the tests
        fleet = started.enter_context(Fleet(folder, conductors=1, forked=False, **settings))
        return watched(names(fleet.pids()))


def names(pids):
    """pid -> name of the process"""
    labels = {pids["up"]: "up", pids["redis"][0]: "redis", pids["beat"][0]: "beat"}
    (conductor,) = pids["conductors"].values()
    for root, name, child in (
        (conductor, "conductor: steps", "conductor: now"),
        (pids["api"][0], "api: parent", "api: worker"),
        (pids["api"][1], "files: parent", "files: worker"),
    ):
        labels |= dict.fromkeys(cpu.family([root]), child) | {root: name}
    return labels


def measured_floor():
    with floor.running(2) as (children, app, _nothing, _client), beat(app) as timer:
        return watched(
            {process.pid: name for name, process in (*children.items(), ("beat", timer))}
        )


@contextmanager
def beat(app):
    """A bare Celery beat that sends one task every two seconds."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.bench.floor", "beat", app.conf.broker_url]
        child = subprocess.Popen(
            [*command, folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield child
        finally:
            child.terminate()
            child.wait()


def watched(labels):
    """name -> (% of a core, PSS MiB), of processes"""
    time.sleep(SETTLED)
    baselines = {pid: cpu.of_processes([pid]) for pid in labels}
    began = time.monotonic()
    time.sleep(WATCHED)
    took = time.monotonic() - began
    costs = {}
    for pid, name in labels.items():
        share, memory = costs.get(name, (0.0, 0.0))
        share += (cpu.of_processes([pid]) - baselines[pid]) / took * 100
        costs[name] = share, memory + pss(pid)
    return costs


def pss(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def report(subject, costs):
    print(f"Idle, {subject}, load average {os.getloadavg()[0]:.1f}:\n")
    print(f"  {'':20}{'% of a core':>12}{'PSS MiB':>10}")
    total = tuple(sum(parts) for parts in zip(*costs.values(), strict=True))
    for name, (share, memory) in [*costs.items(), ("all", total)]:
        print(f"  {name:20}{share:12.2f}{memory:10.1f}")
    print()
