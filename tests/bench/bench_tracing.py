"""
Cost of traces: CPU of requests and of a node's life, with a collector and without.

Two services with settings for production run at the same time and take turns. The second part is the
time of the calls of one step in a service without a collector.
"""

import tempfile
from contextlib import ExitStack

from app.observe import request_ids
from app.process import tracing
from tests.bench.bench_lifecycle import PRODUCTION
from tests.bench.bench_metrics import report_lives, report_requests, timed
from tests.support.collector import collecting
from tests.support.fleet import Fleet


def main(nodes):
    with ExitStack() as started:
        collector = started.enter_context(collecting())
        fleets = {"off": {}, "on": {"INGOT_TRACING_ENDPOINT": collector.endpoint}}
        for name, settings in fleets.items():
            folder = started.enter_context(tempfile.TemporaryDirectory())
            fleets[name] = started.enter_context(Fleet(folder, **PRODUCTION, **settings))
        report_requests(fleets)
        report_lives(fleets, nodes or 20)
        print(f"{len(collector.spans)} spans in {len(collector.bodies)} messages")
    print(f"the calls of one step without a collector: {timed(step) * 1e9:.0f} ns of CPU")


REQUEST = request_ids.of_span(1, 2)


def step():
    """The calls for a step with one command to a BMC."""
    with (
        tracing.continued(REQUEST, "ingot.run", node="n", operation="o", step="s", position=0),
        tracing.inside("s", conductor="c", attempt=1),
    ):
        tracing.called("bmc.order", "bmc", "answered", 0.1)
        tracing.note(outcome="done", code=None, failed=False)
