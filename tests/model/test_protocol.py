"""The protocol of docs/protocol.md holds in a small world, and each of its parts is needed."""

import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from tests.model.checker import Broken
from tests.model.protocol import World
from tests.model.runner import check, reached
from tests.model.state import CUTS, EXCHANGE, FAULTS, PROMOTION
from tests.model.symmetry import canonical

#: Pairs of faults that are harmless alone.
TOGETHER = [
    ("answer", "repetition"), ("flush", "repetition"), ("loss", "answer"), ("silence", "answer"),
    ("impatience", "repetition"), ("restore", "loss"),
]  # fmt: skip

ONE_RECORDS = "two attempts may record"
ONE_TRUSTS = "two threads trust their lease"
OWN_FENCE = "two dispatches have one fence"
RESERVED = "the reservation does not match the operation's state"
CLAIMED = "a claim in a restored database"
STUCK = "no conductor drives the operation"
#: Part of the protocol; faults that reveal its absence; violation.
NEEDED = [
    ("the wait for admission", (), "an operation is sent before its admission"),
    ("fence in the claim", ("repetition",), "a message of an old fence claims"),
    ("cursor and claims in the claim", ("stop",), "the claimed step is not the message's"),
    ("one claim", ("flush",), "a claimed step is claimed again"),
    ("token of the claim", ("answer",), "a claim of a live process has no attempt"),
    ("fence and claim in the record", ("slowness",), ONE_RECORDS),
    ("claim in the record", ("answer",), ONE_RECORDS),
    ("state in the record", ("answer",), "a step is recorded twice per dispatch"),
    ("raising the fence at takeover", ("death",), OWN_FENCE),
    ("raising the fence at waking", (), OWN_FENCE),
    ("one lease", ("repetition",), ONE_TRUSTS),
    ("giving back only what is ours", ("slowness",), ONE_TRUSTS),
    ("an end to trusting the lease", ("slowness",), ONE_TRUSTS),
    ("an end to renewing", ("hanging",), STUCK),
    ("check before an order", ("flush",), "an order is given without a lease"),
    ("fence when regaining the lease", ("stop",),
     "a conductor that was declared dead gives more than its pending order"),
    ("resending", ("flush",), STUCK),
    ("takeover at the deadline", ("hanging",), STUCK),
    ("deadline of the wait", ("stop",), STUCK),
    ("freeing the node while it waits", (), RESERVED),
    ("freeing the node at the end", (), RESERVED),
    ("mark in the claim", ("restore",), CLAIMED),
    ("mark in the record", ("restore",), "a record in a restored database"),
    ("age of the mark", ("restore", "stop"), CLAIMED),
    ("date of the mark", ("restore", "stop"), CLAIMED),
    ("witness at a heartbeat", ("restore", "stop"), CLAIMED),
    ("witness at the start", ("restore", "death"), CLAIMED),
    ("note of the work", ("restore",), "an operation with work since the backup continues"),
    ("admission in the claim", ("restore",), "a claim before the admission"),
    ("stepping down of a beat", ("beat's cut",), STUCK),
    ("leaving the ring", ("Redis' cut",), STUCK),
    ("an end to renewing without the database", ("database's cut",), STUCK),
]  # fmt: skip
#: A world in which a standby without the last writes is promoted.
PROMOTED = World(faults=(PROMOTION,), last_step=1, prompt=True)
NEEDED_AFTER_PROMOTIONS = [
    (
        "giving up what a promotion has lost",
        (PROMOTION,),
        "a claim of a live process has no attempt",
    ),
]
#: Parts that matter in a fleet of two releases, or when conductors are exchanged for older ones.
NEEDED_OF_RELEASES = [
    ("sending to a capable receiver", (1, 2), (),
     "a message to a conductor that does not understand it"),
    ("kind of a message", (2, 2), ("death", EXCHANGE), "a message of a newer release is read"),
    ("version in the claim", (2, 2), ("death", EXCHANGE),
     "an operation of a newer release is claimed"),
    ("handing on", (2, 2), ("death", EXCHANGE),
     "an operation of a newer release is not redispatched"),
]  # fmt: skip
#: Parts that only save time; and the fault that each is for.
SPARE = [
    ("recognizing its own record", "answer"), ("waking at once", "impatience"),
    ("handing over", "leaving"),
]  # fmt: skip


@pytest.mark.parametrize("fault", [*FAULTS, *CUTS])
def test_the_operation_ends_as_it_should_after_each_fault_at_any_moment(fault):
    assert check(World(faults=(fault,), last_step=1, rows=False)) > 400


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_the_operation_ends_as_it_should_though_it_waits_for_a_slot_between_two_flows(fault):
    world = World(faults=(fault,) if fault else (), queues=True, rows=False)
    assert check(world, alone=fault is not None) > 40


def test_an_operation_that_enters_a_queue_needs_another_fence():
    with pytest.raises(Broken) as broken:
        check(World(queues=True, without="raising the fence in a queue"))
    assert OWN_FENCE == broken.value.violation


@pytest.mark.parametrize("faults", TOGETHER, ids=" and ".join)
def test_the_operation_ends_as_it_should_after_two_faults(faults):
    assert check(World(faults=faults, last_step=1, rows=False)) > 500


@pytest.mark.parametrize("fault", ["answer", "loss", "silence"])
def test_the_operation_ends_though_all_messages_are_lost_and_one_conductor_is_left(fault):
    assert check(World(faults=(fault,), last_step=1), alone=True) > 400


@pytest.mark.parametrize("fault", ["repetition", "leaving"])
def test_in_a_fleet_of_two_releases_a_capable_conductor_runs_the_operation(fault):
    world = World(faults=(fault,), last_step=1, releases=(1, 2), needs=2, unaware=True)
    assert check(world, alone=True) > 200


@pytest.mark.parametrize(("without", "faults", "violation"), NEEDED, ids=[row[0] for row in NEEDED])
def test_without_a_part_of_the_protocol_an_invariant_is_violated(without, faults, violation):
    with pytest.raises(Broken) as broken:
        check(World(faults=faults, last_step=1, without=without))
    assert violation == broken.value.violation
    assert len(broken.value.trace) > 1


def test_after_a_promotion_that_lost_the_last_writes_no_deadline_is_waited_for():
    assert check(PROMOTED) > 400


def test_without_the_comparison_with_its_claims_a_promotion_leaves_one_that_nobody_works_on():
    ((without, _, violation),) = NEEDED_AFTER_PROMOTIONS
    with pytest.raises(Broken) as broken:
        check(replace(PROMOTED, without=without))
    assert violation == broken.value.violation


@pytest.mark.parametrize(
    ("without", "releases", "faults", "violation"), NEEDED_OF_RELEASES,
    ids=[row[0] for row in NEEDED_OF_RELEASES],
)  # fmt: skip
def test_without_a_part_that_separates_releases_an_invariant_is_violated(
    without, releases, faults, violation
):
    world = World(
        faults=faults, last_step=1, releases=releases, needs=2, unaware=True, without=without
    )
    with pytest.raises(Broken) as broken:
        check(world)
    assert violation == broken.value.violation


@pytest.mark.parametrize(("without", "fault"), SPARE)
def test_without_a_part_that_only_saves_time_the_operation_ends_as_well(without, fault):
    assert check(World(faults=(fault,), last_step=1, without=without), alone=True) > 400


@pytest.mark.parametrize("fault", ["answer", "impatience"])
def test_merging_states_that_differ_in_names_loses_none(fault):
    world = World(faults=(fault,), last_step=1)
    start = [("start", world.start())]
    all_states = reached(world, start, one=lambda state: state).states
    merged_states = reached(world, start).states
    assert {canonical(state) for state in all_states} == set(merged_states)
    assert len(all_states) > 2 * len(merged_states)


def test_the_docs_list_the_parts_of_the_protocol_and_their_violations():
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
    table = page.partition("## What each part is for")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| ([^|]+?) \| [^|]+ \| ([^|]+?) \|$", table, re.MULTILINE)[2:]
    assert [
        (row[0], row[-1]) for row in (*NEEDED, *NEEDED_AFTER_PROMOTIONS, *NEEDED_OF_RELEASES)
    ] == documented


def test_the_docs_name_the_function_of_each_action():
    root = Path(__file__).parents[2]
    table = (root / "docs/protocol.md").read_text().partition("| action | guard |")[2]
    rows = table.partition("\n\n")[0].splitlines()[2:]
    files = (path for room in ("app", "workers") for path in (root / room).rglob("*.py"))
    sources = [(path.stem, path.read_text()) for path in files]
    mentions = {row: re.findall(r"`(\w+)\.(\w+)`", row.split(" | ")[-1]) for row in rows}
    assert len(mentions) > 20
    assert [] == [row for row, functions in mentions.items() if not functions]
    for place, function in chain.from_iterable(mentions.values()):  # place: a module or a class
        assert [
            module
            for module, text in sources
            if module == place or re.search(rf"^class {place}\b", text, re.MULTILINE)
            if re.search(rf"\bdef {function}\b", text)
        ], f"{place}.{function}"
