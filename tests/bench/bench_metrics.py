"""
Cost of metrics: CPU of requests and of a node's life, with metrics and without.

Two services with settings for production run at the same time and take turns. The second part is the
time of one call that records, and of a scrape.
"""

import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import requests

from app.metrics.table import API_REQUESTS, CLAIMS
from tests.bench import cpu
from tests.bench.bench_lifecycle import PRODUCTION, Service
from tests.support.fleet import Fleet
from tests.support.ports import free_port
from tests.support.recorded import recording_into

ROUNDS, REQUESTS = 6, 500
#: Calls that are timed.
CALLS = 100_000


def main(nodes):
    nodes = nodes or 20
    port = free_port()
    with ExitStack() as started:
        fleets = {"off": {}, "on": {"INGOT_METRICS_PORT": str(port)}}
        for name, settings in fleets.items():
            folder = started.enter_context(tempfile.TemporaryDirectory())
            fleets[name] = started.enter_context(Fleet(folder, **PRODUCTION, **settings))
        report_requests(fleets)
        report_lives(fleets, nodes)
        text, took = scrape(port)
        print(f"a scrape: {took * 1000:.0f} ms, {len(text) >> 10} KiB")
    report_calls()


def report_requests(fleets):
    used = {name: [] for name in fleets}
    for name, fleet in [*fleets.items()] * ROUNDS:
        baseline = cpu.of_trees(fleet.pids()["api"])
        for _ in range(REQUESTS):
            fleet.get("nodes")
        used[name].append((cpu.of_trees(fleet.pids()["api"]) - baseline) / REQUESTS * 1e6)
    report("CPU us per GET /v1/nodes, median of the rounds", used)


def report_lives(fleets, nodes):
    used = {name: [] for name in fleets}
    services = {name: Service(fleet) for name, fleet in fleets.items()}
    for name, service in [*services.items()] * ROUNDS:
        baseline = service.used.total()
        service.measure(nodes)
        used[name].append((service.used.total() - baseline) / nodes * 1e3)
    report("CPU ms per lifecycle, median of the rounds", used)


def report(heading, used):
    medians = {name: statistics.median(values) for name, values in used.items()}
    increase = medians["on"] / medians["off"] * 100 - 100
    print(f"{heading}: off {medians['off']:.0f}, on {medians['on']:.0f} ({increase:+.1f} %)")


def scrape(port):
    began = time.perf_counter()
    answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=30)
    return answer.text, time.perf_counter() - began


def report_calls():
    calls = {
        "counter": CLAIMS.add,
        "histogram": lambda: API_REQUESTS.observe(0.1, "/v1/nodes", "GET", "2xx"),
    }
    for name, call in calls.items():
        off = timed(call)
        with tempfile.TemporaryDirectory() as folder, recording_into(Path(folder)):
            on = timed(call)
        print(f"one call of a {name}: off {off * 1e9:.0f} ns, on {on * 1e9:.0f} ns of CPU")


def timed(call):
    """CPU seconds of one call."""
    began = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - began) / CALLS
