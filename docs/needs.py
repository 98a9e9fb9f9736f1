"""
Needs of the roles for their work: how each is proven, and what happens without it.

docs/operations.md has this table. Live means able: a role is alive, leads, or gets work only while
it has all that its work needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.broker import breakers
from app.cluster import conductors, periodic_passes
from app.db.postgresql import PROBE_TIMEOUT
from app.process.circuit_breaker import CircuitBreaker
from app.reports import health, listeners
from app.requests.request_slots import RequestSlots
from workers.conductor.abilities import LEAST, ControlSigns, Echoes, StepThreads
from workers.conductor.life import Life
from workers.periodic.beat import LEASE, LeasedScheduler
from workers.periodic.bmc_network import FEWEST, BmcNetwork
from workers.supervisor import exporter
from workers.supervisor.children import Children


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a role needs."""

    role: str
    need: str
    proof: str
    probe: Callable[..., object]  # the code that proves it
    within: str  # the longest time until its loss is known
    without: str


_ECHO = f"half of `heartbeat_timeout`, at least {LEAST:g} s"
NEEDS: Sequence[Need] = (
    Need("API", "database, for reads", "each connection is checked before use; while it is lost, a"
         f" thread tries it every second, for {PROBE_TIMEOUT:g} s", CircuitBreaker.guard,
         "`[database]connect_timeout`, or `statement_timeout` and a second",
         "503 at once; `GET /healthcheck` fails"),
    Need("API", "database, for writes", "a trial, when heartbeats are old", health.write_problem,
         "a second", "503 that says why; reads go on in request slots of their own"),
    Need("API", "Redis, and RabbitMQ if it carries messages", "each use; while it is lost, a thread"
         f" tries it every second, for {breakers.PROBE_TIMEOUT:g} s", CircuitBreaker.guard,
         "`[broker]connect_timeout`", "verbs: 202, sent later; calls to machines: 503"),
    Need("API", "a free request slot", "each request", RequestSlots.hold, "at once",
         "503 beyond the places in the queue"),
    Need("conductor", "database, for writes", "its heartbeat", conductors.heartbeat,
         "`[conductor]heartbeat_timeout`", "it counts as dead; others take over, and it renews only"
         " the leases of running calls"),
    Need("conductor", "Redis", "a read with each heartbeat", Life._of_broker,
         "half of `heartbeat_timeout`", "impeded"),
    Need("conductor", "its queue, and a thread that takes its messages",
         "an echo: a message to itself, by Redis or RabbitMQ as all others", Echoes.start, _ECHO,
         "impeded, unless all threads are at work"),
    Need("conductor", "step threads within `[conductor]step_timeout`", "the start of each step",
         StepThreads.impediment, "`step_timeout`", "impeded when all threads exceed it; their steps"
         " are taken over"),
    Need("conductor", "its control process", "an echo by its queue; each heartbeat checks that"
         " the process exists", ControlSigns.impediment, _ECHO,
         "impeded; if the process has ended, the conductor stops and is started again"),
    Need("conductor", "a path to its BMCs", f"each power sync; if none of {FEWEST} or more BMCs"
         " answers, a neighbour of its group reads three of them", BmcNetwork.judge,
         "`[conductor]sync_power_state_interval`, and the time of a sync",
         "impeded if a neighbour reads one, until it reads one itself; else the machines are away,"
         " and nothing is handed over"),
    Need("conductor", "periodic tasks that complete", "the record of each completed pass",
         periodic_passes.passes, "three periods and two `heartbeat_timeout`",
         "the health check, the page, `ingot doctor` and an alert name the task"),
    Need("beat", "database, for writes", "each renewal of its lease", LeasedScheduler._leads,
         f"{LEASE:g} s", "another beat leads"),
    Need("beat", "the broker", "each message; a write before it leads",
         LeasedScheduler._reaches_broker, f"{LEASE:g} s", "it steps down; another beat leads"),
    Need("exporter", "database and broker", "each scrape", exporter.FleetCollector.collect,
         f"{exporter.COUNT_INTERVAL:g} s", "`ingot_reached` is 0"),
    Need("files, exporter", "their process", "`ingot up` sees its end", Children.reap, "at once",
         "it is started again after 0.2 s"),
    Need("files, exporter", "an answer", "a request with each health check of the API, at most"
         f" every {health.TRIAL_KEPT:g} s", listeners.hangs, f"{listeners.PATIENCE:g} s",
         "the health check, the page and `ingot doctor` name a server that takes connections and"
         " does not answer"),
)  # fmt: skip
