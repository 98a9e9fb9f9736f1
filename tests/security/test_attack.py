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
#: Name of an attack -> the statuses that its clients may get.
ANSWERS = {
    "slow bodies": {"400", "408", "429", "503", "closed"},
    "slow readers": {"200"},
    "wrong passwords": {"401", "429", "503"},
    "long polls": {"200", "429", "503"},
    "16 MiB reports": {"400", "429", "503", "closed"},
    "long lists": {"200", "503"},
    "long lists, same address": {"200", "503"},
}


def with_samples(service, attacks):
    """A measurement in which agents and long polls had answers; a busy machine may need another."""
    measurement = measure(service, SECONDS, SECONDS, attacks, parts=(QUIET, ALL))
    tallies = measurement[ALL].tallies
    return measurement if tallies["agents"].statuses and tallies["long polls"].statuses else None


def test_attacks_of_all_kinds_delay_an_operator_and_heartbeats_little(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.bench.bench_attack.GAP", SECONDS)
    fewer = {
        name: replace(attack, size=int(attack.size * SHARE)) for name, attack in ATTACKS.items()
    }
    with site(tmp_path, NODES, AGENTS) as service:
        measurement = until(lambda: with_samples(service, fewer), "a measurement with samples")
    attacked = measurement[ALL]
    statuses = {name: tally.statuses.keys() for name, tally in attacked.tallies.items()}
    agents = attacked.tallies["agents"].statuses
    # on a machine without a free processor, the places of agents are full for moments
    assert {"202"} <= statuses.pop("agents") <= {"202", "503"}
    assert agents["202"] > agents.total() / 2
    assert ANSWERS.keys() == statuses.keys()
    unexpected = {name: statuses[name] - answers for name, answers in ANSWERS.items()}
    assert not any(unexpected.values()), unexpected
    assert attacked.p50 < SLOWER * measurement[QUIET].p50
