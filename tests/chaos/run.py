"""A run: a site, its clients and the storm, until the site is at rest, and the verdict."""

import signal
import threading
import time
from collections import Counter
from random import Random

from tests.chaos import audit, judge, readers
from tests.chaos.clients import Client, Ledger
from tests.chaos.storm import FLAKY, Storm, rudeness

#: Share of the machines whose BMCs are flaky.
FLAKY_PART = 0.1
#: Most seconds until the readers of change events have the newest one.
READERS_REST = 60.0


def storm(site, *, minutes, gap, clients, rest_limit, rude=0.0, say=print):
    """
    Run a storm over a site for some minutes; return (storm, ledger, verdict, facts).

    gap: mean seconds between two disturbances. rude: share of the machines whose BMCs are rude; no
    failure is excused by that. rest_limit: most seconds until the site is at rest.
    """
    began = time.monotonic()
    nodes = site.enrol()
    audit.lay(site)
    flaky = sorted(
        Random(site.seed).sample(range(site.nodes), max(1, round(site.nodes * FLAKY_PART)))
    )
    for number in flaky:
        site.set_faults(number, **FLAKY)
    rude_machines = Random(f"{site.seed}/rude").sample(range(site.nodes), round(site.nodes * rude))
    for number in rude_machines:
        site.set_faults(number, **rudeness(site.seed, number))
    say(f"{site.nodes} nodes enrolled in {time.monotonic() - began:.0f} s; the storm begins")
    stop, ledger = threading.Event(), Ledger()
    locks = {node: threading.Lock() for node in nodes}
    callers = [Client(site, number, nodes, locks, ledger, stop) for number in range(clients)]
    blowing = Storm(site, flaky, gap)
    with readers.reading(site, stop) as read:
        for caller in callers:
            caller.start()
        ending = threading.Timer(minutes * 60, stop.set)
        ending.start()
        try:
            _report_while(blowing, stop, ledger, site, say)
        finally:
            stop.set()
            ending.cancel()
        for caller in callers:
            caller.join()
        say("the storm is over; waiting for rest")
        took, stuck = judge.await_rest(site, rest_limit)
        say(f"at rest after {took:.0f} s" if not stuck else f"{len(stuck)} operations are stuck")
        verdict = judge.judge(site, ledger, flaky, blowing.stops, stuck)
        read.await_newest(READERS_REST)
        read.judge(verdict)
    facts = {
        "minutes of storm": f"{minutes:g}",
        "machines, of them with a flaky BMC": f"{site.nodes}, {len(flaky)}",
        "machines with a rude BMC": len(rude_machines),
        "conductors, API processes, beats": f"{len(site.conductors)}, {len(site.apis)}, {len(site.beats)}",
        "clients": clients,
        "seed": site.seed,
        "seconds from the end of the storm to rest": f"{took:.0f}",
    }
    for name in site.roles:
        site.end(name, signal.SIGTERM)
    judge.judge_end(verdict, site, [name for name in site.roles if name in site.pids])
    return blowing, ledger, verdict, facts


def _report_while(blowing, stop, ledger, site, say):
    """Run the storm; report its progress every half minute."""
    over = threading.Event()

    def report():
        while not over.wait(30):
            try:
                states = Counter(
                    dict(site.query("SELECT provision_state, count(*) FROM nodes GROUP BY 1"))
                )
            except Exception as error:  # the database is being disturbed
                states = f"({type(error).__name__})"
            say(
                f"{blowing.counts.total()} disturbances, {ledger.counts['accepted']} accepted, {states}"
            )

    reporting = threading.Thread(target=report, daemon=True)
    reporting.start()
    try:
        blowing.blow(stop)
    finally:
        over.set()
        reporting.join()
