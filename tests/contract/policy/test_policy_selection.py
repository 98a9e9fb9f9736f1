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


def selected(guarded, caller, condition):
    answer = guarded.ask(caller, "GET", f"/v1/nodes?fields=uuid&where={quote(condition)}")
    assert 200 == answer.status_code, answer.text
    return [node["uuid"] for node in answer.json["nodes"]]


@pytest.mark.parametrize("caller", ["owner-reader", "system-reader"])
def test_who_sees_a_field_selects_by_it(leased, caller):
    for condition in TRUE:
        assert [leased.node] == selected(leased, caller, condition), condition
        assert leased.node not in selected(leased, caller, f"not ({condition})"), condition
    for condition in FALSE:
        assert [] == selected(leased, caller, condition), condition


def test_a_lessee_learns_nothing_of_hidden_fields(leased):
    for condition in (*TRUE, *FALSE):
        assert [] == selected(leased, "lessee-admin", condition), condition
        assert [leased.node] == selected(leased, "lessee-admin", f"not ({condition})"), condition
        both = f"driver=fake-hardware and not not ({condition})"
        assert [] == selected(leased, "lessee-admin", both), condition
    counts = leased.ask("lessee-admin", "GET", "/v1/provision_states?where=last_error~broke")
    assert 0 == counts.json["nodes"]


def test_an_expression_selects_within_the_scope_of_its_caller(leased):
    everything = "driver=fake-hardware or not driver=fake-hardware or *"
    assert [leased.node] == selected(leased, "lessee-reader", everything)
    assert [] == selected(leased, "other-admin", everything)
    assert [] == selected(leased, "other-admin", f"owner={OTHER} or owner!={OTHER}")
    assert {leased.node, leased.foreign} == {*selected(leased, "system-reader", everything)}
