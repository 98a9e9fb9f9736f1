"""The protocol of docs/protocol.md holds in a small world, and what it is made of is needed."""

import pytest

from tests.model.checker import Broken
from tests.model.protocol import World
from tests.model.runner import check
from tests.model.state import FAULTS

#: Two faults at once, where one alone is harmless.
TOGETHER = [
    ("answer", "repetition"), ("flush", "repetition"), ("loss", "answer"), ("silence", "answer"),
    ("impatience", "repetition"),
]  # fmt: skip
#: What the protocol is made of; the fault that shows its want; what is then seen.
NEEDED = [
    ("the wait for admission", (), "nothing is sent or claimed before it is admitted"),
    ("fence in the claim", ("repetition",), "a message of an old fence claims nothing"),
    ("one claim", ("flush",), "what another attempt has claimed is not claimed"),
    ("fence and claim in the record", ("slowness",), "at most one attempt may record"),
    ("claim in the record", ("answer",), "at most one attempt may record"),
    ("raising the fence at takeover", ("death",), "each handing out has a fence of its own"),
    ("token of the claim", ("answer",), "a claim of a living process has its attempt"),
    ("resending", ("flush",), "nobody drives it"),
    ("takeover at the deadline", ("hanging",), "nobody drives it"),
    ("an end to renewing", ("hanging",), "nobody drives it"),
    ("freeing the node while it waits", (),
     "the node is reserved exactly while its operation is queued or running"),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_happens_at_whatever_moment_the_operation_ends_as_it_should(fault):
    assert check(World(faults=(fault,), last=1)) > 500


@pytest.mark.parametrize("faults", TOGETHER, ids=" and ".join)
def test_so_it_does_when_two_things_happen(faults):
    assert check(World(faults=faults, last=1)) > 1000


@pytest.mark.parametrize("fault", ["answer", "loss", "silence"])
def test_it_ends_though_all_messages_are_lost_and_one_conductor_is_left(fault):
    assert check(World(faults=(fault,), last=1), alone=True) > 500


@pytest.mark.parametrize(("without", "faults", "what"), NEEDED, ids=[row[0] for row in NEEDED])
def test_without_a_part_of_the_protocol_it_is_seen_to_break(without, faults, what):
    with pytest.raises(Broken) as broken:
        check(World(faults=faults, last=1, without=without))
    assert what == broken.value.what
    assert len(broken.value.trace) > 1
