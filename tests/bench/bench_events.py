"""
Cost of task events: lifecycles with `[broker]events` and without, in turns, on SQLite.

The measure is CPU seconds of the service's processes per lifecycle, Redis included. No monitor listens:
its own cost is not the service's.
"""

import tempfile
from contextlib import ExitStack

from tests.bench.bench_lifecycle import PRODUCTION, Service
from tests.support.fleet import Fleet

ROUNDS = 6


def main(nodes):
    nodes = nodes or 50
    with ExitStack() as stack:
        services = {}
        for events in ("false", "true"):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            fleet = Fleet(folder, **PRODUCTION, INGOT_BROKER_EVENTS=events)
            services[events] = Service(stack.enter_context(fleet))
        for _ in range(ROUNDS):
            for service in services.values():
                service.measure(nodes)
    used = {
        events: 1000 * sum(service.used.values()) / (nodes * ROUNDS)
        for events, service in services.items()
    }
    print(f"Task events, {nodes} nodes at once, {ROUNDS} times, CPU time of a lifecycle:")
    for events, words in (("false", "without"), ("true", "with")):
        print(f"  {words} events: {used[events]:.1f} ms")
    print(f"  ratio: {used['true'] / used['false']:.3f}")
    for events, service in services.items():
        roles = {
            role: round(1000 * seconds / (nodes * ROUNDS), 2)
            for role, seconds in service.used.items()
        }
        print(f"  events={events}: {roles}")
