"""The hash ring: owners of nodes, also after a conductor starts or stops."""

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from app.cluster.hash_ring import Member, owner, serving

DRIVER, GROUP = "redfish", "rack-1"
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-", min_size=1, max_size=20)
nodes = st.lists(st.uuids().map(str), min_size=1, max_size=40, unique=True)


def member(name, group=GROUP, drivers=(DRIVER,)):
    return Member(name, f"incarnation of {name}", group, frozenset(drivers))


rings = st.lists(names, min_size=2, max_size=8, unique=True).map(
    lambda drawn_names: [member(name) for name in drawn_names]
)


def owned(ring, nodes):
    return {node: owner(node, DRIVER, GROUP, ring).name for node in nodes}


@given(rings, nodes)
def test_only_the_nodes_of_a_stopped_conductor_move(ring, nodes):
    old_owners = owned(ring, nodes)
    leaver, remainder = ring[0], ring[1:]
    new_owners = owned(remainder, nodes)
    assert {node for node in nodes if old_owners[node] != new_owners[node]} == {
        node for node in nodes if old_owners[node] == leaver.name
    }


@given(rings, nodes)
def test_a_new_conductor_takes_nodes_and_moves_none_between_the_others(ring, nodes):
    joined, members = ring[0], ring[1:]
    old_owners, new_owners = owned(members, nodes), owned(ring, nodes)
    assert all(new_owners[node] in (old_owners[node], joined.name) for node in nodes)


@given(rings, st.uuids().map(str), st.randoms())
def test_the_owner_is_independent_of_the_order_and_the_incarnations_of_members(ring, node, random):
    shuffled = [replace(conductor, incarnation="newer") for conductor in ring]
    random.shuffle(shuffled)
    assert owned(ring, [node]) == owned(shuffled, [node])


def test_only_conductors_of_the_driver_and_the_group_own_a_node():
    ring = [
        member("elsewhere", group="rack-2"),
        member("other-driver", drivers=("ipmi",)),
        member("able", drivers=("ipmi", DRIVER)),
    ]
    assert ["able"] == [member.name for member in serving(DRIVER, GROUP, ring)]
    assert "able" == owner("n", DRIVER, GROUP, ring).name
    assert None is owner("n", "snmp", GROUP, ring)
    assert None is owner("n", DRIVER, GROUP, [])


def test_every_release_computes_the_same_owner():
    ring = [member(f"c-{number}") for number in range(4)]
    shares = owned(ring, [str(UUID(int=number)) for number in range(12)])
    assert "331020323321" == "".join(name.removeprefix("c-") for name in shares.values())


def test_nodes_are_spread_evenly():
    ring = [member(f"c-{number}") for number in range(4)]
    shares = list(owned(ring, [str(UUID(int=number)) for number in range(4000)]).values())
    counts = [shares.count(member.name) for member in ring]
    assert 4000 == sum(counts)
    # 1000 each, within six standard deviations
    assert all(abs(count - 1000) < 165 for count in counts), counts
