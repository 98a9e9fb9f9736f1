"""Counts of nodes by provision state: GET /v1/provision_states."""

import pytest

from app.lifecycle.provision_states import State


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request):
    return request.param


@pytest.fixture
def fleet(api):
    """Nodes in several states, one of them a child of another."""
    large = {"resource_class": "large"}
    parent = api.node(provision_state="active", **large)["uuid"]
    api.node(provision_state="active")
    api.node(provision_state="active", parent_node=parent)
    api.node(provision_state="deploy failed", maintenance=True, **large)
    return parent


def counted(api, query=""):
    answer = api("GET", f"/v1/provision_states{query}")
    assert 200 == answer.status_code, answer.text
    counts = {state["provision_state"]: state["nodes"] for state in answer.json["provision_states"]}
    assert answer.json["nodes"] == sum(counts.values())
    return counts


def test_an_empty_fleet_has_no_counts(api):
    assert {} == counted(api)


def test_the_states_are_in_their_order_and_children_are_not_counted(api, fleet):
    assert {"deploy failed": 1, "active": 2} == counted(api)
    order = list(State)
    assert sorted(counted(api), key=order.index) == list(counted(api))
    assert {"deploy failed": 1, "active": 3} == counted(api, "?include_children=true")


@pytest.mark.parametrize(
    "query",
    [
        "resource_class=large", "resource_class=small", "maintenance=true", "maintenance=false",
        "provision_state=active", "associated=false", "include_children=true", "sharded=false",
        "description_contains=x", "driver=fake-hardware", "project=p1", "fault=clean%20failure",
        "resource_class=large&maintenance=false&associated=false", "owner=p1&resource_class=large",
        "provision_state=active&maintenance=true",
    ],
)  # fmt: skip
def test_the_counts_are_those_of_the_list_with_the_same_filters(api, fleet, query):
    nodes = api("GET", f"/v1/nodes?fields=provision_state&{query}").json["nodes"]
    states = [node["provision_state"] for node in nodes]
    assert {state: states.count(state) for state in set(states)} == counted(api, f"?{query}")


def test_the_children_of_a_node_are_counted_by_the_filter_of_their_parent(api, fleet):
    assert {"active": 1} == counted(api, f"?parent_node={fleet}")


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("provision_state=nonesuch", "provision_state"), ("conductor=rack-1", "conductor"),
        ("limit=1", "limit"), ("maintenance=perhaps", "maintenance"),
    ],
)  # fmt: skip
def test_a_bad_filter_is_refused_by_its_name(api, query, parameter):
    answer = api("GET", f"/v1/provision_states?{query}")
    assert 400 == answer.status_code
    assert parameter in answer.text
