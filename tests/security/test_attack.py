"""All attacks of the benchmark at once, for a few seconds."""

from dataclasses import replace

from tests.bench.attacks import ATTACKS
from tests.bench.bench_attack import ALL, QUIET, measure, site
from tests.support.fleet import until

#: Nodes in the list, agents, seconds of each measurement, and the share of the attackers.
NODES, AGENTS, SECONDS, SHARE = 200, 60, 4.0, 0.5
#: Times by which a list may become slower: other programs use the processors of a test, too. An
#: attack that holds all request slots delays it by seconds, hundreds of times.
SLOWER = 40


def with_samples(service, attacks):
    """A measurement in which agents and long polls had answers; a busy machine may need another."""
    found = measure(service, SECONDS, SECONDS, attacks, parts=(QUIET, ALL))
    tallies = found[ALL].tallies
    return found if tallies["agents"].statuses and tallies["long polls"].statuses else None


def test_attacks_of_all_kinds_delay_an_operator_and_heartbeats_little(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.bench.bench_attack.GAP", SECONDS)
    fewer = {name: replace(each, size=int(each.size * SHARE)) for name, each in ATTACKS.items()}
    with site(tmp_path, NODES, AGENTS) as service:
        found = until(lambda: with_samples(service, fewer), "a measurement with samples")
    attacked = found[ALL]
    agents, *_ = statuses = [each.statuses for each in attacked.tallies.values()]
    # on a machine without a free processor, the places of agents are full for moments
    assert {"202"} <= agents.keys() <= {"202", "503"}
    assert agents["202"] > agents.total() / 2
    bodies, readers, passwords, polls, reports = statuses[1:]
    assert not readers.keys() - {"200"}
    assert not passwords.keys() - {"401", "429", "503"}
    assert not polls.keys() - {"200", "429", "503"}
    assert not reports.keys() - {"400", "429", "503", "closed"}
    assert not bodies.keys() - {"400", "408", "429", "503", "closed"}
    assert attacked.p50 < SLOWER * found[QUIET].p50
