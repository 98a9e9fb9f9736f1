"""A phase: clients and probes work while a fault comes and goes, until all rests; the verdict."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

from tests.chaos.clients import Client, Ledger
from tests.hosts import judge
from tests.hosts.judge import REST, Excuses, Judge, await_rest
from tests.hosts.probes import Probes
from tests.hosts.site import APIS
from tests.support.receiver import SECRET, receiving
from tests.support.stream_reader import Reader

#: Seconds of undisturbed work before a fault, and after it.
BEFORE, AFTER = 6, 4
#: States of nodes that a step holds, and most steps of an operation that hold it.
HELD, HOLDS = ("clean hold", "deploy hold", "service hold"), 4
#: Seconds before and after a loss of writes in which requests may be lost, too: a client waits.
MARGIN = 3.0


@dataclass(slots=True)
class Row:
    """Result of a phase."""

    phase: object
    seconds: float  # from the begin of the fault to its end
    accepted: int
    verdict: object
    rest_seconds: float  # seconds from the end of the fault until nothing was under way
    reads: tuple  # longest seconds without an answer: of any host, of each
    writes: tuple
    took: dict  # part of the phase -> seconds

    @property
    def ok(self):
        return self.verdict.ok


class Laps:
    """Durations of the parts of a phase."""

    def __init__(self):
        self.took, self._part_started_at = {}, time.monotonic()

    def end(self, part):
        now = time.monotonic()
        self.took[part], self._part_started_at = now - self._part_started_at, now


def phase(site, about, clients):
    """Run a phase; return its Row."""
    laps = Laps()
    nodes = [machine["uuid"] for machine in site.machines]
    site.stops, stop, ledger = [], threading.Event(), Ledger()
    locks = {node: threading.Lock() for node in nodes}
    judging = Judge(site)
    # the name makes the random choices of each phase others: no key of a request comes again
    names = [f"{about.name}/{number}" for number in range(clients)]
    callers = [Client(site, name, nodes, locks, ledger, stop) for name in names]
    with _reading(site, judging) as (streams, receiver), Probes(site) as probes:
        laps.end("begin")
        for caller in callers:
            caller.start()
        try:
            time.sleep(BEFORE)
            wall = time.time()
            with about.fault(site):
                time.sleep(about.seconds)
            until = time.time()
            time.sleep(AFTER)
        finally:
            stop.set()
        laps.end("work")
        for caller in callers:
            caller.join()
        laps.end("last requests")
        _, stuck = await_rest(site, REST, judging.stuck)
        rested = time.time()
        laps.end("rest")
        lost = frozenset()
        if about.loses:
            # the rows of the judge are those of the end, so a restore has been detected by then
            end = wall + about.loses + MARGIN
            lost = frozenset(lost_with_the_database(ledger, wall - MARGIN, end) | _restored(site))
            probes.stale.clear()
        excuses = Excuses(wall, about.allowed, about.excused, tuple(site.stops), lost)
        verdict = judging.judge(ledger, probes.stale, excuses, stuck)
        if not about.loses:  # numbers of events that were lost are given again
            judging.judge_readers(verdict, streams, receiver)
        laps.end("judgement")
    gaps = {
        kind: (probes.gap(kind, *APIS), *(probes.gap(kind, host) for host in APIS))
        for kind in ("read", "write")
    }
    _repair(site)
    laps.end("repair")
    accepted = ledger.counts["accepted"]
    return Row(
        about,
        until - wall,
        accepted,
        verdict,
        rested - until,
        gaps["read"],
        gaps["write"],
        laps.took,
    )


def lost_with_the_database(ledger, begin, end):
    """Nodes with requests in the time whose writes the database has lost, or with lost holds."""
    lost = {
        node
        for node, entries in ledger.accepted.items()
        if any(begin <= entry.answered_at and entry.sent_at <= end for entry in entries)
    }
    lost |= {hold.node for hold in ledger.holds if hold.refused is False}
    return lost | {node for node, _ in ledger.unknown}


def _restored(site):
    """Nodes that the service has put into maintenance for a loss of writes."""
    nodes = site.get("nodes", fields="uuid,fault", limit=1000)["nodes"]
    return {node["uuid"] for node in nodes if node["fault"] == "restored"}


def _repair(site):
    """Act as an operator: end maintenance, holds and held steps that a phase has left."""
    for node in site.get("nodes", fields="uuid,maintenance", limit=1000)["nodes"]:
        if node["maintenance"]:
            site.request("DELETE", f"nodes/{node['uuid']}/maintenance")
    for hold in site.get("holds")["holds"]:
        site.request("DELETE", f"holds/{hold['uuid']}")
    for _ in range(HOLDS):
        nodes = [node for node in judge.nodes(site).values() if node["provision_state"] in HELD]
        for node in nodes:
            site.request("PUT", f"nodes/{node['uuid']}/states/provision", {"target": "unhold"})
        if not nodes:
            return
        judge.await_rest(site, REST)


@contextmanager
def _reading(site, judging):
    """Read the events of a phase: a stream of each host, and a webhook's receiver."""
    with receiving(host=site.outside) as receiver:
        body = {"name": f"phase-{judging.position}", "url": receiver.url, "secret": SECRET}
        created = site.request("POST", "webhooks", body)
        judging.position = created["position"]
        streams = [
            Reader(url, f"{site.seed}/{judging.position}", 300) for url in site.urls.values()
        ]
        for stream in streams:
            stream.position = judging.position
            stream.start()
        try:
            yield streams, receiver
        finally:
            for stream in streams:
                stream.ended.set()
            site.request("DELETE", f"webhooks/{created['uuid']}")
