"""
Cost of writing change events: CPU of a node's life with the triggers that insert them and without.

Two services with settings for production run at the same time and take turns, on SQLite and on
PostgreSQL. Without triggers, the rest of the service is the same. PostgreSQL's server counts.
"""

import statistics
import tempfile
from contextlib import ExitStack

from sqlalchemy import text

from app.db import connections
from tests.bench.bench_lifecycle import PRODUCTION, Service
from tests.support import postgresql
from tests.support.fleet import Fleet

ROUNDS = 8
TRIGGERS = {
    "sqlite": "SELECT name, NULL FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal",
}
#: Prefix of the names of the triggers.
PREFIX = "change_events_"


def main(nodes):
    nodes = nodes or 20
    for kind in ("SQLite", "PostgreSQL"):
        with ExitStack() as started:
            services = {
                name: service(started, kind, name == "with") for name in ("without", "with")
            }
            compare(kind, services, nodes)


def service(started, kind, has_triggers):
    folder = started.enter_context(tempfile.TemporaryDirectory())
    server, environ = None, dict(PRODUCTION)
    if kind == "PostgreSQL":
        server = started.enter_context(postgresql.serving())
        environ["INGOT_DATABASE_CONNECTION"] = server.database()
    fleet = started.enter_context(Fleet(folder, **environ))
    if not has_triggers:
        drop_triggers(environ.get("INGOT_DATABASE_CONNECTION", f"sqlite:///{fleet.data}/ingot.db"))
    return Service(fleet, server)


def drop_triggers(url):
    engine = connections.connect(url)
    with engine.begin() as connection:
        names = connection.execute(text(TRIGGERS[engine.dialect.name])).all()
        ours = [row for row in names if row[0].startswith(PREFIX)]
        assert ours, "no triggers"
        for name, table in ours:
            connection.execute(text(f"DROP TRIGGER {name}" + (f" ON {table}" if table else "")))
    engine.dispose()


def compare(kind, services, nodes):
    """Print the median of the ratios of neighbouring rounds, which have about the same load."""
    used = {name: [] for name in services}
    for name, subject in [*services.items()] * ROUNDS:
        baseline = subject.used.total()
        subject.measure(nodes)
        used[name].append((subject.used.total() - baseline) / nodes * 1e3)
    pairs = zip(used["without"], used["with"], strict=True)
    ratios = sorted(with_them / without for without, with_them in pairs)
    medians = {name: statistics.median(values) for name, values in used.items()}
    print(
        f"{kind}, CPU ms per lifecycle, medians of {ROUNDS} rounds: without triggers"
        f" {medians['without']:.1f}, with {medians['with']:.1f}; ratio of neighbouring rounds: median"
        f" {statistics.median(ratios):.3f}, from {ratios[0]:.3f} to {ratios[-1]:.3f}"
    )
