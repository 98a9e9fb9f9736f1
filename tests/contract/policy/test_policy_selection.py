"""Expressions of selection disclose no field that their caller must not see, and no other node."""

from urllib.parse import quote

import pytest

from tests.contract.policy.conftest import OTHER

#: Expressions about a field of the leased node that its lessee does not see, true and false ones.
TRUE = ("last_error~broke", "last_error=*", "bmc=10.0.0.5", "reservation=vm-*", "broke", "10.0.0.5")
FALSE = ("last_error~other", "bmc=10.0.0.6", "reservation=x", "other", "10.0.0.6")


@pytest.fixture
def leased(guarded):
    """Node of an owner and a lessee, with values in all hidden fields."""
    guarded.api.set(
        guarded.node, reservation="vm-1", driver_info={"redfish_address": "https://10.0.0.5"}
    )
    return guarded


def selected(guarded, who, where):
    answer = guarded.ask(who, "GET", f"/v1/nodes?fields=uuid&where={quote(where)}")
    assert 200 == answer.status_code, answer.text
    return [node["uuid"] for node in answer.json["nodes"]]


@pytest.mark.parametrize("who", ["owner-reader", "system-reader"])
def test_who_sees_a_field_selects_by_it(leased, who):
    for where in TRUE:
        assert [leased.node] == selected(leased, who, where), where
        assert leased.node not in selected(leased, who, f"not ({where})"), where
    for where in FALSE:
        assert [] == selected(leased, who, where), where


def test_a_lessee_learns_nothing_of_hidden_fields(leased):
    for where in (*TRUE, *FALSE):
        assert [] == selected(leased, "lessee-admin", where), where
        assert [leased.node] == selected(leased, "lessee-admin", f"not ({where})"), where
        both = f"driver=fake-hardware and not not ({where})"
        assert [] == selected(leased, "lessee-admin", both), where
    counts = leased.ask("lessee-admin", "GET", "/v1/provision_states?where=last_error~broke")
    assert 0 == counts.json["nodes"]


def test_an_expression_selects_within_the_scope_of_its_caller(leased):
    everything = "driver=fake-hardware or not driver=fake-hardware or *"
    assert [leased.node] == selected(leased, "lessee-reader", everything)
    assert [] == selected(leased, "other-admin", everything)
    assert [] == selected(leased, "other-admin", f"owner={OTHER} or owner!={OTHER}")
    assert {leased.node, leased.foreign} == {*selected(leased, "system-reader", everything)}
