"""Plans of rollouts: waves, groups, and nodes that are excluded."""

from types import SimpleNamespace

import pytest

from app.errors import Invalid
from app.rollouts import rollout_plan
from app.rollouts.rollout_plan import Strategy


def waves(groups, **strategy):
    """Waves of nodes that are named by their groups and numbers, as lists of names."""
    rows = [SimpleNamespace(group=group, id=number) for number, group in enumerate(groups)]
    limits = Strategy(**strategy)
    planned = rollout_plan._waves(rows, limits, min(limits.canary, len(rows)))
    return [[row.group for row in wave] for wave in planned]


@pytest.mark.parametrize(
    ("groups", "strategy", "expected"),
    [
        ("aaa", {}, ["a", "a", "a"]),
        ("aaa", {"max_unavailable": "2"}, ["aa", "a"]),
        ("a" * 10, {"max_unavailable": "35%"}, ["aaa", "aaa", "aaa", "a"]),
        ("aa", {"max_unavailable": "1%"}, ["a", "a"]),
        ("abab", {"max_unavailable": "9", "max_groups": 1}, ["aa", "bb"]),
        ("abcabc", {"max_unavailable": "9", "max_groups": 2}, ["aabb", "cc"]),
        ("aaab", {"max_unavailable": "2", "max_groups": 1}, ["aa", "a", "b"]),
        ("aaabb", {"max_unavailable": "9", "max_per_group": 1}, ["ab", "ab", "a"]),
        ("aabbcc", {"max_unavailable": "3", "max_per_group": 2}, ["aab", "bcc"]),
        ("aaaa", {"max_unavailable": "3", "canary": 1}, ["a", "aaa"]),
        ("aaaaa", {"max_unavailable": "2", "canary": 3}, ["aa", "a", "aa"]),
        ("ab", {"canary": 5, "max_unavailable": "9"}, ["ab"]),
        ("", {}, []),
    ],
)
def test_waves_meet_all_limits(groups, strategy, expected):
    assert [list(wave) for wave in expected] == waves(groups, **strategy)


def test_a_plan_has_each_node_once_also_with_many_groups():
    groups = [f"rack-{number % 500}" for number in range(20_000)]
    planned = waves(groups, max_unavailable="70", max_groups=30, max_per_group=4)
    assert sorted(groups) == sorted(group for wave in planned for group in wave)
    assert 70 >= max(map(len, planned))
    assert 30 >= max(len(set(wave)) for wave in planned)
    assert 4 >= max(wave.count(group) for wave in planned for group in wave)


def test_nodes_are_grouped_by_fields_and_by_keys_of_documents(fleet):
    fleet.node(extra={"rack": "r1"}, shard="s2")
    fleet.node(extra={"rack": "r2"}, shard="s1")
    fleet.node(extra={"rack": 3})
    fleet.node(extra={})
    by_rack = fleet.plan(strategy=Strategy(group_by="extra.rack")).members
    assert ["", "3", "r1", "r2"] == [member.group for member in by_rack]
    by_shard = fleet.plan(strategy=Strategy(group_by="shard")).members
    assert ["", "", "s1", "s2"] == [member.group for member in by_shard]


def test_nodes_that_cannot_take_part_are_excluded_with_the_reason(fleet):
    fine = fleet.inside.read(fleet.node())
    fleet.node("active", name="busy")
    fleet.node(maintenance=True, name="broken")
    fleet.node(owner="p-2", name="foreign")
    plan = fleet.plan(denial=lambda owner, _lessee: "not yours" if owner == "p-2" else None)
    assert [fine.uuid] == [member.uuid for member in plan.members]
    reasons = {exclusion.name: exclusion.reason for exclusion in plan.excluded}
    assert 'is in state "active"' in reasons["busy"].replace("it is in", "is in")
    assert "maintenance" in reasons["broken"]
    assert "not yours" == reasons["foreign"]
    off = fleet.plan("power off").members
    assert 4 == len(off), "power needs no provision state, and no maintenance forbids it"


def test_a_rollout_without_nodes_is_refused(fleet):
    fleet.node("active")
    with pytest.raises(Invalid, match="nodes: none of 1 matching node can take part"):
        fleet.create()
