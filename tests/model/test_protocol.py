"""The protocol of docs/protocol.md holds in a small world, and what it is made of is needed."""

import re
from pathlib import Path

import pytest

from tests.model.checker import Broken
from tests.model.protocol import World
from tests.model.runner import check, reached
from tests.model.state import EXCHANGE, FAULTS
from tests.model.symmetry import canonical

#: Two faults at once, where one alone is harmless.
TOGETHER = [
    ("answer", "repetition"), ("flush", "repetition"), ("loss", "answer"), ("silence", "answer"),
    ("impatience", "repetition"), ("restore", "loss"),
]  # fmt: skip

ONE_RECORDS = "at most one attempt may record"
ONE_TRUSTS = "while Redis keeps what it holds, at most one thread trusts its lease"
OWN_FENCE = "each handing out has a fence of its own"
RESERVED = "the node is reserved exactly while its operation is queued or running"
CLAIMED = "nothing is claimed in a restored database"
STUCK = "nobody drives it"
#: What the protocol is made of; the faults that show its want; what is then seen.
NEEDED = [
    ("the wait for admission", (), "nothing is sent before it is admitted"),
    ("fence in the claim", ("repetition",), "a message of an old fence claims nothing"),
    ("cursor and claims in the claim", ("stop",), "what is claimed is the step of the message"),
    ("one claim", ("flush",), "what another attempt has claimed is not claimed"),
    ("token of the claim", ("answer",), "a claim of a living process has its attempt"),
    ("fence and claim in the record", ("slowness",), ONE_RECORDS),
    ("claim in the record", ("answer",), ONE_RECORDS),
    ("state in the record", ("answer",), "a step is recorded once per handing out"),
    ("raising the fence at takeover", ("death",), OWN_FENCE),
    ("raising the fence at waking", (), OWN_FENCE),
    ("one lease", ("repetition",), ONE_TRUSTS),
    ("giving back only what is ours", ("slowness",), ONE_TRUSTS),
    ("an end to trusting the lease", ("slowness",), ONE_TRUSTS),
    ("an end to renewing", ("hanging",), STUCK),
    ("check before an order", ("flush",), "an order is given only under a lease"),
    ("fence when regaining the lease", ("stop",),
     "who was given up for dead gives no order but the one that it was about to give"),
    ("resending", ("flush",), STUCK),
    ("takeover at the deadline", ("hanging",), STUCK),
    ("deadline of the wait", ("stop",), STUCK),
    ("freeing the node while it waits", (), RESERVED),
    ("freeing the node at the end", (), RESERVED),
    ("mark in the claim", ("restore",), CLAIMED),
    ("mark in the record", ("restore",), "nothing is recorded in a restored database"),
    ("age of the mark", ("restore", "stop"), CLAIMED),
    ("date of the mark", ("restore", "stop"), CLAIMED),
    ("witness at a heartbeat", ("restore", "stop"), CLAIMED),
    ("witness at the start", ("restore", "death"), CLAIMED),
    ("note of the work", ("restore",), "what was worked on since the backup is in doubt"),
    ("admission in the claim", ("restore",), "nothing is claimed before it is admitted"),
]  # fmt: skip
#: The same of two releases in one fleet, or of two conductors that are exchanged for older ones.
NEEDED_OF_RELEASES = [
    ("sending to a capable receiver", (1, 2), (), "nothing is sent to who does not understand it"),
    ("kind of a message", (2, 2), ("death", EXCHANGE),
     "no message of a newer release is read"),
    ("version in the claim", (2, 2), ("death", EXCHANGE),
     "what is of a newer release is not claimed"),
    ("handing on", (2, 2), ("death", EXCHANGE), "what is of a newer release is handed on"),
]  # fmt: skip
#: What makes it faster, not right; and the fault that it is for.
SPARE = [
    ("knowing the own record", "answer"), ("waking at once", "impatience"),
    ("handing over", "leaving"),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_happens_at_whatever_moment_the_operation_ends_as_it_should(fault):
    assert check(World(faults=(fault,), last=1, rows=False)) > 400


@pytest.mark.parametrize("faults", TOGETHER, ids=" and ".join)
def test_so_it_does_when_two_things_happen(faults):
    assert check(World(faults=faults, last=1, rows=False)) > 500


@pytest.mark.parametrize("fault", ["answer", "loss", "silence"])
def test_it_ends_though_all_messages_are_lost_and_one_conductor_is_left(fault):
    assert check(World(faults=(fault,), last=1), alone=True) > 400


@pytest.mark.parametrize("fault", ["repetition", "leaving"])
def test_in_a_fleet_of_two_releases_it_is_done_by_who_understands_it(fault):
    world = World(faults=(fault,), last=1, releases=(1, 2), needs=2, unaware=True)
    assert check(world, alone=True) > 200


@pytest.mark.parametrize(("without", "faults", "what"), NEEDED, ids=[row[0] for row in NEEDED])
def test_without_a_part_of_the_protocol_it_is_seen_to_break(without, faults, what):
    with pytest.raises(Broken) as broken:
        check(World(faults=faults, last=1, without=without))
    assert what == broken.value.what
    assert len(broken.value.trace) > 1


@pytest.mark.parametrize(
    ("without", "releases", "faults", "what"), NEEDED_OF_RELEASES,
    ids=[row[0] for row in NEEDED_OF_RELEASES],
)  # fmt: skip
def test_without_what_keeps_releases_apart_it_is_seen_to_break(without, releases, faults, what):
    world = World(faults=faults, last=1, releases=releases, needs=2, unaware=True, without=without)
    with pytest.raises(Broken) as broken:
        check(world)
    assert what == broken.value.what


@pytest.mark.parametrize(("without", "fault"), SPARE)
def test_without_what_only_saves_time_it_ends_as_well(without, fault):
    assert check(World(faults=(fault,), last=1, without=without), alone=True) > 400


@pytest.mark.parametrize("fault", ["answer", "impatience"])
def test_to_take_states_for_one_that_differ_in_names_loses_none(fault):
    world = World(faults=(fault,), last=1)
    start = [("start", world.start())]
    each = reached(world, start, one=lambda state: state).states
    some = reached(world, start).states
    assert {canonical(state) for state in each} == set(some)
    assert len(each) > 2 * len(some)


def test_the_docs_tell_of_each_part_what_it_is_for():
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
    table = page.partition("## What each part is for")[2]
    told = re.findall(r"^\| ([^|]+?) \|", table.partition("\n## ")[0], re.MULTILINE)[2:]
    assert [row[0] for row in (*NEEDED, *NEEDED_OF_RELEASES)] == told
