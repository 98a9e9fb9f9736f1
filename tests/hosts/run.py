"""A phase: clients and probes work while a fault comes and goes, until all rests; the verdict."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

from tests.chaos.clients import Client, Ledger
from tests.hosts.judge import Judge, await_rest
from tests.hosts.probes import Probes
from tests.hosts.site import APIS
from tests.support.receiver import SECRET, receiving
from tests.support.stream_reader import Reader

#: Seconds of undisturbed work before a fault, and after it.
BEFORE, AFTER = 6, 4
#: Most seconds until all rests.
REST = 180
#: Seconds before the loss of writes that may be lost, too: a client waits for its answer.
MARGIN = 3.0


@dataclass(slots=True)
class Row:
    """Result of a phase."""

    phase: object
    seconds: float  # from the begin of the fault to its end
    accepted: int
    verdict: object
    rest: float  # seconds from the end of the fault until nothing was under way
    reads: tuple  # longest seconds without an answer: of any host, of each
    writes: tuple
    forgiven: int = 0  # nodes with acknowledged writes that the database has lost

    @property
    def ok(self):
        return self.verdict.ok


def phase(site, about, clients, say=print):
    """Run a phase; return its Row."""
    nodes = [each["uuid"] for each in site.machines]
    site.stops, stop, ledger = [], threading.Event(), Ledger()
    locks = {node: threading.Lock() for node in nodes}
    judge = Judge(site)
    # the position makes the random choices of each phase others: no key of a request comes again
    names = [f"{judge.position}/{number}" for number in range(clients)]
    callers = [Client(site, name, nodes, locks, ledger, stop) for name in names]
    with _reading(site, judge) as (streams, receiver), Probes(site) as probes:
        for each in callers:
            each.start()
        try:
            time.sleep(BEFORE)
            began, wall = time.monotonic(), time.time()
            with about.fault(site):
                time.sleep(about.seconds)
            ended, until = time.monotonic(), time.time()
            time.sleep(AFTER)
        finally:
            stop.set()
        for each in callers:
            each.join()
        _, stuck = await_rest(site, REST)
        rest = time.monotonic() - ended
        forgiven = set()
        if about.loses:
            forgiven = _lost_with_the_database(ledger, wall - MARGIN, until) | _restored(site)
            probes.stale.clear()
        verdict = judge.judge(
            ledger, probes, stuck, fault=wall, excused=about.excused, stops=site.stops,
            allowed=about.allowed, forgiven=forgiven,
        )  # fmt: skip
        if not about.loses:  # numbers of events that were lost are given again
            judge.judge_readers(verdict, streams, receiver)
    gaps = {
        kind: (probes.gap(kind, *APIS), *(probes.gap(kind, host) for host in APIS))
        for kind in ("read", "write")
    }
    _repair(site)
    accepted = ledger.counts["accepted"]
    return Row(
        about, ended - began, accepted, verdict, rest, gaps["read"], gaps["write"], len(forgiven)
    )


def _lost_with_the_database(ledger, begin, end):
    """Nodes with requests in the time whose writes the database has lost."""
    return {
        node
        for node, entries in ledger.accepted.items()
        if any(begin <= entry.known and entry.sent <= end for entry in entries)
    } | {node for node, _ in ledger.unknown}


def _restored(site):
    """Nodes that the service has put into maintenance for a loss of writes."""
    found = site.get("nodes", fields="uuid,fault", limit=1000)["nodes"]
    return {each["uuid"] for each in found if each["fault"] == "restored"}


def _repair(site):
    """Act as an operator: end maintenance and holds that a phase has left, for the next one."""
    for node in site.get("nodes", fields="uuid,maintenance", limit=1000)["nodes"]:
        if node["maintenance"]:
            site.request("DELETE", f"nodes/{node['uuid']}/maintenance")
    for hold in site.get("holds")["holds"]:
        site.request("DELETE", f"holds/{hold['uuid']}")


@contextmanager
def _reading(site, judge):
    """Read the events of a phase: a stream of each host, and a webhook's receiver."""
    with receiving(host=site.outside) as receiver:
        body = {"name": f"phase-{judge.position}", "url": receiver.url, "secret": SECRET}
        created = site.request("POST", "webhooks", body)
        judge.position = created["position"]
        streams = [Reader(url, f"{site.seed}/{judge.position}", 300) for url in site.urls.values()]
        for each in streams:
            each.position = judge.position
            each.start()
        try:
            yield streams, receiver
        finally:
            for each in streams:
                each.ended.set()
            site.request("DELETE", f"webhooks/{created['uuid']}")
