"""
Exporter: answers Prometheus at /metrics for the processes of one `ingot` command, and beside a beat
at /metrics/sensors for the sensors of all machines.

A process of its own, so that no scrape delays a request or a step. It adds up the files that the
processes record (`app.metrics.recording`). Beside a beat it also counts the rows of the fleet: at a
scrape, and at most once in `COUNT_INTERVAL`. For containers it answers probes of its role:
GET /alive, GET /ready.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.broker import backlog, breakers, queue
from app.broker.redis_broker import client
from app.cluster import conductors
from app.config.settings import Settings
from app.db import connections, transactions
from app.db.diagnosis import reason
from app.metrics import table
from app.metrics.kinds import Gauge
from app.metrics.recording import DIRECTORY
from app.observe import log
from app.process import vital_signs
from app.reports import fleet_counts, sensor_series, stalled_operations
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
    sensors: Sensors | None = None
    if counts:
        fleet = FleetCollector(settings)
        registry.register(fleet)
        if settings.sensor_data.send_sensor_data:
            sensors = Sensors(fleet.engine, settings.sensor_data.interval)
    metrics = settings.metrics
    assert metrics.port is not None
    silence = max(vital_signs.SILENCE, 2 * settings.conductor.heartbeat_timeout)
    with make_server(
        metrics.host_ip,
        metrics.port,
        application(registry, silence, sensors),
        _server(metrics.host_ip),
        _Handler,
    ) as server:
        logger.info("exporter.started", host=metrics.host_ip, port=server.server_port)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        server.serve_forever()


class Sensors:
    """The WSGI application of the sensors of all machines, for one scrape at a time."""

    def __init__(self, engine: Engine, interval: float) -> None:
        self._engine, self._interval = engine, interval
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer with the readings, or with 503 if the database is out of reach."""
        try:
            with self._lock, transactions.reading(self._engine) as session:
                text = "".join(sensor_series.lines(session, self._interval))
        except SQLAlchemyError as error:
            seldom.warning("exporter.no_database", detail=reason(error))
            start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b"the database is out of reach\n"]
        start_response("200 OK", [("Content-Type", "text/plain; version=0.0.4; charset=utf-8")])
        return [text.encode()]


def application(
    registry: CollectorRegistry, silence: float, sensors: WSGIApplication | None = None
) -> WSGIApplication:
    """
    Return the WSGI application of a registry, with the probes of the role.

    silence: seconds without a vital sign after which the role does not work. sensors: application
    of the machines' sensors; None: it is off.
    """
    metrics: WSGIApplication = make_wsgi_app(registry)

    def answered(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            return metrics(environ, start_response)
        if environ["PATH_INFO"] == "/metrics/sensors" and sensors is not None:
            return sensors(environ, start_response)
        status, text = _probed(environ["PATH_INFO"], silence)
        start_response(status, [("Content-Type", "text/plain")])
        return [f"{text}\n".encode()]

    return answered


def _probed(path: str, silence: float) -> tuple[str, str]:
    """Return the status and the text for a probe: whether the role works, or is ready."""
    signs = vital_signs.current()
    if signs is None or path not in ("/alive", "/ready"):
        return "404 Not Found", "metrics are at /metrics, probes at /alive and /ready"
    if path == "/ready" and not signs.is_ready:
        return "503 Service Unavailable", "the role starts or stops"
    is_alive = signs.silence < silence
    status = "200 OK" if is_alive else "503 Service Unavailable"
    return status, f"the last vital sign was {signs.silence:.0f} s ago"


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT

    def log_message(self, *_: object) -> None:
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
        self.engine = connections.connect(settings.database.connection, **pool_limits)
        self._timeout = settings.conductor.heartbeat_timeout
        self._grace = stalled_operations.grace(settings)
        broker = client(settings.broker.url, settings.broker.connect_timeout)
        self._messages = backlog.messages_of(queue.celery(settings), settings, broker)
        self._lock = threading.Lock()
        self._counts: list[Count] = []
        self._due_at = 0.0  # monotonic time of the next count

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Describe no metric, so that registering counts nothing."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges; count again if the last count is old enough."""
        with self._lock:
            if time.monotonic() >= self._due_at:
                self._counts = list(self._count())
                self._due_at = time.monotonic() + COUNT_INTERVAL
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
            with transactions.reading(self.engine) as session:
                yield from list(fleet_counts.in_database(session, self._timeout, self._grace))
                names = [member.name for member in conductors.alive(session, self._timeout)]
            yield table.REACHED, ("database",), 1
        except SQLAlchemyError as error:
            seldom.warning("exporter.no_database", detail=reason(error))
            yield table.REACHED, ("database",), 0
        try:
            yield from list(fleet_counts.in_queues(self._messages, names))
            yield table.REACHED, ("broker",), 1
        except breakers.FAILURES as error:
            seldom.warning("exporter.no_broker", detail=str(error))
            yield table.REACHED, ("broker",), 0
