"""
Exporter: answers Prometheus at /metrics for the processes of one `ingot` command.

A process of its own, so that no scrape delays a request or a step. It adds up the files that the
processes record (`app.metrics.recording`). Beside a beat it also counts the rows of the fleet: at a
scrape, and at most once in `COUNT_INTERVAL`.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from sqlalchemy.exc import SQLAlchemyError

from app.broker import backlog, queue
from app.broker.redis_broker import client
from app.cluster import conductors
from app.config.settings import Settings
from app.db import connections, transactions
from app.db.diagnosis import reason
from app.metrics import table
from app.metrics.kinds import Gauge
from app.metrics.recording import DIRECTORY
from app.observe import log
from app.reports import fleet_counts, stalled_operations
from app.reports.fleet_counts import Count

logger = log.get(__name__)
seldom = log.RateLimited(logger)
#: Seconds for the header of a request to arrive.
REQUEST_TIMEOUT = 10
#: Least seconds between two counts in the database, however many scrapers there are.
COUNT_INTERVAL = 10.0


def main(settings: Settings, counts: bool) -> None:
    """Serve until SIGTERM. counts: whether to count the rows of the fleet, too."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, os.environ[DIRECTORY])  # type: ignore[no-untyped-call]
    if counts:
        registry.register(FleetCollector(settings))
    metrics = settings.metrics
    assert metrics.port is not None
    with make_server(
        metrics.host_ip, metrics.port, _application(registry), _server(metrics.host_ip), _Handler
    ) as server:
        logger.info("exporter.started", host=metrics.host_ip, port=server.server_port)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        server.serve_forever()


def _application(registry: CollectorRegistry) -> WSGIApplication:
    """Return the WSGI application of a registry."""
    answer: WSGIApplication = make_wsgi_app(registry)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/metrics":
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"metrics are at /metrics\n"]
        return answer(environ, start_response)

    return application


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT

    def log_message(self, *_: Any) -> None:
        """Log no requests."""


def _server(host: str) -> type[WSGIServer]:
    class Server(ThreadingMixIn, WSGIServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

    return Server


class FleetCollector:
    """The gauges of the table: counts in the database, and lengths of the conductors' queues."""

    def __init__(self, settings: Settings) -> None:
        pool_limits = settings.database.limits | {"max_pool_size": 1}
        self._engine = connections.connect(settings.database.connection, **pool_limits)
        self._timeout = settings.conductor.heartbeat_timeout
        self._grace = stalled_operations.grace(settings)
        broker = client(settings.broker.url, settings.broker.connect_timeout)
        self._messages = backlog.messages_of(queue.celery(settings), settings, broker)
        self._lock = threading.Lock()
        self._counts: list[Count] = []
        self._due = 0.0  # monotonic time of the next count

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Describe no metric, so that registering counts nothing."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges; count again if the last count is old enough."""
        with self._lock:
            if time.monotonic() >= self._due:
                self._counts = list(self._count())
                self._due = time.monotonic() + COUNT_INTERVAL
            counts = self._counts
        families: dict[Gauge, GaugeMetricFamily] = {}
        for gauge, labels, value in counts:
            if gauge not in families:
                families[gauge] = GaugeMetricFamily(
                    gauge.name, gauge.about, labels=list(gauge.labels)
                )
            families[gauge].add_metric(labels, value)
        yield from families.values()

    def _count(self) -> Iterator[Count]:
        """Count; a part of the service that is out of reach has no counts but REACHED."""
        names: list[str] = []
        try:
            with transactions.reading(self._engine) as session:
                yield from list(fleet_counts.in_database(session, self._timeout, self._grace))
                names = [member.name for member in conductors.alive(session, self._timeout)]
            yield table.REACHED, ("database",), 1
        except SQLAlchemyError as error:
            seldom.warning("exporter.no_database", detail=reason(error))
            yield table.REACHED, ("database",), 0
        try:
            yield from list(fleet_counts.in_queues(self._messages, names))
            yield table.REACHED, ("broker",), 1
        except queue.FAILURES as error:
            seldom.warning("exporter.no_broker", detail=str(error))
            yield table.REACHED, ("broker",), 0
